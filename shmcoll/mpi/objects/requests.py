"""Requests: operations that a program has started and will wait for.

A request is active from its start until a wait or a test has seen it complete. Then it is freed, or, if it is
persistent, it can be started again. What waits for several requests asks each whether it is complete, and lets the
worker of asynchronous calls run meanwhile.
"""

from collections.abc import Callable
from typing import Any

from shmcoll.mpi.objects.handles import REQUEST
from shmcoll.mpi.objects.status import EMPTY, Status


class Request:
    """One operation. comm: whose error handler sees its errors."""

    handle = REQUEST.null
    is_persistent = False

    def __init__(self, comm: Any):
        self.comm = comm
        self.is_active = True
        self.status = EMPTY

    @property
    def errhandler(self) -> Any:
        return self.comm.errhandler

    def test(self) -> bool:
        """Return whether it is complete, without waiting. Raises what has gone wrong."""
        raise NotImplementedError

    def wait(self) -> None:
        """Wait until it is complete. Raises what has gone wrong."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Ask for its end. It may complete as if it had not been asked."""

    def start(self) -> None:
        """Start it again, if it is persistent."""
        raise NotImplementedError


class WorkRequest(Request):
    """What a `Work` of shmcoll does. after: called once, with what the work has returned, before it is complete; it
    returns the status."""

    def __init__(self, comm: Any, work: Any, after: Callable[[Any], Status] = lambda _: EMPTY):
        super().__init__(comm)
        self._work, self._after = work, after

    def test(self) -> bool:
        if self._work is not None and not self._work.test():
            return False
        self.wait()
        return True

    def wait(self) -> None:
        if self._work is not None:
            work, self._work = self._work, None
            self.status = self._after(work.wait())
