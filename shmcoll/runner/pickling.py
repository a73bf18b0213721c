"""How a call of `shmcoll.run` is pickled: with cloudpickle, and five extensions.

* An array in shared memory (`shared_memory.py`) is sent as a handle. Its descriptor goes with the call.
* Functions keep the name of their file, which cloudpickle 3.1.3 and later leave out. The source lines of functions that
  are in no file, such as those of a notebook's cell, go with the call. So a rank's traceback shows the lines.
* A communicator, or an object that depends on one, is refused with a text that says what to do.
* Ranks that stay keep their global variables (`KnownGlobals`).
"""

import contextlib
import functools
import hashlib
import io
import linecache
import os
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from shmcoll.runner import shared_memory
from shmcoll.runner.shared_memory import Region

MOST_SHARED = 200  # arrays of one call; the kernel passes 253 descriptors at once

#: classes of objects that belong to the process that made them: module, name, and what to do instead
_LOCAL = (
    ("shmcoll.communicator.communicator", "Communicator", "a communicator"),
    ("shmcoll.communicator.grid", "Grid", "the grid of a communicator"),
    ("shmcoll.communicator.plans", "Plan", "the plan of a communicator"),
    ("shmcoll.runtime.work", "Work", "an asynchronous call of a communicator"),
)


class Unsendable(TypeError):
    """An object that belongs to one process was to be sent to another. The text says what to do."""


class Sending:
    """What is sent with the pickles of one call of `function`.

    regions: the memory of shared arrays, in the order of their descriptors. sources: lines of files that ranks cannot
    read, by name. known: the globals that the ranks have already; None for ranks that do not stay.
    """

    def __init__(self, function: Any = None, known: "KnownGlobals | None" = None) -> None:
        self._module = _module_to_send(function)
        self.regions: list[Region] = []
        self.sources: dict[str, list[str]] = {}
        self.known = known

    def dump(self, value: Any, file: Any) -> None:
        with _by_value(self._module):
            CallPickler(file, self).dump(value)

    def dumps(self, value: Any) -> bytes:
        with io.BytesIO() as file:
            self.dump(value, file)
            return file.getvalue()

    def descriptors(self) -> list[int]:
        return [region.fd for region in self.regions]

    def index_of(self, region: Region) -> int:
        """Return the number of a region's descriptor among those of the call."""
        for index, one in enumerate(self.regions):
            if one is region:
                return index
        if len(self.regions) == MOST_SHARED:
            raise Unsendable(
                f"a call takes at most {MOST_SHARED} shared arrays; put several into one array and pass views of it"
            )
        self.regions.append(region)
        return len(self.regions) - 1

    def keep_source(self, code: CodeType, names: dict[str, Any]) -> None:
        """Send the lines of a function with the call, unless a rank can read its file."""
        name = code.co_filename
        is_unreadable = name not in self.sources and not os.path.exists(name)  # noqa: PTH110  # it may be no path
        if is_unreadable and (lines := linecache.getlines(name, names)):
            self.sources[name] = lines


class CallPickler(cloudpickle.Pickler):
    """The pickler described at the top of this file. For the way back `sending` is None, and shared arrays are pickled
    by value."""

    def __init__(self, file: Any, sending: Sending | None):
        super().__init__(file, protocol=5)
        self._sending = sending
        self._local = tuple(_local_types())

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is np.ndarray:
            return self._array(obj)
        if type(obj) is CodeType:
            return code_of, (*self.dispatch_table[CodeType](obj), obj.co_filename)
        for kind, name in self._local:
            if isinstance(obj, kind):
                raise Unsendable(f"it contains {name}, which belongs to the process that made it; {self._advice()}")
        reduced = super().reducer_override(obj)
        if isinstance(obj, FunctionType) and reduced is not NotImplemented and self._sending:
            self._sending.keep_source(obj.__code__, obj.__globals__)
            if self._sending.known is not None:
                return self._sending.known.reduced(obj, reduced)
        return reduced

    def _array(self, array: np.ndarray) -> Any:
        region = shared_memory.region_of(array)
        if region is None or array.size == 0 or self._sending is None:
            return NotImplemented
        index = self._sending.index_of(region)
        return shared_memory.array_of, (shared_memory.handle(array, region, index),)

    def _advice(self) -> str:
        if self._sending is None:
            return "return the numbers and arrays that the caller needs"
        return "call shmcoll.init() in the function: it returns the communicator of the rank that calls it"


