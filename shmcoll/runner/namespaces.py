"""Global variables in ranks: those of functions that are sent by value, and what is found there by name.

Functions and classes of `__main__`, and of the called function's module if ranks cannot import it, are sent by value.
In a rank they are the contents of a module of the same name, with its global variables. So pickle finds them by name
there as it does in the caller, in objects for other ranks and for processes that the rank starts.

Other functions that are sent by value, such as lambdas of a module that ranks can import, leave that module alone. In
ranks that stay they share global variables per module.

Ranks that stay receive a variable if the pickle of the caller's value has changed since it was sent last. Otherwise
they keep their own value, which they may have changed: a function sees what an earlier call has bound or filled.
Functions in the items of `map`, and those of an executor, come with all their variables, because any rank may get them,
and with the versions of these. A rank that has received this version keeps its own value, too.
"""

import hashlib
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any, Protocol

import cloudpickle  # type: ignore[import-untyped]


class Globals(Protocol):
    """Says which global variables of a module are sent with a function."""

    def news(self, module: str, values: dict[str, Any]) -> dict[str, Any]: ...


class KnownGlobals:
    """The global variables that ranks which stay have received, as their caller knows them.

    pickled: returns the pickle of a value, whose functions are sent with the variables that its second argument says.
    """

    def __init__(self, pickled: Callable[[Any, Globals], bytes]) -> None:
        self._pickled = pickled
        self._sent: dict[tuple[str, str], bytes] = {}
        self.discard()

    def news(self, module: str, values: dict[str, Any]) -> dict[str, Any]:
        """Return the variables that the ranks do not have as they are, or whose functions use such variables."""
        return {name: value for name, value in values.items() if self._is_news((module, name), value)}

    def arrived(self) -> None:
        """Note that the ranks have received what was pickled since the last time."""
        self._sent |= self._now
        self.discard()

    def discard(self) -> None:
        """Note that the ranks have not received it."""
        self._now: dict[tuple[str, str], bytes] = {}
        self._news: dict[tuple[str, str], bool] = {}

    def _is_news(self, variable: tuple[str, str], value: Any) -> bool:
        if isinstance(value, ModuleType):
            return True
        if variable not in self._news:
            self._news[variable] = False  # meanwhile: functions may use each other
            used = _Used()
            self._now[variable] = digest = hashlib.sha256(self._pickled(value, used)).digest()
            uses_news = [name for name, values in used.found if self.news(name, values)]
            self._news[variable] = self._sent.get(variable) != digest or bool(uses_news)
        return self._news[variable]


class VersionedGlobals(KnownGlobals):
    """Sends all global variables with their versions, for ranks that do not all get the same functions: a rank that has
    received the same version before keeps its own value."""

    def news(self, module: str, values: dict[str, Any]) -> dict[str, Any]:
        super().news(module, values)
        versions = {name: digest for name in values if (digest := self._now.get((module, name)))}
        return _Versioned(module, versions, values)


class _Versioned(dict[str, Any]):
    """Global variables as they are in a pickle."""

    def __init__(self, module: str, versions: dict[str, bytes], values: dict[str, Any]):
        super().__init__(values)
        self._module, self._versions = module, versions

    def __reduce_ex__(self, _: Any) -> tuple[Any, ...]:
        return versioned, (self._module, self._versions, dict(self))


class _Used:
    """Sends no variables, and keeps those that functions use."""

    def __init__(self) -> None:
        self.found: list[tuple[str, dict[str, Any]]] = []

    def news(self, module: str, values: dict[str, Any]) -> dict[str, Any]:
        self.found.append((module, values))
        return {}


class Namespaces:
    """The modules whose contents one call sends. module: the called function's, if ranks cannot import it. known: None
    for ranks that do not stay."""

    def __init__(self, module: ModuleType | None, known: Globals | None):
        self._known = known
        self._modules = {"__main__": sys.modules["__main__"]} | ({module.__name__: module} if module else {})

    def of_function(self, function: FunctionType, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return how cloudpickle reduces a function, with the globals that it has in the rank."""
        name = function.__globals__.get("__name__", "")
        is_content = name in self._modules and vars(self._modules[name]) is function.__globals__
        if not is_content and self._known is None:
            return reduced
        make, (code, base, *rest), (state, slots), *others = reduced
        if self._known is not None:
            slots = {**slots, "__globals__": self._known.news(name, slots["__globals__"])}
        return make, (code, _Namespace(name, is_content, base), *rest), (state, slots), *others

    def by_name(self, value: FunctionType | type, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return how cloudpickle reduces a function or class, so that the rank finds it by name if the caller does."""
        module = self._modules.get(value.__module__)
        top, *inner = value.__qualname__.split(".")
        found = outer = vars(module).get(top) if module else None
        for name in inner:
            found = getattr(found, "__dict__", {}).get(name)
        if module is None or found is not value:
            return reduced
        make, arguments, *others = reduced
        return define, (module.__name__, value.__qualname__, outer if inner else None, make, arguments), *others


class _Namespace(dict[str, Any]):
    """The globals of a function in the rank, as they are in a pickle."""

    def __init__(self, *arguments: Any):
        super().__init__()
        self._arguments = arguments

    def __reduce_ex__(self, _: Any) -> tuple[Any, ...]:
        return namespace, self._arguments


# --- in the rank ------------------------------------------------------------------------------------------------------

_apart: dict[str, dict[str, Any]] = {}
_versions: dict[tuple[str, str], bytes] = {}


def versioned(module: str, versions: dict[str, bytes], values: dict[str, Any]) -> dict[str, Any]:
    """Return the variables that this rank has not received in this version."""
    news = {name: value for name, value in values.items() if _versions.get((module, name), b"") != versions.get(name)}
    _versions.update({(module, name): version for name, version in versions.items()})
    return news


def namespace(name: str, is_content: bool, base: dict[str, Any]) -> dict[str, Any]:
    """Return the globals of the functions that come from this module of the caller."""
    found = vars(_module(name)) if is_content else _apart.setdefault(name, {})
    found.update(base)
    return found


def define(module: str, name: str, outer: Any, make: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Return the function or class that cloudpickle makes of these arguments, as `name` of a module. outer: the class
    of the module that contains it, if it is not a variable of the module itself."""
    made = make(*arguments)
    made.__qualname__ = name
    if outer is None:
        vars(_module(module))[name] = made
    return made


def _module(name: str) -> ModuleType:
    if name not in sys.modules:
        parent = name.rpartition(".")[0]
        if parent:
            _module(parent)  # Python imports it first
        sys.modules[name] = ModuleType(name)
        cloudpickle.register_pickle_by_value(sys.modules[name])  # what a rank adds to it, the caller does not have
    return sys.modules[name]
