"""Ranges: parts of a program that its user names, for the timeline."""

import time
from typing import Any

from shmcoll.engine.system.tracebacks import shorten
from shmcoll.profiling import recorder
from shmcoll.profiling.recorder import IN_FRONT_END, IN_RANGE


class _Nothing:
    """The range while nothing is recorded. Its methods are functions in C that take these arguments and return
    something false: frames of Python would take twice as long."""

    __slots__ = ()
    __enter__ = staticmethod(bool)
    __exit__ = staticmethod("".format)


class _Range:
    """A range while calls are recorded."""

    __slots__ = ("_begun", "_kind", "_name")

    def __init__(self, name: str, kind: int):
        self._name, self._kind = name, kind

    def __enter__(self) -> None:
        self._begun = time.monotonic_ns()

    def __exit__(self, _kind: object, _error: object, _trace: object) -> None:
        if recorder.current:
            recorder.current.note(self._kind, self._name, self._begun)


_NOTHING = _Nothing()


def range(name: str) -> Any:
    """Name a part of the program: it is a slice of the timeline around the calls that it makes.

    Ranges may be nested. While nothing is recorded, a range costs about 0.1 us.

    Args:
        name: what the timeline shows.

    Returns:
        A context manager.

    Raises:
        TypeError: the name is not a string.

    Example:
        >>> with shmcoll.range("forward"):
        ...     loss = comm.all_reduce(np.ones(1))
    """
    try:
        if not isinstance(name, str):
            raise TypeError(f"range: the name must be a string, got {name!r}")
        return _NOTHING if recorder.current is None else _Range(name, IN_RANGE)
    except BaseException as error:
        shorten(error)
        raise


def front_end(name: str) -> Any:
    """Return a context manager that names a call of a front end as its users do."""
    return _NOTHING if recorder.current is None else _Range(name, IN_FRONT_END)
