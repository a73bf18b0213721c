"""Calls of front ends in the timeline, by the names that their users know: slices around the calls of the communicator.

A front end whose functions share one place where they make their calls uses `named` there. Functions that do not are
replaced when the front end is imported, and only if SHMCOLL_TRACE says that the whole program is recorded. So nothing
is added to their calls otherwise.
"""

import functools
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from shmcoll.profiling import asked
from shmcoll.profiling.ranges import front_end


def named(name: str, call: Callable[[], Any]) -> Callable[[], Any]:
    """Return the same call, which is in the timeline under this name."""

    def recorded() -> Any:
        with front_end(name):
            return call()

    return recorded


def name_calls(title: str, module: ModuleType) -> None:
    """Name the functions that a module exports, and the calls of objects of its classes, if the program is recorded.

    title: what its users call the module.
    """
    if asked.now().trace is None:
        return
    made: dict[int, Any] = {}
    for name in module.__all__:
        one = getattr(module, name)
        if isinstance(one, FunctionType):
            made[id(one)] = if_traced(f"{title}.{name}", one)
        elif isinstance(one, type) and isinstance(one.__call__, FunctionType):
            one.__call__ = if_traced(f"{title}.{name}", one.__call__)  # type: ignore[method-assign]
    package = __package__.partition(".")[0]
    for other in [one for name, one in sys.modules.items() if name.startswith(package)]:
        for name, one in list(vars(other).items()):
            if id(one) in made:
                setattr(other, name, made[id(one)])


def if_traced(name: str, function: Any) -> Any:
    """Return a function whose calls have a name in the timeline, if the program is recorded; else the same function."""
    if asked.now().trace is None:
        return function

    @functools.wraps(function)
    def recorded(*args: Any, **keywords: Any) -> Any:
        with front_end(name):
            return function(*args, **keywords)

    return recorded
