"""What an asynchronous collective returns."""

from collections.abc import Sequence
from typing import Any

from shmcoll.runtime.work import Work


class CommHandle:
    """A pending collective. Its results may be read after `wait()`. It completes whether or not anybody waits, also if
    the handle is dropped.

    Functions with `async_op=True` return one, whose attribute `handle` is the `shmcoll.Work` of the call.
    `CommHandle()` is complete.

    Args:
        handle: an object whose `wait()` waits for the collective, such as another handle. It becomes an attribute.
        exec_sync: becomes an attribute, and has no effect. In MindSpore, `wait()` then waits for the whole device.
    """

    def __init__(self, handle: Any = None, exec_sync: bool = False):
        self.handle, self.exec_sync = handle, exec_sync

    def wait(self) -> None:
        """Wait until the collective is complete, or raise its error. Calling it again returns or raises the same."""
        if self.handle is not None:
            self.handle.wait()

    def __repr__(self) -> str:
        return f"CommHandle(handle={self.handle!r})"


Result = tuple[Any, CommHandle | None]  # of a function that returns a tensor


class Works:
    """The messages of a batch, behind one handle."""

    def __init__(self, works: Sequence[Work[Any]]):
        self._works = works

    def wait(self) -> None:
        """Wait for all, or raise the error of the first that failed."""
        for work in self._works:
            work.wait()

    def __repr__(self) -> str:
        return ", ".join(map(repr, self._works))


def handle_of(work: Any, async_op: bool) -> CommHandle | None:
    """Return the handle of an asynchronous call; None for a call that has returned. work: what the call returned."""
    return CommHandle(work) if async_op else None
