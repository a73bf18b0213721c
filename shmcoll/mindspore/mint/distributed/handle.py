"""What an asynchronous collective returns."""

from typing import Any

from shmcoll.runtime.work import Work


class CommHandle:
    """A pending collective. Its results may be read after `wait()`. It completes whether or not anybody waits, also if
    the handle is dropped.

    `CommHandle()` is complete.
    """

    def __init__(self, *works: Work[Any]):
        self._works = works

    def wait(self) -> None:
        """Wait until the collective is complete, or raise its error. Calling it again returns or raises the same."""
        for work in self._works:
            work.wait()

    def __repr__(self) -> str:
        return f"CommHandle(handle={', '.join(map(repr, self._works)) or None})"


def handle_of(work: Any, async_op: bool) -> CommHandle | None:
    """Return the handle of an asynchronous call; None for a call that has returned. work: what the call returned."""
    return CommHandle(work) if async_op else None
