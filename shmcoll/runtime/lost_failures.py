"""Failures of asynchronous calls that nobody has waited for: they are told, and the process does not end with 0.

A failure is noted when a call fails, and forgotten when somebody sees it (`wait`, `await`). It is told on stderr when
the handle of the call goes, or when the process ends. From then on the process ends with code 1. The interpreter offers
no way to change its exit code that late, so libc is asked: the last thing that `exit` calls is `_exit(1)`, after
`fflush`. A process that ends by `os._exit` asks `first`.

A group that has ended fails all calls that are pending on it. If a call of the program has raised the reason, or the
rank itself has failed, the program knows of the end, and the rest is not told.

A handle may go in any thread and at any point, a garbage collection within this module included. Therefore each step is
one operation on a dict, and there is no lock.
"""

import atexit
import ctypes
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, eq=False)
class Failure:
    """A call that has failed. `told`: one line for stderr, empty if the program knows already."""

    error: BaseException
    told: Callable[[], str]


_unseen: dict[Failure, None] = {}
_told: list[BaseException] = []


def note(failure: Failure) -> None:
    """Keep a failure until somebody sees it."""
    _unseen[failure] = None


def forget(failure: Failure) -> None:
    """Note that somebody has seen a failure."""
    _unseen.pop(failure, None)


def tell(failure: Failure) -> None:
    """Tell a failure that nobody can see any more, unless somebody has seen it."""
    if failure not in _unseen:
        return
    if text := failure.told():
        _told.append(failure.error)
        _end_with_one(os.getpid())
        print(f"shmcoll: {text}", file=sys.stderr, flush=True)
    forget(failure)


def tell_all() -> None:
    """Tell all failures that nobody has seen."""
    for failure in list(_unseen):
        tell(failure)


def first() -> BaseException | None:
    """Return the first failure that has been told."""
    return _told[0] if _told else None


@cache
def tell_at_exit(pid: int) -> None:
    """Have `tell_all` called in this process when it ends, after the exit handlers that are registered later."""
    atexit.register(lambda: tell_all() if os.getpid() == pid else None)


@cache
def _end_with_one(_pid: int) -> None:
    libc = ctypes.CDLL(None)
    libc.__cxa_atexit.argtypes = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
    for function, argument in ((libc._exit, 1), (libc.fflush, None)):  # called in reverse order
        libc.__cxa_atexit(ctypes.cast(function, ctypes.c_void_p), argument, None)


def _forget_in_child() -> None:
    _unseen.clear()
    _told.clear()


os.register_at_fork(after_in_child=_forget_in_child)
