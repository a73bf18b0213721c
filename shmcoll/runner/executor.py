"""`shmcoll.Executor`: ranks that stay, as an executor of `concurrent.futures`.

A thread of the caller serves one long call of the ranks (`map_call.py`), whose items are the functions that `submit` is
given. It ends when the executor is shut down, or forgotten, and nothing is left to do; then it closes the ranks.

    submit      appends a future with its function to `waiting`, and wakes the thread, by a message into its own socket
    the thread  takes a future out of `waiting` when a rank will soon be free; from then on it cannot be cancelled. Sets
                its result. If the call fails, as by the death of a rank, it sets `broken`, and an exception in all
                futures that are left

`lock` guards `waiting`, `is_shut`, `broken` and the socket of `wake`, which the thread closes: a message to a closed
descriptor could reach another file. The thread never waits for it long, and the caller waits for the thread in
`shutdown` only. At the end of the interpreter, all executors are shut down and waited for, as those of the standard
library are.
"""

import contextlib
import functools
import itertools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future
from concurrent.futures import Executor as StandardExecutor
from typing import Any, Never, ParamSpec, TypeVar

from shmcoll.engine.system.cores import usable_cores
from shmcoll.engine.system.text import shown
from shmcoll.engine.system.tracebacks import Border
from shmcoll.errors import CallNotAllowed, InternalError, RankFailed
from shmcoll.runner import arguments
from shmcoll.runner.chunks import Chunk
from shmcoll.runner.map_call import MapCall
from shmcoll.runner.pool import Ranks, ranks
from shmcoll.runtime import uncaught

P = ParamSpec("P")
T = TypeVar("T")

_OF = "shmcoll.Executor"
_threads: "weakref.WeakKeyDictionary[threading.Thread, _Waiting]" = weakref.WeakKeyDictionary()
_is_exiting = False


class BrokenRanks(BrokenExecutor, RankFailed):
    """A rank of an executor has ended, or its initializer has raised: no future is completed any more."""


class Executor(StandardExecutor, Border):
    """An executor of `concurrent.futures` whose functions run on ranks.

    For programs and libraries that take executors, such as `dask`, `emcee`, `scipy` (`workers=executor.map`) and
    `asyncio.loop.run_in_executor`. Functions, arguments and results are sent as by `shmcoll.map`: with cloudpickle, and
    arrays of 1 MiB and more in shared memory. When a rank dies, all futures get a `BrokenExecutor`, which is a
    `RankFailed`, too. Ranks cannot make collectives meanwhile. It cannot be used in a fork of the process that has made
    it.

    Args:
        n: the number of ranks; by default one for each usable core.
        initializer: a function that each rank calls first; if it raises, the executor is broken.
        initargs: its arguments.
        method: "fork" or "spawn", as in `shmcoll.run`.
        others: not taken, as of `shmcoll.map`.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: an argument is out of range.
        ShmcollError: as by `shmcoll.ranks`.

    Example:
        >>> with shmcoll.Executor(2) as executor:
        ...     future = executor.submit(pow, 2, 10)
        ...     print(future.result(), list(executor.map(abs, [-1, -2])))
        1024 [1, 2]
    """

    def __init__(
        self,
        n: int | None = None,
        *,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        method: str = "fork",
        **others: Never,
    ):
        arguments.check_names(_OF, others, {"ranks": "n", "method": "method", "function": "initializer"})
        if initializer is not None and not callable(initializer):
            raise TypeError(f"initializer must be callable, got {shown(initializer)}")
        number = usable_cores() if n is None else arguments.number_of_ranks(n, "n")
        self._max_workers = number  # as of the standard library; dask reads it
        self._pid = os.getpid()
        arguments.refuse_ranks(_OF)
        begin = functools.partial(initializer, *initargs) if initializer else None
        self._waiting = _Waiting()
        self._ranks = ranks(number, method=method)
        self._thread = threading.Thread(target=_serve, args=(self._ranks, self._waiting, begin), name=_OF, daemon=True)
        self._thread.start()
        _threads[self._thread] = self._waiting
        self._forgotten = weakref.finalize(self, _shut_in, self._pid, self._waiting)
        self._forgotten.atexit = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Have a rank call `fn(*args, **kwargs)`.

        Args:
            fn: the function, as in `shmcoll.run`.
            args: its positional arguments.
            kwargs: its keyword arguments.

        Returns:
            The future.

        Raises:
            TypeError: `fn` is not a function.
            CallNotAllowed: the executor has been shut down, or this process is a fork of the one that has made it.
            BrokenExecutor: a rank has died, or the initializer has raised.
        """
        arguments.check_function("Executor.submit", fn)
        if os.getpid() != self._pid:
            raise CallNotAllowed(
                f"this executor belongs to process {self._pid}, of which this one is a fork; make another one here"
            )
        future: Future[T] = Future()
        self._waiting.append(future, fn, args, kwargs)
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
        **more: Any,
    ) -> Iterator[T]:
        """Return an iterator over the results of `fn` for every item, as that of `ProcessPoolExecutor`.

        Args:
            fn: the function.
            iterables: of its arguments; they are read at once, unless `buffersize` is passed.
            timeout: how many seconds a result may take, from this call on; by default any number.
            chunksize: how many items are sent together.
            more: `buffersize`, from Python 3.14 on.

        Returns:
            The iterator.

        Raises:
            ValueError: `chunksize` is not positive.
            TimeoutError: by the iterator.
        """
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1")
        batches = _batches(zip(*iterables, strict=False), chunksize)
        results: Iterator[list[T]] = super().map(functools.partial(_each, fn), batches, timeout=timeout, **more)
        return _one_by_one(results)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the ranks when nothing is left to do. Calling it again has no effect.

        Args:
            wait: return when they have ended.
            cancel_futures: cancel the futures that no rank has begun.
        """
        if os.getpid() != self._pid:
            return
        self._waiting.shut(cancel=cancel_futures)
        if wait and threading.current_thread() is not self._thread:
            self._thread.join()

    def _kill(self) -> None:
        """End the ranks at once, by the end of their server. The futures that ranks have begun get a `BrokenExecutor`,
        and the others are cancelled."""
        if os.getpid() == self._pid:
            self._waiting.shut(cancel=True)
            self._ranks._server.kill()
            self.shutdown()


