"""Asynchronous work: a handle, and the one thread of a communicator that runs it.

The worker makes the asynchronous calls of a communicator in the order in which they were submitted. They wait in the
line of `turns.py`, where blocking calls of other threads come between them. A call that has been submitted is completed
whether or not a thread waits for it.

Posted receives have no place in the line: a receive whose message has not arrived would keep all later calls waiting.
They are in a list (`posted_receives.py`), and the thread that has the turn serves that list. A thread that waits for a
receive serves it itself, because to wake the worker and to be woken by it takes 30 to 60 us. So the worker leaves
receives alone for a moment. The worker takes the turn if no thread has served the list by then, or if a thread sleeps
until a receive is complete (`_is_awaited`). In its turn it sleeps in native code until a message comes or a thread
takes a place in the line. While other threads serve the list, the worker naps for longer each time, up to `LONG_NAP`.
For `WATCH` seconds after the list was last served it goes on napping, and a thread that posts a receive need not wake
it.

The waits:

    worker    for `_bell`, while it has nothing to do. A thread rings it after it has put a call into the line or a
              receive into the list, and before it waits for either. An interrupt between these two steps leaves a call
              in the line that the worker does not know of. The next thread that waits for it rings, and so does
              `finish`
    any       for the end of a call (`Latch` in `work.py`). The result is stored first, then the latch is set, then
              waiting threads are woken. A thread that waits adds a lock of its own to the list of the latch, then reads
              the latch: either it finds the latch set, or it is woken. A lock that an interrupted wait leaves in that
              list is released without effect
    `finish`  for the worker, which ends when the line and the list are empty. Calls end, and receives are withdrawn

Why the worker lives. Signal handlers do not run in it. An exception that a call raises is the result of that call.
`await` and its event loop use the result in the loop's own thread, so a cancelled `await`, or a loop that has been
closed, reaches neither the call nor the worker. Cancelling an `await` cancels nothing but the await; `Work.cancel`
withdraws a receive.

The end. When the communicator is closed, or the main thread has ended, nothing is submitted any more. The worker
completes the calls in the line. It leaves blocking receives alone: at the end of the program their threads serve them,
otherwise it waits for them. At once it withdraws the receives whose message cannot come any more, and after
`TELL_AFTER` it withdraws the others. It prints which receives these are, and ends.
"""

import contextlib
import os
import queue
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np

from shmcoll.diagnostics.call_site import Site, here, places, short_path, submitted_at
from shmcoll.engine import context as c
from shmcoll.engine.memory.group import Group
from shmcoll.engine.system import log
from shmcoll.engine.system.green_threads import check_threads
from shmcoll.engine.system.handlers import LONGEST_SLEEP
from shmcoll.errors import (
    CallNotAllowed,
    CollectiveMismatch,
    CollectiveTimeout,
    InternalError,
    RankFailed,
)
from shmcoll.profiling import recorder
from shmcoll.runtime import helpers, lost_failures, user_code, waiting
from shmcoll.runtime.turns import REFUSED, Ticket, Turns
from shmcoll.runtime.work import Latch, Work

_running: set["AsyncWorker"] = set()  # to be finished before the interpreter ends
_ending = 0  # pid of the process in which the interpreter ends


def check_rank(pid: int, operation: str, name: str) -> None:
    """Raise in a process that the rank with this pid and name has forked. That process is not a rank, and a lock that
    was locked when it was forked stays locked there."""
    if os.getpid() != pid:
        raise CallNotAllowed(
            f"{operation}: this process was forked by {name} and is not a rank itself; call collectives in the rank"
        )


class Listener(Protocol):
    """The posted receives of a communicator, as the worker uses them."""

    @property
    def served(self) -> int:
        """How often a thread has served them, and left nothing to the worker."""

    def is_empty(self) -> bool: ...

    def only_threads_wait(self) -> bool:
        """Return whether each receive in the list is a blocking call, whose thread can serve the list."""

    def is_waiting(self, *, is_ending: bool) -> bool:
        """Serve the list: complete what has arrived, and sleep until more arrives or the doorbell rings. Then make the
        receives fail that are late or cannot complete, unless `is_ending`. Returns whether another rank may still send
        something."""

    def help(self, works: Sequence[Work[Any]], *, polls: bool, sleeps: bool) -> None:
        """Serve the list in a thread that waits for any of these calls. It does so once, or for as long as it polls. If
        it may sleep in native code, it does so until one of the calls has ended or something is left to the worker."""

    def withdraw(self, *, all_of_them: bool) -> list[Site | None]:
        """Withdraw the receives whose message cannot come, or all that have not found their message. Returns where they
        were posted."""


