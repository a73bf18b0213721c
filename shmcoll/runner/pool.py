"""`shmcoll.ranks`: ranks that stay from call to call, on the side of their caller.

They have a server of their own (`supervise.py`), a child of the caller, which ends with it. So they end when they
are closed, when the `Ranks` object is deleted, when the interpreter ends, and when the caller is killed.
"""

import contextlib
import os
import pickle
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Never

from shmcoll.engine.compiler.deferral import deferred_signals
from shmcoll.engine.system.processes import check_proc
from shmcoll.engine.system.tracebacks import border
from shmcoll.errors import CallNotAllowed, RankFailed
from shmcoll.runner import arguments, protocol
from shmcoll.runner import progress as bars
from shmcoll.runner.client import Lost, Server
from shmcoll.runner.map_call import MapCall
from shmcoll.runner.mapping import Options, in_turn
from shmcoll.runner.namespaces import KnownGlobals
from shmcoll.runner.outgoing import STOPPING, OutgoingCall, limits_in_words
from shmcoll.runner.pickling import Sending, pickled
from shmcoll.runner.protocol import Call, Close, Open
from shmcoll.runner.turns import Turns
from shmcoll.runtime.process_bound import ProcessBound

_OF = "shmcoll.ranks"
_open: "weakref.WeakSet[Ranks]" = weakref.WeakSet()


@border
def ranks(n: int, *, method: str = "fork", **others: Never) -> "Ranks":
    """Start `n` ranks that keep their state from call to call.

    Args:
        n: the number of ranks.
        method: "fork" or "spawn", as in `shmcoll.run`.
        others: not taken, as of `shmcoll.map`.

    Returns:
        The ranks. They end with the `with` block, or by `close`.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: an argument is out of range.
        ArenaError: there is too little shared memory.
        ShmcollError: the system has no room for so many processes or files.
        CallNotAllowed: a rank calls it.

    Example:
        >>> def load(n):
        ...     global data
        ...     data = np.full(n, shmcoll.init().rank)
        >>> def total():
        ...     return int(shmcoll.init().all_reduce(data)[0])
        >>> with shmcoll.ranks(3) as r:
        ...     _ = r.run(load, 1000)
        ...     r.run(total)
        [3, 3, 3]
    """
    arguments.check_names(_OF, others, {"ranks": "n", "method": "method"})
    number = arguments.number_of_ranks(n, "n")
    arguments.check_method(method)
    arguments.refuse_ranks(_OF)
    check_proc()
    with limits_in_words(_OF, number):
        return Ranks(number, method)


