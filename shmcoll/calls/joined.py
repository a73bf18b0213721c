"""The handle of several calls that are one call for the user: a send and a receive, or messages with all neighbours."""

from collections.abc import Callable, Sequence
from typing import Any

from shmcoll.errors import Cancelled
from shmcoll.runtime.dispatcher import Dispatcher
from shmcoll.runtime.work import Work


class Joined(Work[Any]):
    """A handle that ends with the last of its parts. finish: makes the user's result from theirs, at its first use.

    The parts keep their errors. So this handle is settled without a value, and two threads that end two parts may
    settle it at the same time.
    """

    is_receive = True

    def __init__(self, dispatcher: Dispatcher, parts: Sequence[Work[Any]], finish: Callable[[list[Any]], Any]):
        super().__init__(dispatcher.worker, next((part.site for part in parts if part.site), None))
        self._parts, self._finish = parts, finish
        self._finished: list[Any] = []  # the result
        for part in parts:
            part._latch.then(self._note)
        self._note()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """See `Work.exception`."""
        self._wait_for_end(timeout)
        try:
            self._outcome()
        except Cancelled:
            raise
        except BaseException as error:
            return error
        return None

    def _help(self) -> None:
        """See `Work._help`."""
        for part in self._parts:
            if not part.done():
                part._help()

    def _note(self) -> None:
        if all(part.done() for part in self._parts):
            self.settle(None)

    def _outcome(self) -> Any:
        """Return the result, or the first error of a part; all of them count as seen."""
        self._count_as_seen()
        errors = [error for part in self._parts if (error := _error(part)) is not None]
        if errors:
            raise errors[0] from (errors[1] if len(errors) > 1 else None)
        if not self._finished:
            self._finished.append(self._finish([part.wait() for part in self._parts]))
        return self._finished[0]


def _error(part: Work[Any]) -> BaseException | None:
    try:
        return part.exception()
    except Cancelled as cancelled:
        return cancelled
