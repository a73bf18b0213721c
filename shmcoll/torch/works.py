"""The handles of torch's calls.

A synchronous call returns `DONE`. An asynchronous call returns a `Pending`, around the `Work` of the communicator.

Who completes a future. The worker makes a collective, and then completes its futures within the turn of that call. So
the callbacks run there, and what they call on the same group is made at once, before any other call of the group: the
order is the same on all ranks, and no callback waits for the worker that runs it. A callback that waits for a call
behind its own in the line makes the calls up to that one, also if it waits for a future (`futures.py`). If a thread
asks for a future after the call was made, it completes the future itself: it adds the future to the list, then reads
whether the call was made; the worker notes that the call was made, then reads the list; each future leaves the list
once. The futures of a receive, and those of a call that has failed, are completed by the thread that sets the latch of
the `Work`.

DDP's reducer reads tensors from the result of the future, and does not expect an exception there. So the result of a
call that has failed is never set. Torch makes an error of its own from what a callback of `then` raises, and only such
an error reaches C++.
"""

import contextlib
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from shmcoll.communicator import Communicator
from shmcoll.errors import ShmcollError
from shmcoll.runtime.work import Work
from shmcoll.torch.errors import as_torch, on_its_own_line, timed_out
from shmcoll.torch.futures import follow, runs_callbacks
from shmcoll.torch.tensors import seconds

_NO_LIMIT = timedelta(0)


class Done(dist.Work):
    """The handle of a call that has ended before it returned."""

    def wait(self, timeout: timedelta = _NO_LIMIT) -> bool:
        """Return True at once."""
        return True

    def is_completed(self) -> bool:
        """Return True."""
        return True

    def is_success(self) -> bool:
        """Return True."""
        return True

    def exception(self) -> None:
        """Return None."""

    def synchronize(self) -> None:
        """Return at once."""


DONE = Done()


class _Asked(threading.local):
    """What this thread has last asked for a future: see `handles.py`."""

    handle: Any = None
    is_only_asked = False


asked = _Asked()


class Pending(dist.Work):
    """The handle of an asynchronous call."""

    def __init__(
        self,
        operation: str,
        work: Work[Any] | None,
        tensors: Sequence[torch.Tensor],
        finish: Callable[[Any], int] | None = None,
    ):
        """Wrap the `Work` of a call.

        Args:
            operation: the call in messages.
            work: its handle; None if `submit` sets it.
            tensors: what it writes, or else what it reads: they stay alive, and are the result of the future.
            finish: called once with the result of the call, by the first wait; returns the rank that has sent it.
        """
        super().__init__()
        self._operation = operation
        self._work: Any = work
        self._tensors = list(tensors)
        self._finish = finish
        self._source = -1
        self._is_made = False  # successfully; its `Work` ends a moment later
        self._futures: list[Any] = []

    def wait(self, timeout: timedelta = _NO_LIMIT) -> bool:
        """Wait until the call has ended.

        Args:
            timeout: the limit of this wait; by default none. (The timeout of the group limits the call itself.)

        Returns:
            True.

        Raises:
            torch.distributed.DistBackendError: the call has failed, or has not ended within `timeout`.
        """
        if self._is_made:
            return True
        self.make_up_to_here()
        limit = seconds(timeout)
        try:
            result = self._work.wait(limit)
        except TimeoutError:
            raise timed_out(self._operation, limit or 0.0) from None
        except ShmcollError as error:
            raise as_torch(error) from error.__cause__
        finish, self._finish = self._finish, None
        if finish is not None:
            self._source = finish(result)
        return True

    def is_completed(self) -> bool:
        """Return whether the call has ended, with a result or with an error."""
        return self._is_made or self._work.test()

    def is_success(self) -> bool:
        """Return whether the call has ended without an error."""
        return self._is_made or (self._work.done() and self._failure() is None)

    def exception(self) -> BaseException | None:
        """Return the error of a call that has ended; None if it has none, or goes on."""
        return self._failure() if self._work.done() and not self._is_made else None

    def _failure(self) -> BaseException | None:
        error = self._work.exception()
        return as_torch(error) if isinstance(error, ShmcollError) else error

    def synchronize(self) -> None:
        """Wait until the call has ended."""
        self.wait()

    def result(self) -> list[torch.Tensor]:
        """Wait until the call has ended, and return its tensors."""
        self.wait()
        return self._tensors

    def _outcome(self) -> list[torch.Tensor]:
        """Return the result for a future. Torch puts words of its own before an error."""
        try:
            return self.result()
        except ShmcollError as error:
            raise on_its_own_line(error) from None

    def source_rank(self) -> int:
        """Return the rank in the group from which a receive has got its message, after `wait`."""
        return self._source

    _source_rank = source_rank

    def get_future(self) -> Any:
        """Return a future of the tensors."""
        asked.handle = self
        if asked.is_only_asked:
            return torch.futures.Future()
        self.make_up_to_here()
        if self._tensors and self._tensors[0].dtype is torch.float16 and _is_asked_in_native_code():
            self.wait()  # the built-in FP16 hook wants a list of tensors that is not Python's: torch makes none later
            return torch._C.fork(self.result)
        return self.future()

    def future(self) -> Any:
        """Return a future of the tensors, for Python."""
        ended: Any = torch.futures.Future()
        future = ended.then(lambda _: self._outcome())
        self._futures.append(ended)
        if self._is_made:
            self._complete()
        else:
            self._work._latch.then(self._complete)
        return follow(future, [self])

    def _complete(self) -> None:
        """Complete the futures, each once."""
        with contextlib.suppress(IndexError):  # another thread has taken it
            while self._futures:
                self._futures.pop(0).set_result(None)

    def make_up_to_here(self) -> None:
        """Make this call if a callback of an earlier call waits for it."""
        worker = self._work._worker
        if not self._is_made and worker.is_me():
            worker.make_up_to(self._work)


def _is_asked_in_native_code() -> bool:
    """Return whether native code, and not Python, has called `get_future`.

    Torch's native code does so beneath torch's own functions, `_engine_run_backward` or those of DDP. They do not name
    `get_future`, and a function that calls it by its name does.
    """
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("shmcoll."):
        frame = frame.f_back
    return frame is None or "get_future" not in frame.f_code.co_names


def submit(comm: Communicator, operation: str, call: Callable[[], Any], tensors: Sequence[torch.Tensor]) -> Pending:
    """Have the worker make a collective; make it at once in the turn of another call, where callbacks run.

    Args:
        comm: the communicator.
        operation: the call in messages.
        call: makes it.
        tensors: what it writes.

    Returns:
        The handle.
    """
    pending, worker = Pending(operation, None, tensors), comm._dispatcher.worker

    def make() -> None:
        call()
        pending._is_made = True
        if pending._futures:
            runs_callbacks(comm)
            pending._complete()

    if worker.turns.is_mine():
        result = None
        try:
            make()
        except ShmcollError as error:
            result = error
        pending._work = worker.ended(result)
    else:
        pending._work = worker.submit(make, collective=operation)
    return pending


__all__ = ["DONE", "Done", "Pending", "asked", "submit"]