def code_of(make: Callable[..., CodeType], arguments: tuple[Any, ...], filename: str) -> CodeType:
    """Return, in a rank, the code that cloudpickle makes of these arguments, with the name of its file."""
    return make(*arguments).replace(co_filename=filename)


def dump_result(value: Any, file: Any) -> None:
    """Pickle the result of a rank."""
    CallPickler(file, None).dump(value)


class KnownGlobals:
    """The global variables that ranks which stay have received, as their caller knows them.

    Functions that are pickled by value come with the global variables that they use. In ranks that stay, all functions
    of one module have the same globals (`namespace`), from call to call. A variable is sent if the pickle of the
    caller's value has changed since it was sent last. Otherwise the ranks keep their own value, which they may have
    changed: a function sees what an earlier call has bound or filled.
    """

    def __init__(self) -> None:
        self._sent: dict[tuple[str, str], bytes] = {}
        self._now: dict[tuple[str, str], bytes] = {}

    def reduced(self, function: FunctionType, reduced: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return how cloudpickle reduces a function, without the globals that the ranks have."""
        make, (code, _, *rest), (state, slots), *others = reduced
        module = function.__globals__.get("__name__", "")
        kept = {name: value for name, value in slots["__globals__"].items() if self._is_news(module, name, value)}
        slots = {**slots, "__globals__": kept}
        return make, (code, _Namespace(module), *rest), (state, slots), *others

    def arrived(self) -> None:
        """Note that the ranks have received what was pickled since the last time."""
        self._sent |= self._now
        self._now = {}

    def discard(self) -> None:
        """Note that the ranks have not received it."""
        self._now = {}

    def _is_news(self, module: str, name: str, value: Any) -> bool:
        if isinstance(value, ModuleType):
            return True
        with io.BytesIO() as file:
            CallPickler(file, Sending()).dump(value)
            digest = hashlib.sha256(file.getbuffer()).digest()
        self._now[module, name] = digest
        return self._sent.get((module, name)) != digest


class _Namespace(dict[str, Any]):
    """The globals of a module in the rank, as they are in a pickle."""

    def __init__(self, module: str):
        super().__init__()
        self.module = module

    def __reduce_ex__(self, _: Any) -> tuple[Any, ...]:
        return namespace, (self.module,)


_namespaces: dict[str, dict[str, Any]] = {}


def namespace(module: str) -> dict[str, Any]:
    """Return, in a rank that stays, the globals of the functions that come from this module of the caller."""
    if module == "__main__":
        return vars(sys.modules[module])
    return _namespaces.setdefault(module, {"__name__": module})


def show_sources(sources: dict[str, list[str]]) -> None:
    """Make these lines available for tracebacks, in a rank."""
    for name, lines in sources.items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)


def _local_types() -> Iterator[tuple[type, str]]:
    for module, name, words in _LOCAL:
        if module in sys.modules:
            yield getattr(sys.modules[module], name), words


def _module_to_send(function: Any) -> ModuleType | None:
    """Return the module of a function, if ranks cannot import it. Modules of tests, as pytest loads them, are such
    modules."""
    while isinstance(function, functools.partial):
        function = function.func
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if module is None or module.__name__ == "__main__" or _importable(module.__name__):
        return None
    return module


@contextlib.contextmanager
def _by_value(module: ModuleType | None) -> Iterator[None]:
    """Send the contents of this module with the call."""
    if module is None:
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)


def _importable(name: str) -> bool:
    top = name.partition(".")[0]
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
    return any(finder.find_spec(top, None) for finder in finders)
