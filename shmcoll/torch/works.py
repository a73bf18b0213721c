"""The handles of torch's calls.

A synchronous call returns `DONE`. An asynchronous call returns a `Pending`, around the `Work` of the communicator.

Who completes a future: the thread that ends the call sets the latch of the `Work`, and then calls `complete`. That
thread is the worker of the communicator, which has left its turn by then, or the thread that waits for a receive. So a
callback of the future may call collectives of any group, but a callback that runs in the worker must not wait for
asynchronous calls of the same group: that raises `CallNotAllowed`.

DDP's reducer reads tensors from the result of the future, and does not expect an exception there. So the result of a
call that has failed is never set. Torch makes an error of its own from what a callback of `then` raises, and only such
an error reaches C++.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from shmcoll.errors import ShmcollError
from shmcoll.runtime.work import Work
from shmcoll.torch.errors import as_torch, timed_out
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


class Pending(dist.Work):
    """The handle of an asynchronous call."""

    def __init__(
        self,
        operation: str,
        work: Work[Any],
        tensors: Sequence[torch.Tensor],
        finish: Callable[[Any], int] | None = None,
    ):
        """Wrap the `Work` of a call.

        Args:
            operation: the call in messages.
            work: its handle.
            tensors: what it writes, or else what it reads: they stay alive, and are the result of the future.
            finish: called once with the result of the call, by the first wait; returns the rank that has sent it.
        """
        super().__init__()
        self._operation = operation
        self._work = work
        self._tensors = list(tensors)
        self._finish = finish
        self._source = -1

    def wait(self, timeout: timedelta = _NO_LIMIT) -> bool:
        """Wait until the call has ended.

        Args:
            timeout: the limit of this wait; by default none. (The timeout of the group limits the call itself.)

        Returns:
            True.

        Raises:
            torch.distributed.DistBackendError: the call has failed, or has not ended within `timeout`.
        """
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
        return self._work.test()

    def is_success(self) -> bool:
        """Return whether the call has ended without an error."""
        return self._work.done() and self._failure() is None

    def exception(self) -> BaseException | None:
        """Return the error of a call that has ended; None if it has none, or goes on."""
        return self._failure() if self._work.done() else None

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

    def source_rank(self) -> int:
        """Return the rank in the group from which a receive has got its message, after `wait`."""
        return self._source

    _source_rank = source_rank

    def get_future(self) -> Any:
        """Return a future of the tensors."""

        ended: Any = torch.futures.Future()

        def outcome(_: Any) -> list[torch.Tensor]:
            return self.result()

        def complete() -> None:
            if not ended.done():
                ended.set_result(None)

        future = ended.then(outcome)
        self._work._latch.then(complete)
        return future


__all__ = ["DONE", "Done", "Pending"]