class Ranks(ProcessBound):
    """Ranks that stay. `shmcoll.ranks` starts them.

    Each call of `run` calls a function on all of them. Changes in modules, in global variables and in the communicator
    of `shmcoll.init()` stay for the next call. A function that is defined in a script or a notebook comes with the
    global variables that it uses. Such a variable is sent when it is new, or when the caller has changed it since it
    was sent last. Otherwise the ranks keep their own value.

    The ranks have the environment, the working directory and `sys.path` that the caller had when they were started.
    They end by `close`, with the `with` block, or when the calling process ends; then they are killed, and their exit
    handlers do not run. In a fork of the calling process they cannot be used.
    """

    _title, _instead = "the Ranks object of shmcoll.ranks", "call its methods there"

    def __init__(self, n: int, method: str):
        self._n = n
        self._pid = os.getpid()
        self._closed = ""  # why no further call is possible
        self._is_mapping = False  # whether an iterator of `imap` has the ranks
        self._items: MapCall | None = None  # its items
        self._turns = Turns(_OF)
        self._known = KnownGlobals(pickled)
        self._server = Server()
        self._end = weakref.finalize(self, self._server.end)
        _open.add(self)
        try:
            self._server.launch()
            self._start(method)
        except BaseException:
            self._server.end()
            raise

    def __call__(self, *args: Any, **kwargs: Any) -> Never:
        """Raise `TypeError`: `run` is the method that calls a function."""
        fn = arguments.name_of(args[0]) if args and callable(args[0]) else "fn"
        more = ", ..." if kwargs or len(args) > 1 else ""
        raise TypeError(f"a Ranks object is not a function; call one on its ranks: r.run({fn}{more})")

    def run(self, fn: Callable[..., Any], *args: Any, timeout: float | None = None, **kwargs: Any) -> list[Any]:
        """Call `fn(*args, **kwargs)` on every rank, and return the results.

        Failures are raised as by `shmcoll.run`. If every rank answers and the group of all ranks goes on, the ranks
        stay. They are closed if a rank ends, if the group of all ranks ends, as it does when a rank raises an exception
        while others wait for it in a collective, and after `timeout`. Ctrl-C raises `KeyboardInterrupt` in the ranks;
        they stay if they were not in a collective. Calls from several threads take turns.

        Args:
            fn: the function, as in `shmcoll.run`.
            args: the positional arguments of `fn`.
            timeout: the limit in seconds; by default none.
            kwargs: the keyword arguments of `fn`.

        Returns:
            The results, a list in rank order.

        Raises:
            TimeoutError: after `timeout`; a note shows where every rank was.
            TypeError: the function, an argument or a result cannot be pickled, an argument has a wrong type, or
                `timeout` is passed and `fn` has a parameter of this name, too.
            ValueError: `timeout` is out of range.
            RankFailed: a rank ended without a result, or has ended before; the text says why.
            CallNotAllowed: the ranks are closed, this process is a fork of the caller, or a signal handler calls it
                during another call.

        Example:
            >>> with shmcoll.ranks(2) as r:
            ...     r.run(lambda x, by: x * by + shmcoll.init().rank, 5, by=10)
            [50, 51]
        """
        arguments.check_function("Ranks.run", fn)
        arguments.check_timeout(timeout)
        arguments.check_clear("Ranks.run", fn, args, {"timeout": (timeout, None)})
        self._check_open()
        with contextlib.ExitStack() as stack:
            stack.enter_context(limits_in_words(_OF, self._n))
            call = OutgoingCall(stack, _OF, self._n, Sending(fn, self._known))
            with self._turns.turn(), self._noting(call):
                call.write(fn, args, kwargs)
                over = call.exchange(self._server, Call(self._server.count + 1, timeout))
            return call.results(over, timeout)

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        chunk: int | None = None,
        progress: bool = False,
        return_errors: bool = False,
        timeout: float | None = None,
        **others: Never,
    ) -> list[Any]:
        """Call `fn(item)` for every item, and return the results in the order of the items.

        As `shmcoll.map`, on these ranks. `fn` sees what earlier calls have left in global variables. Collectives raise
        `CallNotAllowed` meanwhile. A rank that ends closes the ranks, with `return_errors`, too.

        Args:
            fn: the function, as in `run`.
            iterables: as in `shmcoll.map`.
            chunk: as in `shmcoll.map`.
            progress: as in `shmcoll.map`.
            return_errors: as in `shmcoll.map`.
            timeout: the limit in seconds; by default none.
            others: not taken, as of `shmcoll.map`.

        Returns:
            The results, a list.

        Raises:
            TypeError: as in `shmcoll.map`.
            ValueError: as in `shmcoll.map`.
            ImportError: as in `shmcoll.map`.
            TimeoutError: as in `run`.
            RankFailed: as in `run`.
            CallNotAllowed: as in `run`.

        Example:
            >>> with shmcoll.ranks(2) as r:
            ...     r.map(lambda x: x * x, range(4))
            [0, 1, 4, 9]
        """
        options = Options("Ranks.map", fn, iterables, chunk, return_errors, timeout, others)
        show = bars.checked(progress)
        self._check_open()
        options.read(self._n)
        with self._turns.turn(), contextlib.ExitStack() as stack:
            work = options.new_call(stack, self._n, stays=True)
            bar = stack.enter_context(show(options.source.length))
            for news in self._work(stack, options.of, options.fn, options.timeout, work):
                bar.update(len(news))
            return [*map(work.results.__getitem__, range(options.source.count))]

    def imap(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        ordered: bool = True,
        chunk: int | None = None,
        progress: bool = False,
        return_errors: bool = False,
        timeout: float | None = None,
        **others: Never,
    ) -> Iterator[Any]:
        """Return an iterator over the results of `fn(item)` for every item, as they come.

        As `shmcoll.imap`, on these ranks. They take no other call until the iterator has ended or is closed.

        Args:
            fn: the function, as in `run`.
            iterables: as in `shmcoll.map`.
            ordered: as in `shmcoll.imap`.
            chunk: as in `shmcoll.map`.
            progress: as in `shmcoll.map`.
            return_errors: as in `shmcoll.map`.
            timeout: the limit in seconds; by default none.
            others: not taken, as of `shmcoll.map`.

        Returns:
            An iterator over the results.

        Raises:
            TypeError: as in `shmcoll.map`.
            ValueError: as in `shmcoll.map`.
            ImportError: as in `shmcoll.map`.
            RankFailed: the ranks have ended.
            CallNotAllowed: as in `run`.

        Example:
            >>> with shmcoll.ranks(2) as r:
            ...     sorted(r.imap(lambda x: x * x, range(4), ordered=False))
            [0, 1, 4, 9]
        """
        options = Options("Ranks.imap", fn, iterables, chunk, return_errors, timeout, others)
        show = bars.checked(progress)
        self._check_open()
        options.read(self._n)
        return self._imap(options, ordered, show)

    def _imap(self, options: Options, ordered: bool, show: bars.Show) -> Iterator[Any]:
        with contextlib.ExitStack() as stack:
            with self._turns.turn():
                self._check_open()
                self._is_mapping = True
            stack.callback(setattr, self, "_is_mapping", False)
            work = self._items = options.new_call(stack, self._n, stays=True, ahead=True)
            stack.callback(setattr, self, "_items", None)
            stack.enter_context(self._closed_in_words())
            bar = stack.enter_context(show(options.source.length))
            yield from in_turn(self._work(stack, options.of, options.fn, options.timeout, work), work, ordered, bar)

    @contextlib.contextmanager
    def _closed_in_words(self) -> Iterator[None]:
        try:
            yield
        except RankFailed:
            if self._closed == "closed":
                self._check_open()
            raise

    def _work(
        self,
        stack: contextlib.ExitStack,
        of: str,
        fn: Callable[..., Any],
        timeout: float | None,
        work: MapCall,
        known: KnownGlobals | None = None,
    ) -> Iterator[list[int]]:
        """Have the ranks work on items, and yield the numbers of the results that have come."""
        stack.enter_context(limits_in_words(of, self._n))
        call = OutgoingCall(stack, of, self._n, Sending(fn, known or self._known), work)
        with self._noting(call):
            call.write(work.worker, (), {})
            yield from work.run(call, self._server, Call(self._server.count + 1, timeout), timeout)

    @contextlib.contextmanager
    def _noting(self, call: OutgoingCall) -> Iterator[None]:
        """Make a call in the block, and note afterwards what the ranks know, and whether they stay."""
        self._known.discard()
        if not self._closed:
            self._note(None)  # an exception may have come between an earlier call and its note
        self._check_open(is_mapping=self._is_mapping)
        try:
            yield
        finally:
            if call.over and call.over.loaded:
                self._known.arrived()
            self._note(call.over)

    def close(self) -> None:
        """End the ranks. Calling it again has no effect.

        They end as programs do: exit handlers run, threads are waited for. After one second they get SIGTERM, and
        after another one SIGKILL. During a call in another thread, `close` waits for the end of that call.

        Raises:
            CallNotAllowed: a signal handler calls it during a call of `run`.
        """
        if os.getpid() != self._pid or not self._end.alive:
            return
        with self._turns.turn():
            self._closed = self._closed or "closed"
            if self._items:
                self._items.stop()
            self._ask_to_close()

    def __enter__(self) -> "Ranks":
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return self._n

    def __repr__(self) -> str:
        state = f", {self._closed}" if self._closed else ""
        return f"<shmcoll.Ranks: {self._n} ranks{state}>"

    def _start(self, method: str) -> None:
        with deferred_signals():  # then the descriptor has an owner
            file = open(protocol.new_file("shmcoll-setting"), "w+b")  # noqa: SIM115
        with file:
            part = protocol.call_part(file, self._pid)
            pickle.dump(protocol.setting(protocol.span(self._n)), part)
            part.seal()
            self._server.count = 1
            try:
                self._server.send(Open(1, self._n, method == "fork"), [file.fileno()])
                over = self._server.wait([])
            except Lost:
                raise RankFailed(
                    f"the server of {_OF} {self._server.fate()} while it started {self._n} ranks"
                ) from None
        if over.refused:
            raise over.refused

    def _check_open(self, *, is_mapping: bool = False) -> None:
        if os.getpid() != self._pid:
            raise CallNotAllowed(
                f"these ranks belong to process {self._pid}, of which this one is a fork; "
                f"open others here with shmcoll.ranks"
            )
        if self._closed == "closed":
            raise CallNotAllowed("these ranks are closed; open others with shmcoll.ranks")
        if self._closed:
            raise RankFailed(protocol.refusal(self._closed))
        if self._is_mapping and not is_mapping:
            raise CallNotAllowed(
                "these ranks work on the items of Ranks.imap; read its results to the end first, or close the iterator"
            )

    def _note(self, over: protocol.Over | None) -> None:
        """Note whether the ranks stay. If not, have them end. over: that of a call which has just ended."""
        if self._closed == "closed":
            return
        if over is not None and over.closed:
            self._closed = over.closed
        elif not self._server.is_usable():
            is_running = self._server.is_running()
            self._closed = "the end of a call was interrupted" if is_running else f"their server {self._server.fate()}"
        if self._closed:
            self._ask_to_close()

    def _ask_to_close(self) -> None:
        server = self._server
        server.count += 1
        try:
            server.send(Close(server.count))
            server.wait([], time.monotonic() + STOPPING)
        except (Lost, CallNotAllowed):  # the latter in a fork of the caller
            pass
        finally:
            self._server.end()
            self._end.detach()  # at last: until then `close` and the end of the program repeat it

    def _forget(self) -> None:
        """Forget the ranks in a fork of the caller."""
        self._end.detach()


def _forget_all() -> None:
    for one in list(_open):
        one._forget()
    _open.clear()


os.register_at_fork(after_in_child=_forget_all)
