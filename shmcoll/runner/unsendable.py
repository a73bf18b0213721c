"""Texts about objects that cannot be pickled: which argument, variable or item it is, and what to do instead."""

import contextlib
import inspect
from collections.abc import Iterable, Iterator
from types import CoroutineType, FunctionType, GeneratorType
from typing import Any

from shmcoll.engine.system.handlers import reraise_of_handler
from shmcoll.errors import ArenaError, CallNotAllowed
from shmcoll.runner.pickling import Sending, Unsendable

_INSTEAD = {GeneratorType: "make a list of it", CoroutineType: "give it to asyncio.run in the function"}


@contextlib.contextmanager
def unsendable_in_words(*parts: tuple[str, Any]) -> Iterator[None]:
    """Raise a `TypeError` for an object that cannot be pickled. It names the one of these parts, each with its name.
    Errors about memory are not errors of a type, and stay."""
    try:
        yield
    except (MemoryError, OSError, ArenaError, CallNotAllowed):
        raise
    except Unsendable as e:
        raise TypeError(f"the function or an argument cannot be sent to the ranks: {e}{culprit(parts)}") from None
    except Exception as e:
        reraise_of_handler(e)
        text = f"{type(e).__name__}: {e}{culprit(parts)}"
        raise TypeError(f"the function or an argument cannot be sent to the ranks: {text}") from e


def culprit(parts: Iterable[tuple[str, Any]]) -> str:
    """Return the name of the first part that cannot be pickled, or of what such a function uses."""
    return next((f"; it is in {_inner(name, value, set())}" for name, value in parts if not _can_be_sent(value)), "")


def instead(value: Any) -> str:
    """Return what to do about a value of this type."""
    return f"; {_INSTEAD[type(value)]}" if type(value) in _INSTEAD else ""


def _inner(name: str, value: Any, seen: set[int]) -> str:
    seen.add(id(value))
    with contextlib.suppress(ValueError):  # a variable of the outer function that has no value yet
        used = inspect.getclosurevars(value) if isinstance(value, FunctionType) else None
        for kind, variables in (("variable", used.nonlocals), ("global variable", used.globals)) if used else ():
            for one, inner in variables.items():
                if id(inner) not in seen and not _can_be_sent(inner):
                    return _inner(f"the {kind} {one!r} of {value.__qualname__}", inner, seen)
    return name + instead(value)


def _can_be_sent(value: Any) -> bool:
    try:
        Sending().dumps(value)
    except Exception as e:
        reraise_of_handler(e)
        return False
    return True