class Knowing(Protocol):
    """An object that knows whether the program knows why the group has ended."""

    is_told: bool  # a call has raised the reason

    def error(self, operation: str, status: int) -> BaseException:
        """Return the error for a status of the native entry."""

    def has_failed(self) -> bool:
        """Return whether this rank has failed itself."""


class AsyncWorker:
    """Runs the asynchronous operations of one communicator, one after the other."""

    def __init__(self, words: np.ndarray, group: Group, rank: int, knowing: Knowing):
        self._pid = os.getpid()
        self._name = f"rank {group.name(rank)}"
        self._knowing = knowing
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        bell, mine = self._bell, weakref.ref(self)  # the line does not keep its worker: see `Dispatcher.posted`
        self.turns = Turns(
            words,
            self._name,
            lambda: group.ring_one(rank),
            lambda: bell.put(None),
            lambda: (worker := mine()) is not None and worker.has_receives(),
        )
        self.listener: Listener | None = None
        self.unseen: dict[object, Site | None] | None = None  # where handles were made that nobody has looked at yet
        self._thread: threading.Thread | None = None  # the one that was started last
        self._identity: dict[str, int] = {}  # identity of the thread that is the worker: the first one that has begun
        self._ended = Latch()
        self._is_over = False  # nothing is submitted any more
        self._is_late = False  # all receives are withdrawn
        self._is_awaited = False  # a thread sleeps until a receive is complete
        self._is_watching = False  # the worker serves the list by itself
        self._nap = waiting.SHORT_NAP
        self._idle = waiting.WATCH  # seconds since a thread served the list
        self._served = -1  # how often threads had served it before the last nap
        lost_failures.tell_at_exit(self._pid)

    # --- by any thread ------------------------------------------------------------------------------------------------

    def submit(self, call: Callable[[], Any], *, collective: str = "") -> Work[Any]:
        """Queue a call; its arguments stay alive until it is done. collective: its name, if it is one."""
        self.check_rank("async_op")
        work: Work[Any] = Work(self, here())
        ticket = Ticket(0, work=(work, call), is_message=not collective)
        ticket.lock.acquire()
        with self.turns.guard:
            if collective and self.turns.meets():
                raise self._knowing.error(collective, c.NOT_ALONE)
            self.start("async_op")
            self.turns.book(ticket)
        self.wake()
        return work

    def alone(self, operation: str, call: Callable[[], Any]) -> Any:
        """Make a collective of several calls. Raises `CallNotAllowed` if another thread makes a collective."""
        made = self.turns.alone(operation, call)
        if made is REFUSED:
            raise self._knowing.error(operation, c.NOT_ALONE)
        return made

    def is_open(self) -> bool:
        """Return whether something may still be submitted."""
        return not (self._is_over or self.turns.is_shut)

    def ended(self, result: Any) -> Work[Any]:
        """Return the handle of a call that has already ended."""
        return Work.ended(self, here() if isinstance(result, BaseException) else None, result)

    def start(self, operation: str) -> None:
        """Have the thread run. Call with the guard of `turns` held."""
        if self._is_over:
            ending = _ending == self._pid
            why = "the program is ending" if ending else "this communicator is closed; make a new one"
            raise CallNotAllowed(f"{operation} on {self._name}: {why}")
        check_threads(operation)
        if not self._identity:  # or an interrupt came while a thread was started: then the second thread ends at once
            self._thread = self._started(operation)

    def _started(self, operation: str) -> threading.Thread:
        """Start a thread. Raises `CallNotAllowed` if the system, or an interpreter that is ending, refuses one."""
        thread = threading.Thread(target=self._run, name="shmcoll-worker")
        _running.add(self)  # before `_ending` is read: `_finish_all` does these two steps in the other order
        try:
            _finish_all_at_exit(self._pid)
            if _ending == self._pid:
                raise RuntimeError("the program is ending")
            thread.start()
        except RuntimeError as error:
            _running.discard(self)
            raise CallNotAllowed(f"{operation} on {self._name}: no thread can be started: {error}") from None
        return thread

    def wake(self) -> None:
        """Wake the worker, so that it checks the line and the list."""
        self._bell.put(None)

    def watch(self) -> None:
        """Wake the worker for a receive that has been posted, unless it serves the list by itself."""
        if not self._is_watching:
            self.wake()

    def hurry(self, work: Work[Any]) -> None:
        """Note that a thread is about to sleep until `work` is done."""
        if work.is_receive:
            self._is_awaited = True
        self.wake()

    def check_outside(self) -> None:
        """Raise if this thread cannot wait for anything, because it is within a call."""
        if self.turns.is_within() or self.is_me():
            raise CallNotAllowed(
                f"wait on {self._name}: called by a signal handler or finaliser during a call of its own thread; "
                f"the work is pending"
            )

    def look(self, works: Sequence[Work[Any]], *, polls: bool, sleeps: bool) -> None:
        """Serve the posted receives in this thread, which waits for any of these calls, if one of them is a receive."""
        listener = self.listener  # a handler may close the communicator, which has none then
        if listener is not None and any(work.is_receive for work in works):
            listener.help(works, polls=polls, sleeps=sleeps)

    def check_rank(self, operation: str) -> None:
        """Raise in a process that the rank has forked. There the line is shut (`LocalRank`)."""
        if self.turns.is_shut:
            check_rank(self._pid, operation, self._name)

    @property
    def identity(self) -> int:
        """The identity of the worker's thread; 0 before it runs."""
        return self._identity.get("worker", 0)

    @property
    def ends_with_program(self) -> bool:
        """Whether the main thread has ended. Then the worker has ended, too, or is about to end, and none begins."""
        return _ending == self._pid or bool(threading._SHUTTING_DOWN)  # type: ignore[attr-defined]

    def is_me(self) -> bool:
        """Return whether this thread is the worker."""
        return self.identity == threading.get_ident()

    def has_told(self, error: BaseException) -> None:
        """Note that the program has seen this error."""
        if _ends_group(error):
            self._knowing.is_told = True

    def told(self, error: BaseException, site: Site | None) -> str:
        """Return the line to print for a failure that the program has not seen; empty if it knows already."""
        if _ends_group(error) and (self._knowing.is_told or self._knowing.has_failed()):
            return ""
        where = f" at {short_path(site[0])}:{site[1]}" if site else ""
        return f"an asynchronous call of {self._name}{where} has failed, and nobody waited for it: " + (
            f"{type(error).__name__}: {error}"
        )

    def finish(self) -> None:
        """Complete what is pending, withdraw receives without a message, and end the thread."""
        if os.getpid() != self._pid:
            return  # a fork of the rank has no such thread, and its lock may be locked forever
        with self.turns.guard:
            self._is_over = True
        if self._thread is not None:
            self.wake()
            if not self._ended.wait(waiting.TELL_AFTER):
                sites = [work.site for work, _ in self.turns.calls()]
                if calls := places(sites):
                    log.warning(f"{self._name} ends when its asynchronous calls have: {calls}")
                self._is_late = True
                self.wake()
                while not self._ended.wait(LONGEST_SLEEP):
                    pass
            self._thread.join()
        _running.discard(self)

    # --- the thread ---------------------------------------------------------------------------------------------------

    @helpers.counted()
    def _run(self) -> None:
        if self._identity.setdefault("worker", threading.get_ident()) != threading.get_ident():
            return
        if recorder.current:
            recorder.current.know_thread(threading.get_ident())
        try:
            while True:
                try:
                    if not user_code.call(self._step):
                        return
                except BaseException:  # no memory, or a bug: threads that wait for us would wait forever
                    traceback.print_exc()
                    if self._is_over:
                        return
                    time.sleep(waiting.NAP)
        finally:
            self._ended.set()

    def _step(self) -> bool:
        """Do one thing, or sleep. Returns False at the end."""
        if ticket := self.turns.first_call():
            self._perform(ticket)
            return True
        has_receives, served = self.has_receives(), self._served
        self._served = self._looks()
        is_served = served != self._served  # since the last nap
        if self._is_over and self._has_done(has_receives):
            return False
        if has_receives and (self._is_awaited or self._is_over or not is_served):
            self._nap = waiting.SHORT_NAP
            if not self._listen():  # a thread has arrived, which may serve the receive that it waits for
                self._is_awaited = False
                self.turns.wait_for_threads()
            return True
        if not has_receives:
            self._is_awaited = False
        self._nap = min(2 * self._nap, waiting.LONG_NAP) if is_served else self._nap
        self._idle = 0.0 if is_served else self._idle + self._nap
        self._is_watching = self._idle < waiting.WATCH
        if self._is_watching:
            self._sleep(self._nap)
        elif not (self.has_receives() or self.turns.first_call() or self._is_over):  # now other threads wake us
            self._sleep(None)
            self._nap = waiting.SHORT_NAP
        return True

    def _sleep(self, seconds: float | None) -> None:
        """Sleep until a thread rings, for at most this number of seconds."""
        with contextlib.suppress(queue.Empty):
            self._bell.get(timeout=seconds)

    def _perform(self, ticket: Ticket) -> None:
        work, call = ticket.work
        ticket.has_begun = True
        site, result = work.site, None

        def perform() -> None:
            nonlocal result
            try:
                with submitted_at(site):
                    result = call()
            except BaseException as error:
                result = error

        if self.turns.is_mine():  # within a call that was before it in the line
            perform()
            ticket.lock.release()
        else:
            self.turns.run_booked(ticket, perform)
        work.settle(result)
        # The traceback of an error keeps this frame and the frames above it. They must not keep the handle
        ticket.work = work = call = result = None

    def make_up_to(self, work: Work[Any]) -> None:
        """Make, on the worker, the calls in the line up to this one, or serve messages until it has ended: a function
        that the worker calls at the end of an earlier call is about to wait for it."""
        is_message = work.is_receive or self.turns.is_send(work)
        while self.turns.is_mine() and not work.done():
            if ticket := self.turns.first_call(only_messages=is_message):
                self._perform(ticket)
            elif not work.is_receive:
                return
            elif (listener := self.listener) is not None and not listener.is_waiting(is_ending=False):
                time.sleep(waiting.NAP)

    def _listen(self) -> bool:
        """Attend to posted receives until the line is not empty. Returns False if a thread was in it from the start."""
        listener, is_waiting = self.listener, True
        assert listener is not None

        def attend() -> None:
            nonlocal is_waiting
            if self._is_over and (receives := places(listener.withdraw(all_of_them=self._is_late))):
                log.warning(f"{self._name} withdraws receives without a message: {receives}")
            is_waiting = listener.is_waiting(is_ending=self._is_over)

        while self.turns.run_if_free(attend, sleeps=True):
            if not self.has_receives():
                return True
            if not is_waiting:
                self._sleep(waiting.NAP)
        return self.turns.first_call() is not None

    def has_receives(self) -> bool:
        listener = self.listener
        return listener is not None and not listener.is_empty()

    def _has_done(self, has_receives: bool) -> bool:
        """Return whether nothing is left at the end but what threads do without the worker."""
        listener = self.listener
        return not has_receives or (self.ends_with_program and listener is not None and listener.only_threads_wait())

    def _looks(self) -> int:
        listener = self.listener
        return listener.served if listener else 0


def _ends_group(error: BaseException) -> bool:
    return isinstance(error, (RankFailed, CollectiveTimeout, CollectiveMismatch, InternalError))


def finish_all() -> None:
    """Complete what is pending in this process, and refuse new calls."""
    _finish_all(os.getpid())


def await_calls() -> None:
    """Wait until the calls that have been submitted in this process have ended. Posted receives stay posted."""
    for worker in list(_running):
        for work, _ in worker.turns.calls():
            work.await_end()


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
        worker.finish()
