"""Failures of asynchronous calls that the program has not waited for: they are logged, and the exit code is 1.

A failure is noted when a call fails, and forgotten when the program sees it (`wait`, `await`). It is printed on stderr
when the handle of the call is deleted, or when the process ends. From then on the exit code of the process will be 1.
The interpreter offers no way to change its exit code that late. So libc does it: the last functions that `exit` calls
are `fflush` and `_exit(1)`. A process that ends by `os._exit` calls `first`.

A group that has ended fails all calls that are pending on it. If a call of the program has raised the reason, or the
rank itself has failed, the program knows of the end, and the other failures are not printed.

A handle may be deleted in any thread and at any point, also by a garbage collection within this module. Therefore each
step is one operation on a dict, and there is no lock.
"""

import atexit
import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from shmcoll.engine.system import log


@dataclass(frozen=True, eq=False)
class Failure:
    """A call that has failed. told: makes the line for stderr, which is empty if the program knows already."""

    error: BaseException
    told: Callable[[], str]


_unseen: dict[Failure, None] = {}
_printed: list[BaseException] = []


def note(failure: Failure) -> None:
    """Keep a failure until the program sees it."""
    _unseen[failure] = None


def forget(failure: Failure) -> None:
    """Note that the program has seen a failure."""
    _unseen.pop(failure, None)


def tell(failure: Failure) -> None:
    """Print a failure that no handle can report any longer, unless it was already reported."""
    if failure not in _unseen:
        return
    if text := failure.told():
        _printed.append(failure.error)
        _end_with_one(os.getpid())
        log.error(text)
    forget(failure)


def tell_all() -> None:
    """Print all failures that the program has not seen."""
    for failure in list(_unseen):
        tell(failure)


def first() -> BaseException | None:
    """Return the first failure that has been printed."""
    return _printed[0] if _printed else None


@cache
@cache
def tell_at_exit(pid: int) -> None:
    """Have `tell_all` called in this process when it ends, after the exit handlers that are registered later than the
    first communicator. A handler for each would stay when the communicator is closed."""
    atexit.register(lambda: tell_all() if os.getpid() == pid else None)


@cache
def _end_with_one(_pid: int) -> None:
    libc = ctypes.CDLL(None)
    libc.__cxa_atexit.argtypes = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
    for function, argument in ((libc._exit, 1), (libc.fflush, None)):  # called in reverse order
        libc.__cxa_atexit(ctypes.cast(function, ctypes.c_void_p), argument, None)


def _forget_in_child() -> None:
    _unseen.clear()
    _printed.clear()


os.register_at_fork(after_in_child=_forget_in_child)
