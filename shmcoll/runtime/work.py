"""The handle of an asynchronous call, and waiting for one or several of them.

A handle is settled once, by the thread that has made the call or read the message. Then its latch is set, and the
threads that wait for it are woken (`async_worker.py` describes all waits).
"""

import contextlib
import math
import numbers
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

from shmcoll.diagnostics.call_site import Site, here
from shmcoll.engine.system.handlers import LONGEST_SLEEP
from shmcoll.engine.system.text import shown
from shmcoll.engine.system.tracebacks import border, shorten
from shmcoll.errors import Cancelled
from shmcoll.profiling import recorder
from shmcoll.runtime import lost_failures, waiting
from shmcoll.runtime.process_bound import ProcessBound

Result = TypeVar("Result", covariant=True)


class Worker(Protocol):
    """The part of the communicator's `AsyncWorker` that is used here."""

    unseen: dict[object, Site | None] | None

    def check_rank(self, operation: str) -> None: ...

    def check_outside(self) -> None: ...

    def hurry(self, work: "Work[Any]") -> None: ...

    def wake(self) -> None: ...

    def look(self, works: "Sequence[Work[Any]]", *, polls: bool, sleeps: bool) -> None: ...

    def told(self, error: BaseException, site: Site | None) -> str: ...

    def has_told(self, error: BaseException) -> None: ...


