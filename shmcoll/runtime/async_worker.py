"""Asynchronous work: a handle, and the one thread of a communicator that runs it.

The worker makes the asynchronous calls of a communicator in the order in which they were submitted. `turns.py` has the
line in which they wait, and says how blocking calls of other threads come between them. A call that has been submitted
is completed whether or not anybody waits for it.

Posted receives have no place in the line: a receive whose message has not come would keep all later calls waiting. They
are entered in a list (`posted_receives.py`), and the thread that has the turn looks at that list. A thread that waits
for a receive looks itself, because to wake the worker and to be woken by it takes 30 to 60 us. So the worker leaves
receives alone for a moment. If nobody has looked by then, or a thread says that it sleeps until a receive is complete
(`_is_awaited`), the worker takes the turn and sleeps in native code until a message comes or somebody takes a place in
the line. While others look, it naps for longer each time, up to `_LONG_NAP`; for `_WATCH` seconds after the last look
it goes on napping, and a thread that posts a receive need not wake it.

Who waits, and for what:

    worker    for `_bell`, while it has nothing to do. A thread rings it after it has put a call into the line or
              a receive into the list, and before it waits for either. An interrupt between these two steps leaves
              a call in the line that the worker does not know of; the next thread that waits for it, or the end, rings
    anybody   for the end of a call (`Latch` in `work.py`). The result is stored first, then the latch is set, then
              waiting threads are woken. A thread that waits adds a lock of its own to the list, then looks at the
              latch: either it sees the latch set, or it is woken. What an interrupted wait leaves in the list is woken
              for nothing
    `finish`  for the worker, which ends when line and list are empty. Calls end; receives are withdrawn

The worker lives. Signal handlers do not run in it. What a call raises is its result. What `await` and its event loop do
with that result happens in the loop's own thread: a cancelled `await`, or a loop that has been closed, reaches neither
call nor worker. Cancelling an `await` cancels nothing but the await; `Work.cancel` withdraws a receive.

The end. When the communicator is closed, or the main thread has ended, nothing is submitted any more. The worker
completes the calls in the line, withdraws receives whose message cannot come any more at once and the others
after `_TELL_AFTER`, says which, and ends.
"""

import contextlib
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np

from shmcoll.diagnostics.call_site import Site, here, short_path, submitted_at
from shmcoll.engine.memory.group import Group
from shmcoll.errors import (
    CallNotAllowed,
    CollectiveMismatch,
    CollectiveTimeout,
    InternalError,
    RankFailed,
)
from shmcoll.runtime import lost_failures
from shmcoll.runtime.turns import Ticket, Turns
from shmcoll.runtime.work import Latch, Work

_running: set["AsyncWorker"] = set()  # what is to be finished before the interpreter ends
_ending = 0  # pid of the process in which it does

_TELL_AFTER = 3.0  # seconds
_SHORT_NAP, _LONG_NAP = 0.0002, 0.005  # seconds for which the worker leaves receives to the threads that wait for them
_WATCH = 0.05  # seconds without a look at the list before the worker sleeps until it is woken
_VAIN = 0.001  # seconds between looks at receives that no other rank can complete


def check_rank(pid: int, operation: str, name: str) -> None:
    """Raise in a process that the rank, whose pid and name these are, has forked: it is no rank, and a lock that it has
    found taken stays so."""
    if os.getpid() != pid:
        raise CallNotAllowed(
            f"{operation}: this process was forked by {name} and is not a rank itself; call collectives in the rank"
        )


class Listener(Protocol):
    """The posted receives of a communicator, as their worker knows them."""

    served: int  # how often a thread has looked at them

    def is_empty(self) -> bool: ...

    def is_waiting(self, *, is_ending: bool) -> bool:
        """Look at the list: complete what has come, sleep until more comes or the doorbell rings, and fail what is late
        or cannot come, unless it `is_ending`. Returns whether another rank may still send something."""

    def help(self, works: Sequence[Work[Any]], *, polls: bool, sleeps: bool) -> None:
        """Look at the list in a thread that waits for any of these calls: once; or for as long as it polls; or, if it
        may sleep in native code, until one of them has ended or something is left to the worker."""

    def withdraw(self, *, all_of_them: bool) -> list[Site | None]:
        """Withdraw receives whose message cannot come, or all that have not found theirs. Returns where they were
        posted."""


