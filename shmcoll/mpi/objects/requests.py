"""Requests: operations that a program has started and will wait for.

A request is active from its start until a wait or a test has seen it complete. Then it is freed, or, if it is
persistent, it can be started again. What waits for several requests asks each whether it is complete, and lets the
worker of asynchronous calls run meanwhile.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll.engine.system.handlers import reraise_of_handler
from shmcoll.errors import Cancelled
from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.objects.buffers import Buffer
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.handles import REQUEST
from shmcoll.mpi.objects.scratch import scratch
from shmcoll.mpi.objects.status import EMPTY, Status


class Request:
    """One operation. comm: whose error handler sees its errors."""

    handle = REQUEST.null
    is_persistent = False
    _work: Any = None  # of shmcoll

    def __init__(self, comm: Any):
        self.comm = comm
        self.is_active = True
        self.status = EMPTY
        self.error: BaseException | None = None  # what a test has raised

    @property
    def errhandler(self) -> Any:
        return self.comm.errhandler

    @property
    def site(self) -> Any:
        """Where the program has started it: a file and a line; None if that is not known."""
        return getattr(self._work, "site", None)

    def test(self) -> bool:
        """Return whether it is complete, without waiting. Raises what has gone wrong."""
        raise NotImplementedError

    def test_or_failed(self) -> bool:
        """Return whether a wait would return or raise at once."""
        try:
            return self.test()
        except Exception as error:
            reraise_of_handler(error)
            self.error = error
            return True

    def wait(self) -> None:
        """Wait until it is complete. Raises what has gone wrong."""
        raise NotImplementedError

    def free(self) -> None:
        """Let it complete by itself."""

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
        if self.error is not None:
            raise self.error
        if self._work is not None:
            work, self._work = self._work, None
            self.status = self._after(work.wait())


def added(request: Request) -> Request:
    """Give a request a handle, and return it."""
    REQUEST.add(request)
    return request


class ReceiveRequest(Request):
    """A receive that is posted. source: the rank in the native communicator; None for nobody. into_own: receive into
    memory of our own first, because the program's is still being sent."""

    def __init__(self, comm: Any, buffer: Buffer, source: int | None, tag: int, *, into_own: bool = False):
        super().__init__(comm)
        self._buffer = buffer
        self._target = scratch(buffer.bytes) if into_own else buffer.target()
        self._is_own = into_own
        self._source, self._tag = source, tag
        self._work: Any = None if source is None else comm.messages.recv(self._target, source, tag, async_op=True)
        self._is_over = source is None
        self.after: Request | None = None  # a send that ends with it
        if source is None:
            self.status = Status(c["MPI_PROC_NULL"])

    def test(self) -> bool:
        if self.after is not None and not self.after.test():
            return False
        if not self._is_over and not self._work.test():
            return False
        self.wait()
        return True

    def wait(self) -> None:
        if self.error is not None:
            raise self.error
        if self.after is not None:
            self.after.wait()
        if self._is_over:
            return
        try:
            data, source, tag = self._work.wait()
        except Cancelled:
            self.status = Status(is_cancelled=True)
        except ValueError:
            # In MPI it is received, and cut
            self.error = truncated(self._buffer, self.comm.messages.mprobe(self._source, self._tag).envelope, self.comm)
            raise self.error from None
        else:
            (self._buffer.fill_from if self._is_own else self._buffer.fill)(data)
            self.status = Status(self.comm.from_native(source), tag, 0, data.size)
        self._is_over = True

    def cancel(self) -> None:
        if not self._is_over:
            self._work.cancel()


def truncated(buffer: Buffer, envelope: Any, comm: Any) -> MPIError:
    """Return the error of a message that is longer than its receive."""
    source, tag, _, shape = envelope
    return MPIError(
        "MPI_ERR_TRUNCATE",
        f"the message of rank {comm.from_native(source)} with tag {tag} has {int(np.prod(shape))} bytes, and the "
        f"receive {buffer.bytes}",
    )


class PersistentRequest(Request):
    """A request that can be started again. begin: starts it, and returns the request of that once."""

    is_persistent = True

    def __init__(self, comm: Any, begin: Callable[[], Request]):
        super().__init__(comm)
        self.is_active = False
        self._begin = begin
        self._once: Request | None = None

    def start(self) -> None:
        if self.is_active:
            raise MPIError("MPI_ERR_REQUEST", "a request that is active cannot be started")
        self._once, self.is_active = self._begin(), True

    def test(self) -> bool:
        return self._once is None or self._once.test()

    def wait(self) -> None:
        if self._once is not None:
            self._once.wait()
            self.status = self._once.status

    def cancel(self) -> None:
        if self._once is not None:
            self._once.cancel()
