"""Asynchronous work: a handle, and the one thread of a communicator that runs it.

While work is pending, the OWNER word of the communicator's context holds the worker's thread: a blocking call from any
other thread is told BUSY by the native entry and queues behind. So the operations of a communicator run in the order
they were issued, and the common case, no asynchronous work at all, costs a blocking call nothing.

    OWNER    0: anyone may call. Set to the worker when work is submitted, back to 0 by the worker when the last piece
             is done; both under `_lock`. Nobody can wait for ever on it: the worker only runs collectives, which end.

Receives are different: one whose message has not come would keep all later work waiting. A call may return a `Pending`,
which is completed later by what the worker does when it has nothing else to do (`attend`, see `receives.py`). That may
sleep in native code, so who submits work rings this rank's own doorbell.

The end. When the communicator is closed, or the main thread has ended, the worker completes what is pending and ends;
then nothing is submitted any more, and a blocking call that finds another thread inside waits without a queue.
"""

import os
import queue
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from functools import cache, partial
from typing import Any

import numpy as np

from shmcoll.call_sites import Site, here, short_path, submitted_at
from shmcoll.engine import context as c
from shmcoll.engine.group import Group
from shmcoll.engine.layout import WORD

_running: set["Worker"] = set()  # what is to be finished before the interpreter ends
_ending = 0  # pid of the process in which it does

_TELL_AFTER = 3.0  # seconds

NOBODY = -1  # no thread has this identity: everybody must queue until the worker has said who it is


def check_rank(pid: int, operation: str, name: str) -> None:
    """Raise in a process that the rank, whose pid and name these are, has forked: it is no rank, and a lock that it has
    found taken stays so."""
    if os.getpid() != pid:
        raise NotNow(
            f"{operation}: this process was forked by {name} and is no rank itself; call collectives in the rank"
        )


class NotNow(RuntimeError):
    """A call from where no collective can be called. Nothing has happened; the group goes on."""


class Work:
    """A pending collective. It completes whether or not anybody waits for it; `await` gives its result, too."""

    def __init__(self, future: "Future[Any]", name: str):
        self._future = future
        self._name = name
        self._pid = os.getpid()

    def wait(self, timeout: float | None = None) -> Any:
        """The operation's result, or its error. After `timeout` seconds `TimeoutError`; the operation goes on.
        `RuntimeError` in a process that the rank has forked, where nobody works at it."""
        check_rank(self._pid, "wait", self._name)
        return self._future.result(timeout)

    def done(self) -> bool:
        """Whether the operation has ended, well or badly."""
        return self._future.done()

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio

        check_rank(self._pid, "await", self._name)
        return asyncio.wrap_future(self._future).__await__()

    def __repr__(self) -> str:
        return f"<shmcoll.Work {'done' if self.done() else 'pending'}>"


class Pending:
    """What a call returns whose end is still to come. The worker sets both attributes.

    settle: takes the result, or the error. site: where the user has made the call.
    """

    settle: Callable[[Any], None]
    site: Site | None


class Worker:
    """Runs the asynchronous operations of one communicator, one after the other."""

    def __init__(self, words: np.ndarray, group: Group, rank: int):
        self._words = words
        self._group = group
        self._rank = rank
        self._pid = os.getpid()
        self._name = group.names([rank])
        self._attend: Callable[[], bool] | None = None
        self._lock = threading.Lock()
        self._pending: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any], Site | None] | None] = (
            queue.SimpleQueue()
        )
        self._sites: dict[Future[Any], Site | None] = {}  # where what is pending was called
        self._thread: threading.Thread | None = None
        self._is_over = False  # the thread does no more than what is pending

    def submit(self, call: Callable[[], Any], attend: Callable[[], bool] | None = None) -> Work:
        """Queue a call; its arguments stay alive until it is done.

        attend: what completes a `Pending` that it returns; called again and again until it says that nothing is left.
        """
        check_rank(self._pid, "async_op", self._name)
        future: Future[Any] = Future()
        with self._lock:
            if self._is_over:
                ending = _ending == self._pid
                why = "the program is ending" if ending else "this communicator is closed; make a new one"
                raise NotNow(f"async_op on {self._name}: {why}")
            thread = self._thread = self._thread or self._started()
            self._sites[future] = site = here()
            self._words[c.OWNER // WORD] = thread.ident
            self._attend = attend or self._attend
            self._pending.put((future, call, site))
        if self._attend:
            self._group.ring_one(self._rank)
        return Work(future, self._name)

    def _started(self) -> threading.Thread:
        """The thread, which runs. Raises `NotNow` where there is none to be had, as when the interpreter ends."""
        thread = threading.Thread(target=self._run, name="shmcoll-worker")
        _running.add(self)  # before the look at _ending: `_finish_all` looks the other way round
        try:
            _finish_all_at_exit(self._pid)
            if _ending == self._pid:
                raise RuntimeError("the program is ending")
            thread.start()
        except RuntimeError as error:
            _running.discard(self)
            raise NotNow(f"async_op on {self._name}: there is no thread to be had: {error}") from None
        return thread

    def is_me(self) -> bool:
        return self._thread is threading.current_thread()

    def finish(self, tell_after: float | None = None) -> None:
        """Complete what is pending and end the thread. After so many seconds, say on stderr what keeps us."""
        if os.getpid() != self._pid:
            return  # a fork of the rank has no such thread, and may have found the lock taken
        with self._lock:
            self._is_over = True
        if self._thread is not None:
            self._pending.put(None)
            self._thread.join(tell_after)
            if self._thread.is_alive():
                sites = [f"{short_path(site[0])}:{site[1]}" for site in list(self._sites.values()) if site]
                told = ", ".join(dict.fromkeys(sites))
                print(f"shmcoll: {self._name} ends when its asynchronous calls have: {told}", file=sys.stderr)
                self._thread.join()
        _running.discard(self)

    def _run(self) -> None:
        with self._lock:
            self._words[c.OWNER // WORD] = threading.get_ident()
        while item := self._next():
            self._perform(*item)
            del item
        while self._attend and self._attend():
            pass

    def _next(self) -> "tuple[Future[Any], Callable[[], Any], Site | None] | None":
        """The next piece of work; until it comes, attend to what is pending."""
        while self._attend and self._pending.empty() and self._attend():
            pass
        return self._pending.get()

    def _perform(self, future: "Future[Any]", call: Callable[[], Any], site: Site | None) -> None:
        outcome: Any
        try:
            with submitted_at(site):
                outcome = call()
        except BaseException as error:
            outcome = error
        if isinstance(outcome, Pending):
            outcome.settle, outcome.site = partial(self._settle, future), site
        else:
            self._settle(future, outcome)

    def _settle(self, future: "Future[Any]", outcome: Any) -> None:
        with self._lock:
            del self._sites[future]
            if not self._sites:
                self._words[c.OWNER // WORD] = 0
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)


@cache
def _finish_all_at_exit(pid: int) -> None:
    """Have `_finish_all` called when the main thread of this process has ended, before threads are waited for."""
    threading._register_atexit(_finish_all, pid)  # type: ignore[attr-defined]


def _finish_all(pid: int) -> None:
    global _ending
    if pid != os.getpid():
        return
    _ending = pid
    for worker in list(_running):
        worker.finish(_TELL_AFTER)
