"""Refusing calls on communicators while ranks work on different items (`shmcoll.map`, `shmcoll.Executor`).

A collective there would wait for ranks that never make it, or meet one that another item makes. So all communicators of
this process are shut meanwhile, and `shmcoll.init` makes no new one. They go on afterwards.
"""

import contextlib
import weakref
from collections.abc import Iterator
from typing import Protocol

from shmcoll.errors import CallNotAllowed


class Shuttable(Protocol):
    """The turns of a communicator (`turns.py`)."""

    @property
    def is_shut(self) -> bool: ...

    def shut(self) -> None: ...

    def reopen(self) -> None: ...


turns: "weakref.WeakSet[Shuttable]" = weakref.WeakSet()  # of all communicators of this process
_of = ""


@contextlib.contextmanager
def during(of: str) -> Iterator[None]:
    """Refuse all calls in the block. of: the function that users call, such as "shmcoll.map"."""
    global _of
    open_before = [one for one in turns if not one.is_shut]
    _of = of
    try:
        for one in open_before:
            one.shut()
        yield
    finally:
        _of = ""
        for one in open_before:
            one.reopen()


def check(operation: str) -> None:
    """Raise `CallNotAllowed` for a call in such a block."""
    if _of:
        raise CallNotAllowed(
            f"{operation} was called inside {_of}: its ranks work on different items, so they cannot make collectives "
            f"or send messages to each other. Use shmcoll.run, or Ranks.run, for a function that all ranks call",
            operation=operation,
        )
