"""What an asynchronous collective returns."""

from collections.abc import Callable

from shmcoll.runtime.async_worker import Work


class CommHandle:
    """A pending collective; its results may be read after `wait()`. It completes whether or not anybody waits.

    A handle of nothing, `CommHandle()`, is complete.
    """

    def __init__(self, work: Work | None = None, finish: Callable[[], None] | None = None):
        self._work = work
        self._finish = finish

    def wait(self) -> None:
        """Return when the collective is complete, or raise its error. Again: at once, the same."""
        if self._work is not None:
            self._work.wait()
        if self._finish is not None:
            self._finish()
            self._finish = None

    def __repr__(self) -> str:
        return f"CommHandle(handle={self._work!r})"
