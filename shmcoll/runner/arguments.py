"""The arguments of `shmcoll.run`, `map` and `ranks`: checked before anything is started."""

import inspect
import operator
import os
import sys
from collections.abc import Callable
from typing import Any

from shmcoll.engine.layout import CELL_BYTES, most_ranks
from shmcoll.errors import CallNotAllowed

_METHODS = ("fork", "spawn")
_REACTIONS = ("stop", "continue")


def check_function(fn: Any) -> None:
    if not callable(fn):
        raise TypeError(f"fn must be callable, got {fn!r} of type {type(fn).__name__}")


def number_of_ranks(n: Any, name: str) -> int:
    """Return the argument `name` as a number of ranks."""
    try:
        number = operator.index(n)
    except TypeError:
        number = None
    if number is None or isinstance(n, bool):
        raise TypeError(f"{name} must be an int, got {n!r} of type {type(n).__name__}")
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {n}")
    if number > (most := most_ranks(CELL_BYTES)):
        raise ValueError(f"{name} must be at most {most}, got {n}")
    return number


def check_timeout(timeout: Any) -> None:
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout must be a number of seconds or None, got {timeout!r}")
    if not 0 < timeout <= 1e9:
        raise ValueError(f"timeout must be a positive number of seconds, got {timeout!r}")


def check_method(method: Any) -> None:
    if method not in _METHODS:
        raise ValueError(f"method must be 'fork' or 'spawn', got {method!r}")


def check_reaction(on_failure: Any) -> None:
    if on_failure not in _REACTIONS:
        raise ValueError(f"on_failure must be 'stop' or 'continue', got {on_failure!r}")


def check_clear(of: str, fn: Callable[..., Any], args: tuple[Any, ...], options: dict[str, tuple[Any, Any]]) -> None:
    """Refuse an option that may be meant for the function. options: the value and the default of each.

    An option is unclear if the function has a parameter of the same name to which no other argument gives a value.
    """
    given = [name for name, (value, default) in options.items() if value is not default and value != default]
    if not given:
        return
    try:
        signature = inspect.signature(fn)
        free = set(signature.parameters) - set(signature.bind_partial(*args).arguments)
    except (TypeError, ValueError):  # a builtin without a signature, or arguments that its call will refuse
        return
    free -= set(getattr(fn, "keywords", None) or ())  # the parameters that a functools.partial has bound
    for name in given:
        parameter = signature.parameters.get(name)
        if (
            name in free
            and parameter is not None
            and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        ):
            raise TypeError(
                f"{name}={options[name][0]!r} is unclear: {of} and the function {_name(fn)} both have a parameter "
                f"{name}. For the function, bind it: functools.partial(fn, {name}=...). For {of}, bind the function's "
                f"as well, or give it by position."
            )


def refuse_ranks(of: str) -> None:
    """Refuse to start ranks from a rank: they would use its peers' cores, and its environment would make them its
    peers."""
    job = sys.modules.get("shmcoll.startup.join")
    pid, comm = getattr(job, "_joined", None) or (0, None)
    joined = comm is not None and pid == os.getpid() and comm.launcher != "none"
    if joined or os.environ.get("SHMCOLL_ARENA"):
        rank = comm.rank if comm is not None and joined else os.environ.get("RANK", "?")
        raise CallNotAllowed(
            f"{of} was called by rank {rank} of a job; call it from a process that is not a rank, "
            f"or start all the ranks that you need at once"
        )


def _name(fn: Any) -> str:
    return getattr(fn, "__qualname__", None) or repr(fn)
