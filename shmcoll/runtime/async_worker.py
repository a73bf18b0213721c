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
    anybody   for the end of a call (`_Latch`). The result is stored first, then the latch is set, then waiting threads
              are woken. A thread that waits adds a lock of its own to the list, then looks at the latch: either it
              sees the latch set, or it is woken. What an interrupted wait leaves in the list is woken for nothing
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
from collections.abc import Callable, Generator
from functools import cache
from typing import Any, Generic, Protocol, TypeVar, cast

import numpy as np

from shmcoll.diagnostics.call_site import Site, here, short_path, submitted_at
from shmcoll.engine.memory.group import Group
from shmcoll.errors import (
    CallNotAllowed,
    Cancelled,
    CollectiveMismatch,
    CollectiveTimeout,
    InternalError,
    RankFailed,
)
from shmcoll.runtime import lost_failures
from shmcoll.runtime.turns import Ticket, Turns

Result = TypeVar("Result", covariant=True)

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

    def help(self, work: "Work[Any]", *, sleeps: bool) -> None:
        """Look at the list in a thread that waits for `work`: for a moment, or, if it may sleep in native code, until
        the work is done or something is left to the worker."""

    def withdraw(self, *, all_of_them: bool) -> list[Site | None]:
        """Withdraw receives whose message cannot come, or all that have not found theirs. Returns where they were
        posted."""


class Knowing(Protocol):
    """What knows whether the program knows why the group has ended."""

    is_told: bool  # a call has raised it

    def has_failed(self) -> bool:
        """Whether this rank has failed itself."""