class Latch:
    """A latch that is set once. Any thread may wait for it, also in a signal handler, and again after an interrupt."""

    __slots__ = ("_calls", "is_set")

    def __init__(self, *, is_set: bool = False) -> None:
        self.is_set = is_set
        self._calls: list[Callable[[], None]] = []

    def set(self) -> None:
        """Set it, and make the calls that wait for this. If it is set again, it makes the calls that an interrupt has
        left."""
        self.is_set = True
        with contextlib.suppress(IndexError):  # set by two threads at once
            while True:
                call = self._calls[0]
                call()
                self.forget(call)  # only now: an interrupt before the call has been made must not lose it

    def then(self, call: Callable[[], None]) -> None:
        """Have a call made in the thread that sets the latch; make it at once if the latch is set. It may be made
        twice."""
        self._calls.append(call)
        if self.is_set:
            self.set()

    def forget(self, call: Callable[[], None]) -> None:
        """Cancel this call, unless it is being made."""
        with contextlib.suppress(ValueError):
            self._calls.remove(call)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set. Returns whether it was within `timeout` seconds."""
        if self.is_set:
            return True
        mine = _Bell()
        self._calls.append(mine.ring)
        if not self.is_set:
            mine.wait(timeout)
        return self.is_set


_SET = Latch(is_set=True)  # of all calls that had ended before they got a handle: nothing is kept in it


class _Bell:
    """Wakes one thread once, however often it is rung."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        with contextlib.suppress(RuntimeError):  # it has been rung before
            self._lock.release()

    def wait(self, timeout: float | None) -> None:
        """Wait until it has been rung, for at most `timeout` seconds."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        while not self._lock.acquire(timeout=min(max(end - time.monotonic(), 0), LONGEST_SLEEP)):
            if time.monotonic() >= end:
                return


class Work(ProcessBound, Generic[Result]):
    """A pending call. Methods of a communicator return it for `async_op=True`.

    The call completes whether or not the program waits for it. Leave its arrays alone until then. In a coroutine,
    `await` returns the result, too.

    Example:
        >>> work = comm.all_reduce(np.ones(2), async_op=True)
        >>> work.wait() / comm.size
        array([1., 1.])
    """

    _title, _instead = "an asynchronous call of a communicator", "wait for it, and pass its result"

    # What most handles keep is an attribute of the class, because many are made: each would take time
    is_receive = False
    _result: Any = None
    is_awaited = False  # whether it is a blocking call, whose thread waits for nothing else and raises its failure
    _failure: lost_failures.Failure | None = None  # unless it is a `Cancelled`
    _is_cancelled = False
    _looks = 0
    _mark: object | None = None  # its key in `unseen` of its worker

    def __init__(self, worker: Worker, site: Site | None):
        self.site = site
        self._worker = worker
        self._latch = Latch()
        if worker.unseen is not None:
            self._note_unseen(site)

    @classmethod
    def ended(cls, worker: Worker, site: Site | None, result: Any) -> "Work[Any]":
        """Make the handle of a call that has returned or raised `result`."""
        work: Work[Any] = cls.__new__(cls)  # in fewer steps than by `__init__`: many are made
        work.site, work._worker, work._latch = site, worker, _SET
        work._result = result
        if isinstance(result, BaseException):
            work._note_failure(result)
        if worker.unseen is not None:
            work._note_unseen(site or here())
        return work

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
        try:
            self._wait_for_end(timeout)
            return self._outcome()
        except BaseException as error:
            shorten(error)
            raise

    def result(self, timeout: float | None = None) -> Result:
        """Do the same as `wait`. Futures of Python have this name for it.

        Args:
            timeout: as for `wait`.

        Returns:
            The result, as from `wait`.

        Raises:
            TimeoutError: the call has not ended within `timeout`. It goes on.
            Cancelled: the receive has been withdrawn.
            CallNotAllowed: as for `wait`.
        """
        return self.wait(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait until the call has ended, and return the error that `wait` would raise.

        Args:
            timeout: as for `wait`.

        Returns:
            The error, which counts as seen; None if the call has succeeded.

        Raises:
            TimeoutError: the call has not ended within `timeout`. It goes on.
            Cancelled: the receive has been withdrawn.
            CallNotAllowed: as for `wait`.
        """
        self._wait_for_end(timeout)
        self._count_as_seen()
        if self._failure is None:
            self._outcome()
            return None
        lost_failures.forget(self._failure)
        self._worker.has_told(self._result)
        return cast(BaseException, self._result)

    def test(self) -> bool:
        """Make progress on the call, and return whether it has ended, so that a loop of tests ends.

        It looks for the message of a posted receive, and whether the receiver of a synchronous send has begun. If
        another thread makes the call, that thread gets the interpreter for a moment.

        Raises:
            CallNotAllowed: as for `wait`.
        """
        if not self._latch.is_set:
            self._worker.check_rank("test")
            self._worker.check_outside()
            self._help()
        return self.done()

    def _help(self) -> None:
        """Do what this thread can do at once for the end of the call."""
        if self.is_receive:
            self._worker.look([self], polls=False, sleeps=False)
            self._looks += 1
            if self._looks % waiting.TESTS:
                return
        if not self._latch.is_set:
            time.sleep(waiting.YIELD)

    def done(self) -> bool:
        """Return whether the call has ended, with a result or with an error, or has been withdrawn."""
        if self._latch.is_set and self._mark is not None:
            self._count_as_seen()
        return self._latch.is_set

    @property
    def _has_ended(self) -> bool:
        """Whether it is done, for this package: the program has not asked."""
        return self._latch.is_set

    def cancel(self) -> bool:
        """Withdraw a posted receive whose message has not arrived. No message is lost.

        Only a receive can be withdrawn: in any other call, the other ranks wait for this rank's part. `wait` raises
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

        try:
            self._worker.check_rank("await")
            if not self._latch.is_set:
                loop = asyncio.get_running_loop()
                waiter = loop.create_future()
                self._latch.then(lambda: _wake_up(loop, waiter))
                self._worker.hurry(self)
                yield from waiter
            return self._outcome()
        except BaseException as error:
            shorten(error)
            raise

    def _wait_for_end(self, timeout: float | None) -> None:
        if not self._latch.is_set and not self._wait(timeout):
            raise TimeoutError(f"the call has not ended within {timeout:g} s; it continues")

    def _wait(self, timeout: float | None, *, sleeps: bool = False) -> bool:
        """Wait until the call has ended. Returns whether it has within `timeout` seconds. sleeps: it may take longer,
        because it may sleep in native code."""
        _check(timeout)
        self._worker.check_rank("wait")
        self._worker.check_outside()
        begun = time.monotonic_ns() if recorder.current else 0
        self._worker.look([self], polls=True, sleeps=timeout is None or sleeps)
        if not self._latch.is_set:
            self._worker.hurry(self)
            self._latch.wait(timeout)
        if begun and self.is_receive and recorder.current:
            recorder.current.note_wait(begun)
        return self._latch.is_set

    def await_end(self) -> None:
        """Wait until the operation has ended, whichever way."""
        self._worker.hurry(self)
        self._latch.wait()

    def settle(self, result: Any) -> None:
        """Note that the call has ended. result: the value that it has returned, or the exception that it has raised.
        Calling `settle` again completes what an interrupt has left undone, and has no other effect."""
        if not self._latch.is_set:
            self._result = result
            if isinstance(result, BaseException):
                self._note_failure(result)
        self._latch.set()

    def _note_failure(self, error: BaseException) -> None:
        if isinstance(error, Cancelled):
            self._is_cancelled = True
            self._count_as_seen()
        else:
            worker, site = self._worker, self.site
            self._failure = self._failure or lost_failures.Failure(error, lambda: worker.told(error, site))
            if not self.is_awaited:  # a daemon thread may have been left behind in it
                lost_failures.note(self._failure)

    def _note_unseen(self, site: Site | None) -> None:
        """Note that the program has not learned yet that the call has ended. With the check of buffers only."""
        self._mark = object()
        assert self._worker.unseen is not None
        self._worker.unseen[self._mark] = site

    def _count_as_seen(self) -> None:
        """Note that the program has learned that the call has ended, or never will: it has no such handle."""
        if self._worker.unseen is not None:
            self._worker.unseen.pop(self._mark, None)

    def _outcome(self) -> Result:
        self._count_as_seen()
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
    """Continue an `await` in the thread of its event loop, unless it was cancelled or the loop has been closed."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(lambda: None if waiter.done() else waiter.set_result(None))