class Knowing(Protocol):
    """What knows whether the program knows why the group has ended."""

    is_told: bool  # a call has raised it

    def has_failed(self) -> bool:
        """Return whether this rank has failed itself."""


class AsyncWorker:
    """Runs the asynchronous operations of one communicator, one after the other."""

    def __init__(self, words: np.ndarray, group: Group, rank: int, knowing: Knowing):
        self._pid = os.getpid()
        self._name = group.names([rank])
        self._knowing = knowing
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.turns = Turns(words, self._name, lambda: group.ring_one(rank), self.wake, self._has_receives)
        self.listener: Listener | None = None
        self._thread: threading.Thread | None = None  # the one that was started last
        self._identity: dict[str, int] = {}  # of the thread that is the worker: the first one that has begun
        self._ended = Latch()
        self._is_over = False  # nothing is submitted any more
        self._is_late = False  # all receives are withdrawn
        self._is_awaited = False  # a thread sleeps until a receive is complete
        self._is_watching = False  # the worker looks at the list by itself
        self._nap = _SHORT_NAP
        self._idle = _WATCH  # seconds since anybody looked at the list
        self._served = -1  # how often somebody had looked at it before the last nap
        lost_failures.tell_at_exit(self._pid)

    # --- by any thread ------------------------------------------------------------------------------------------------

    def submit(self, call: Callable[[], Any]) -> Work[Any]:
        """Queue a call; its arguments stay alive until it is done."""
        self.check_rank("async_op")
        work: Work[Any] = Work(self, here())
        ticket = Ticket(0, work=(work, call))
        ticket.lock.acquire()
        with self.turns.guard:
            self.start("async_op")
            self.turns.book(ticket)
        self.wake()
        return work

    def is_open(self) -> bool:
        """Return whether something may still be submitted."""
        return not (self._is_over or self.turns.is_shut)

    def ended(self, result: Any) -> Work[Any]:
        """Return the handle of a call that has ended already."""
        return Work.ended(self, here() if isinstance(result, BaseException) else None, result)

    def start(self, operation: str) -> None:
        """Have the thread run. Call with the guard of `turns` held."""
        if self._is_over:
            ending = _ending == self._pid
            why = "the program is ending" if ending else "this communicator is closed; make a new one"
            raise CallNotAllowed(f"{operation} on {self._name}: {why}")
        if not self._identity:  # or an interrupt came while it was started: then the second one ends at once
            self._thread = self._started(operation)

    def _started(self, operation: str) -> threading.Thread:
        """Start a thread. Raises `CallNotAllowed` if the system or the interpreter, which may be ending, has none."""
        thread = threading.Thread(target=self._run, name="shmcoll-worker")
        _running.add(self)  # before the look at _ending: `_finish_all` looks the other way round
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
        """Have the worker look around."""
        self._bell.put(None)

    def watch(self) -> None:
        """A receive has been posted: wake the worker if it would not look by itself."""
        if not self._is_watching:
            self.wake()

    def hurry(self, work: Work[Any]) -> None:
        """Somebody is about to sleep until `work` is done."""
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
        """Look at posted receives in this thread, which waits for any of these calls, if one of them is a receive."""
        if self.listener is not None and any(work.is_receive for work in works):
            self.listener.help(works, polls=polls, sleeps=sleeps)

    def check_rank(self, operation: str) -> None:
        """Raise in a process that the rank has forked. There the line is shut (`LocalRank`)."""
        if self.turns.is_shut:
            check_rank(self._pid, operation, self._name)

    @property
    def identity(self) -> int:
        """The worker's thread; 0 before it runs."""
        return self._identity.get("worker", 0)

    def is_me(self) -> bool:
        """Return whether this thread is the worker."""
        return self.identity == threading.get_ident()

    def has_told(self, error: BaseException) -> None:
        """The program has been given this error."""
        if _ends_group(error):
            self._knowing.is_told = True

    def told(self, error: BaseException, site: Site | None) -> str:
        """Return what is said of a failure that nobody has seen."""
        if _ends_group(error) and (self._knowing.is_told or self._knowing.has_failed()):
            return ""
        where = f" at {short_path(site[0])}:{site[1]}" if site else ""
        return f"an asynchronous call of {self._name}{where} has failed, and nobody waited for it: " + (
            f"{type(error).__name__}: {error}"
        )

    def finish(self) -> None:
        """Complete what is pending, withdraw receives that nothing has come for, and end the thread."""
        if os.getpid() != self._pid:
            return  # a fork of the rank has no such thread, and may have found the lock taken
        with self.turns.guard:
            self._is_over = True
        if self._thread is not None:
            self.wake()
            if not self._ended.wait(_TELL_AFTER):
                sites = [work.site for work, _ in self.turns.calls()]
                if told := _in_words(sites):
                    print(f"shmcoll: {self._name} ends when its asynchronous calls have: {told}", file=sys.stderr)
                self._is_late = True
                self.wake()
                self._ended.wait()
            self._thread.join()
        _running.discard(self)

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        if self._identity.setdefault("worker", threading.get_ident()) != threading.get_ident():
            return
        try:
            while True:
                try:
                    if not self._step():
                        return
                except BaseException:  # no memory, a bug: what waits for us would wait forever
                    traceback.print_exc()
                    if self._is_over:
                        return
                    time.sleep(_VAIN)
        finally:
            self._ended.set()

    def _step(self) -> bool:
        """Do one thing, or sleep. Returns False at the end."""
        if ticket := self.turns.first_call():
            self._perform(ticket)
            return True
        has_receives, served = self._has_receives(), self._served
        self._served = self._looks()
        is_served = served != self._served  # since the last nap
        if has_receives and (self._is_awaited or self._is_over or not is_served):
            self._nap = _SHORT_NAP
            if not self._listen():  # a thread has come, which may look for what it waits for by itself
                self._is_awaited = False
                self.turns.wait_for_threads()
            return True
        if not has_receives:
            if self._is_over:
                return False
            self._is_awaited = False
        self._nap = min(2 * self._nap, _LONG_NAP) if is_served else self._nap
        self._idle = 0.0 if is_served else self._idle + self._nap
        self._is_watching = self._idle < _WATCH
        if self._is_watching:
            self._sleep(self._nap)
        elif not (self._has_receives() or self.turns.first_call() or self._is_over):  # from now on others wake us
            self._sleep(None)
            self._nap = _SHORT_NAP
        return True

    def _sleep(self, seconds: float | None) -> None:
        """Until somebody rings, for so many seconds at most."""
        with contextlib.suppress(queue.Empty):
            self._bell.get(timeout=seconds)

    def _perform(self, ticket: Ticket) -> None:
        work, call = ticket.work
        site, result = work.site, None

        def perform() -> None:
            nonlocal result
            try:
                with submitted_at(site):
                    result = call()
            except BaseException as error:
                result = error

        self.turns.run_booked(ticket, perform)
        work.settle(result)
        # The traceback of an error keeps this frame and those above it, and they must not keep the handle
        ticket.work = work = call = result = None

    def _listen(self) -> bool:
        """Attend to posted receives until somebody is in the line. Returns False if a thread was, from the start."""
        listener, is_waiting = self.listener, True
        assert listener is not None

        def attend() -> None:
            nonlocal is_waiting
            if self._is_over and (told := _in_words(listener.withdraw(all_of_them=self._is_late))):
                print(f"shmcoll: {self._name} withdraws receives that nothing has come for: {told}", file=sys.stderr)
            is_waiting = listener.is_waiting(is_ending=self._is_over)

        while self.turns.run_if_free(attend, sleeps=True):
            if not self._has_receives():
                return True
            if not is_waiting:
                self._sleep(_VAIN)
        return self.turns.first_call() is not None

    def _has_receives(self) -> bool:
        return self.listener is not None and not self.listener.is_empty()

    def _looks(self) -> int:
        return self.listener.served if self.listener else 0


def _ends_group(error: BaseException) -> bool:
    return isinstance(error, (RankFailed, CollectiveTimeout, CollectiveMismatch, InternalError))


def _in_words(sites: list[Site | None]) -> str:
    return ", ".join(dict.fromkeys(f"{short_path(site[0])}:{site[1]}" for site in sites if site))


def finish_all() -> None:
    """Complete what is pending in this process, and let nothing begin any more."""
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
