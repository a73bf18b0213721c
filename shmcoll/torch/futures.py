"""Futures for which callbacks wait.

The worker of a group runs the callbacks of its calls. A callback may wait for a future that the program took before,
from a call behind its own in the line, and nobody but the worker makes that call. So torch's futures get other methods:
`get_future`, `then` and `collect_all` note on which calls a future depends, and `wait` has the worker make these calls
first. In a thread that is not within the turn of a call, they do what torch's do.

Why no callback waits forever. A future that depends on calls of this group is completed when the worker has made them.
Any other future, such as one that the program completes, is awaited for the timeout of the group. The line stands still
meanwhile, because the order of calls must not depend on how long a callback waits.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import torch
from torch._C import Future

from shmcoll.communicator import Communicator
from shmcoll.torch.errors import late_in_callback


class Call(Protocol):
    """The handle of an asynchronous call, as it is used here."""

    def make_up_to_here(self) -> None:
        """Make the call, if this thread is the worker and the call is in its line."""


_wait, _then, _collect_all = Future.wait, Future.then, torch._C._collect_all
_calls: WeakKeyDictionary[Any, Sequence[Call]] = WeakKeyDictionary()
_here = threading.local()


def follow(future: Any, calls: Sequence[Call]) -> Any:
    """Note on which calls a future depends, and return it."""
    if calls:
        _calls[future] = calls
    return future


def runs_callbacks(comm: Communicator) -> None:
    """Note that this thread is the worker of a communicator, and is about to run callbacks."""
    _here.comm = comm


def wait(self: Any) -> Any:
    """Wait until a future is completed, and return its value; `torch.futures.Future.wait`."""
    comm = getattr(_here, "comm", None)
    if comm is not None and not self.done() and comm._dispatcher.worker.turns.is_mine():
        for call in _calls.get(self, ()):
            call.make_up_to_here()
        ended = threading.Event()
        Future.add_done_callback(self, lambda _: ended.set())
        if not ended.wait(comm.timeout):
            raise late_in_callback(comm.timeout)
    return _wait(self)


def then(self: Any, callback: Callable[[Any], Any]) -> Any:
    """Return a future of what a callback returns; `torch.futures.Future.then`."""
    return follow(_then(self, callback), _calls.get(self, ()))


def collect_all(futures: Sequence[Any]) -> Any:
    """Return a future of all these; `torch.futures.collect_all` calls it."""
    return follow(_collect_all(futures), [call for one in futures for call in _calls.get(one, ())])


Future.wait, Future.then, torch._C._collect_all = wait, then, collect_all

__all__ = ["follow", "runs_callbacks"]