class _Waiting:
    """The futures that no rank has begun, in the role of `Chunks`."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.is_shut = False
        self.broken: BaseException | None = None
        self.count = 0
        self.length: int | None = None
        self.wake: Callable[[], None] = lambda: None
        self.begun: dict[int, Future[Any]] = {}
        self._futures: deque[tuple[Future[Any], tuple[Any, ...]]] = deque()

    @property
    def is_over(self) -> bool:
        return self.is_shut and not self._futures

    def append(self, future: "Future[Any]", *call: Any) -> None:
        with self.lock:
            if self.broken:
                raise BrokenRanks(_in_words(self.broken)) from self.broken
            if self.is_shut or _is_exiting:
                raise CallNotAllowed(
                    f"cannot schedule new futures after {'interpreter ' * _is_exiting}shutdown of this executor"
                )
            self._futures.append((future, call))
            self.wake()

    def next(self) -> Chunk | None:
        while self._futures:
            future, call = self._futures.popleft()
            if future.set_running_or_notify_cancel():
                self.begun[self.count] = future
                self.count += 1
                return Chunk(self.count - 1, [call])
        return None

    def note(self, items: int, seconds: float) -> None:
        """Do nothing: a chunk has one function."""

    def described(self, call: tuple[Any, ...]) -> str:
        _, args, kwargs = call
        given = [*map(shown, args), *(f"{name}={shown(value)}" for name, value in kwargs.items())]
        return f"{arguments.name_of(self.function(call))}({', '.join(given)})"

    def function(self, call: tuple[Any, ...]) -> Any:
        fn = call[0]
        return fn.args[0] if isinstance(fn, functools.partial) and fn.func is _each else fn

    def shut(self, *, cancel: bool = False) -> None:
        with self.lock:
            self.is_shut = True
            for future, _ in list(self._futures) if cancel else ():
                future.cancel()
            self.wake()

    def stop_waking(self) -> None:
        with self.lock:
            self.wake = lambda: None

    def break_all(self, error: BaseException) -> None:
        """Set an exception in all futures that are left."""
        if not isinstance(error, InternalError):
            error.__traceback__ = None  # its frames are ours, and refer to this object
        with self.lock:
            self.broken, self.is_shut = error, True
            left = [*self.begun.values(), *(one for one, _ in self._futures if one.set_running_or_notify_cancel())]
            self.begun, self._futures = {}, deque()
        for future in left:
            rank, signal = getattr(error, "rank", None), getattr(error, "signal", None)
            broken = BrokenRanks(_in_words(error), rank=rank, signal=signal)
            broken.__cause__ = error
            future.set_exception(broken)


def _in_words(error: BaseException) -> str:
    return str(error) if isinstance(error, RankFailed) else uncaught.in_one_line(error)


def _shut_in(pid: int, waiting: _Waiting) -> None:
    if os.getpid() == pid:  # a fork has no thread for it
        waiting.shut()


def _serve(ranks: Ranks, waiting: _Waiting, begin: Callable[[], object] | None) -> None:
    try:
        with contextlib.ExitStack() as stack:
            work = MapCall(
                stack, _OF, _call, waiting, len(ranks), begin=begin, depth=len(ranks) + 1, returns_errors=True
            )
            waiting.wake = work.wake
            stack.callback(waiting.stop_waking)
            for news in ranks._work(stack, _OF, _call, None, work, work.known):
                for number in news:
                    _complete(waiting.begun.pop(number), work, number)
                del number
    except BaseException as error:
        waiting.break_all(error)
    finally:
        ranks.close()


def _complete(future: "Future[Any]", work: MapCall, number: int) -> None:
    value = work.results.pop(number)
    if number in work.errors:
        work.errors.discard(number)
        future.set_exception(value)
    else:
        future.set_result(value)


def _call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return fn(*args, **kwargs)


def _each(fn: Callable[..., T], items: list[tuple[Any, ...]]) -> list[T]:
    return [fn(*item) for item in items]


def _batches(items: Iterator[tuple[Any, ...]], size: int) -> Iterator[list[tuple[Any, ...]]]:
    while batch := list(itertools.islice(items, size)):
        yield batch


def _one_by_one(batches: Iterator[list[T]]) -> Iterator[T]:
    """Yield the items, and keep no reference to one that has been yielded."""
    for batch in batches:
        batch.reverse()
        while batch:
            yield batch.pop()


def _at_exit() -> None:
    global _is_exiting
    _is_exiting = True
    threads = list(_threads.items())
    for _, waiting in threads:
        waiting.shut()
    for thread, _ in threads:
        thread.join()


def _forget() -> None:
    """Forget all threads in a fork, which does not have them."""
    _threads.clear()


threading._register_atexit(_at_exit)  # type: ignore[attr-defined]  # before threads are joined, as the standard library
os.register_at_fork(after_in_child=_forget)
