"""What an asynchronous collective returns."""

from collections.abc import Callable
from typing import Any

from shmcoll.runtime.work import Work


class CommHandle:
    """A pending collective. Its results may be read after `wait()`. It completes whether or not anybody waits.

    `CommHandle()` is complete.
    """

    def __init__(self, work: Work[Any] | None = None, finish: Callable[[], None] | None = None):
        self._work = work
        self._finish = finish

    def wait(self) -> None:
        """Wait until the collective is complete, or raise its error. Calling it again returns or raises the same."""
        if self._work is not None:
            self._work.wait()
        if self._finish is not None:
            self._finish()
            self._finish = None

    def __repr__(self) -> str:
        return f"CommHandle(handle={self._work!r})"