@border
def wait_all(works: "Sequence[Work[Any]]", timeout: float | None = None) -> list[Any]:
    """Wait until all these calls have ended.

    Args:
        works: what asynchronous calls have returned, of any communicators.
        timeout: the limit of this wait, in seconds; by default none.

    Returns:
        Their results, in the same order.

    Raises:
        TimeoutError: not all have ended within `timeout`. They go on.
        TypeError: one of `works` is not a `Work`.

    The first error of a call, in the order given, is raised when all have ended; the other errors count as seen.

    Example:
        >>> shmcoll.wait_all([comm.barrier(async_op=True), comm.all_reduce(np.ones(1), async_op=True)])[1] / comm.size
        array([1.])
    """
    listed, end = _listed(works), _end(timeout)
    for work in listed:
        if not work.done() and not work._wait(_left(end)):
            raise TimeoutError(f"{_pending(listed)} of {len(listed)} calls have not ended within {timeout:g} s")
    errors = [error for work in listed if (error := _error(work)) is not None]
    if errors:
        raise errors[0]
    return [work.wait() for work in listed]


@border
def wait_any(works: "Sequence[Work[Any]]", timeout: float | None = None) -> int:
    """Wait until one of these calls has ended.

    Args:
        works: as for `wait_all`.
        timeout: the limit of this wait, in seconds; by default none.

    Returns:
        The index of a call that has ended, whichever way: the lowest one.

    Raises:
        TimeoutError: none has ended within `timeout`. They go on.
        TypeError: one of `works` is not a `Work`.
        ValueError: there are no calls.

    Example:
        >>> shmcoll.wait_any([comm.barrier(async_op=True)])
        0
    """
    return wait_some(works, timeout)[0]


@border
def wait_some(works: "Sequence[Work[Any]]", timeout: float | None = None) -> list[int]:
    """Wait until at least one of these calls has ended.

    Args:
        works: as for `wait_all`.
        timeout: the limit of this wait, in seconds; by default none.

    Returns:
        The indices of all calls that have ended, whichever way.

    Raises:
        TimeoutError: none has ended within `timeout`. They go on.
        TypeError: one of `works` is not a `Work`.
        ValueError: there are no calls.
    """
    listed = _listed(works)
    _check(timeout)
    if not listed:
        raise ValueError("there is no call to wait for")
    for workers_works in _by_worker(listed):
        worker = workers_works[0]._worker
        worker.check_rank("wait")
        worker.check_outside()
        worker.look(workers_works, polls=True, sleeps=timeout is None and len(workers_works) == len(listed))
    if not any(work.done() for work in listed):
        bell = _Bell()
        try:
            for work in listed:
                work._latch.then(bell.ring)
                work._worker.hurry(work)
            bell.wait(timeout)
        finally:
            for work in listed:
                work._latch.forget(bell.ring)
    ended = [i for i, work in enumerate(listed) if work.done()]
    if not ended:
        raise TimeoutError(f"none of {len(listed)} calls has ended within {timeout:g} s; they continue")
    return ended


def _listed(works: "Sequence[Work[Any]]") -> "list[Work[Any]]":
    if not isinstance(works, Iterable):
        advice = "; pass [work]" if isinstance(works, Work) else ""
        raise TypeError(f"works must be a sequence of what calls with async_op=True return, got {shown(works)}{advice}")
    listed = list(works)
    for i, work in enumerate(listed):
        if not isinstance(work, Work):
            raise TypeError(f"works[{i}] must be what a call with async_op=True returns, got {type(work).__name__}")
    return listed


def _by_worker(works: "list[Work[Any]]") -> "Iterable[list[Work[Any]]]":
    by_worker: dict[int, list[Work[Any]]] = {}
    for work in works:
        by_worker.setdefault(id(work._worker), []).append(work)
    return by_worker.values()


def _check(timeout: Any) -> None:
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, numbers.Real)):
        raise TypeError(f"timeout must be a number of seconds or None, got {shown(timeout)}")


def _end(timeout: float | None) -> float | None:
    _check(timeout)
    return None if timeout is None else time.monotonic() + timeout


def _left(end: float | None) -> float | None:
    return None if end is None else max(end - time.monotonic(), 0)


def _pending(works: "list[Work[Any]]") -> int:
    return sum(not work.done() for work in works)


def _error(work: "Work[Any]") -> BaseException | None:
    """Return the error of a call that has ended. It counts as seen."""
    try:
        return work.exception()
    except Cancelled as cancelled:
        return cancelled