class _Latch:
    """Set once; anybody may wait for it, also in a signal handler, and again after an interrupt."""

    __slots__ = ("_calls", "is_set")

    def __init__(self, *, is_set: bool = False) -> None:
        self.is_set = is_set
        self._calls: list[Callable[[], None]] = []

    def set(self) -> None:
        """Set it, and make the calls that wait for this. To set it again makes those that an interrupt has left."""
        self.is_set = True
        while self._calls:
            try:
                self._calls.pop(0)()
            except IndexError:  # set by two threads at once
                return

    def then(self, call: Callable[[], None]) -> None:
        """Make the call when the latch is set, in the thread that sets it; at once if it is set."""
        self._calls.append(call)
        if self.is_set:
            self.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Return whether it has been set within so many seconds."""
        mine = threading.Lock()
        mine.acquire()
        self._calls.append(mine.release)
        if not self.is_set:
            mine.acquire(timeout=-1 if timeout is None else min(max(timeout, 0), threading.TIMEOUT_MAX))
        return self.is_set


class Work(Generic[Result]):
    """A pending call. Methods of a communicator return it for `async_op=True`.

    The call completes whether or not anybody waits for it. Leave its arrays alone until then. In a coroutine, `await`
    returns the result, too.

    Example:
        >>> work = comm.all_reduce(np.ones(2), async_op=True)
        >>> work.wait() / comm.size
        array([1., 1.])
    """

    # What most handles keep is an attribute of the class, because many are made: each would take time
    is_receive = False
    _result: Any = None
    _failure: lost_failures.Failure | None = None  # unless it is a `Cancelled`
    _is_cancelled = False

    def __init__(self, worker: "AsyncWorker", site: Site | None):
        self.site = site
        self._worker = worker
        self._latch = _Latch()

    def wait(self, timeout: float | None = None) -> Result:
        """Wait until the call has ended, and return its result. A wait that is interrupted may be repeated.

        Args:
            timeout: the limit of this wait, in seconds; by default none. (`comm.timeout` limits the call itself.)

        Returns:
            What the method returns without `async_op=True`.

        Raises:
            TimeoutError: the call has not ended within `timeout`. It goes on.
            Cancelled: the receive has been withdrawn.
            CallNotAllowed: this process is a fork of the rank, or a signal handler has interrupted a call of its own
                thread on the same communicator.
            BufferChanged: a buffer was changed before the call had ended; with `shmrun --check` only.

        Any error of the method is raised here as well.
        """
        if not self._latch.is_set and not self._worker.wait_for(self, timeout):
            raise TimeoutError(f"the call has not ended within {timeout:g} s; it continues")
        return self._outcome()

    def done(self) -> bool:
        """Return whether the call has ended, with a result or with an error, or has been withdrawn."""
        return self._latch.is_set

    def cancel(self) -> bool:
        """Withdraw a posted receive whose message has not come. No message is lost.

        Only a receive can be withdrawn: of any other call the other ranks wait for this rank's part. `wait` raises
        `Cancelled` afterwards. Cancelling an `await` of this object cancels only the `await`.

        Returns:
            Whether the receive is withdrawn. False if the call is not a receive, or has ended already.

        Raises:
            CallNotAllowed: this process is a fork of the rank.
        """
        self._worker.check_rank("cancel")
        return False

    def __await__(self) -> Generator[Any, None, Result]:
        import asyncio

        self._worker.check_rank("await")
        if not self._latch.is_set:
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()
            self._latch.then(lambda: _wake_up(loop, waiter))
            self._worker.hurry(self)
            yield from waiter
        return self._outcome()

    def await_end(self) -> None:
        """Wait until the operation has ended, whichever way."""
        self._worker.hurry(self)
        self._latch.wait()

    def settle(self, result: Any) -> None:
        """Note that the call has ended: `result` is what it has returned or raised. To call it again completes what
        an interrupt has left undone, and has no other effect."""
        if not self._latch.is_set:
            self._result = result
            if isinstance(result, BaseException):
                self._note_failure(result)
        self._latch.set()

    def _note_failure(self, error: BaseException) -> None:
        if isinstance(error, Cancelled):
            self._is_cancelled = True
        else:
            worker, site = self._worker, self.site
            self._failure = self._failure or lost_failures.Failure(error, lambda: worker.told(error, site))
            lost_failures.note(self._failure)

    def _outcome(self) -> Result:
        result = self._result
        if self._failure is None and not self._is_cancelled:
            return cast(Result, result)
        if self._failure is not None:
            lost_failures.forget(self._failure)
            self._worker.has_told(result)
        raise result

    def __repr__(self) -> str:
        state = "pending"
        if self._is_cancelled:
            state = "cancelled"
        elif self._failure is not None:
            state = f"failed: {type(self._result).__name__}: {self._result}"
        elif self._latch.is_set:
            state = "done"
        return f"<shmcoll.Work {state}>"

    def __del__(self) -> None:
        if self._failure is not None and lost_failures is not None:  # the interpreter may be ending
            lost_failures.tell(self._failure)


def _wake_up(loop: Any, waiter: Any) -> None:
    """Let an `await` go on in the thread of its event loop, unless it was cancelled or the loop has been closed."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(lambda: None if waiter.done() else waiter.set_result(None))


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
        self._ended = _Latch()
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
        """Whether something may still be submitted."""
        return not (self._is_over or self.turns.is_shut)

    def ended(self, result: Any) -> Work[Any]:
        """The handle of a call that has ended already."""
        work: Work[Any] = Work(self, None if result is None else here())
        work.settle(result)
        return work

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

    def wait_for(self, work: Work[Any], timeout: float | None) -> bool:
        """Wait until a call has ended; whether it has within so many seconds."""
        self.check_rank("wait")
        if self.turns.is_within() or self.is_me():
            raise CallNotAllowed(
                f"wait on {self._name}: called by a signal handler or finaliser during a call of its own thread; "
                f"the work is pending"
            )
        if work.is_receive and self.listener is not None:
            self.listener.help(work, sleeps=timeout is None)
            if work.done():
                return True
        self.hurry(work)
        return work._latch.wait(timeout)

    def check_rank(self, operation: str) -> None:
        """Raise in a process that the rank has forked. There the line is shut (`LocalRank`)."""
        if self.turns.is_shut:
            check_rank(self._pid, operation, self._name)

    @property
    def identity(self) -> int:
        """The worker's thread; 0 before it runs."""
        return self._identity.get("worker", 0)

    def is_me(self) -> bool:
        """Whether this thread is the worker."""
        return self.identity == threading.get_ident()

    def has_told(self, error: BaseException) -> None:
        """The program has been given this error."""
        if _ends_group(error):
            self._knowing.is_told = True

    def told(self, error: BaseException, site: Site | None) -> str:
        """What is said of a failure that nobody has seen."""
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
