"""`shmcoll.map` and `shmcoll.imap`: a function of one item, on ranks that take the next item when they are free.

`map_call.py` has the caller's side of the items, and `map_worker.py` that of the ranks.
"""

import builtins
import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Never

from shmcoll.engine.system.cores import usable_cores
from shmcoll.engine.system.processes import check_proc
from shmcoll.engine.system.text import shown
from shmcoll.engine.system.tracebacks import border, shorten
from shmcoll.runner import api, arguments, client
from shmcoll.runner import progress as bars
from shmcoll.runner.chunks import Chunks
from shmcoll.runner.map_call import MapCall
from shmcoll.runner.outgoing import OutgoingCall, limits_in_words
from shmcoll.runner.pickling import Sending
from shmcoll.runner.protocol import Call, Open

NAMES = {
    "ranks": "n",
    "function": "fn",
    "items": "the iterables by position",
    "method": "method",
    "timeout": "timeout",
    "chunk": "chunk",
    "progress": "progress",
    "errors": "return_errors",
}


@border
def map(
    fn: Callable[..., Any],
    *iterables: Iterable[Any],
    n: int | None = None,
    chunk: int | None = None,
    progress: bool = False,
    return_errors: bool = False,
    timeout: float | None = None,
    method: str = "fork",
    **others: Never,
) -> list[Any]:
    """Call `fn(item)` for every item, on `n` new ranks, and return the results in the order of the items.

    Of several iterables, `fn` gets an item of each, as of the builtin `map`; the shortest one ends the call. They are
    read as items are needed, so they may be generators. A rank takes the next items when it is free. No two ranks have
    the same item, so `fn` cannot make collectives: they raise `CallNotAllowed`.

    Arrays of 1 MiB and more in items and results are copied once, into memory that the receiver maps. An array that
    `shmcoll.shared` has made is not copied.

    An exception ends the call, unless `return_errors` is set. It has a note with the number and the value of the item,
    and an attribute `results`: a dict with the results that there are, by the number of the item. So have a
    `KeyboardInterrupt` and a `TimeoutError`, whose notes say which item each rank had.

    Args:
        fn: the function, as in `shmcoll.run`.
        iterables: one or more, of the arguments of `fn`, which are pickled.
        n: the number of ranks; by default one for each usable core, but not more than items.
        chunk: how many items a rank takes at a time; by default as many as take about 5 ms, found by measuring.
        progress: show a bar with the remaining time, in a terminal or a notebook. It needs tqdm:
            `pip install 'shmcoll[progress]'`.
        return_errors: return the exception of an item in place of its result, and go on. That of an item whose rank has
            ended is `RankFailed`.
        timeout: the limit in seconds, from the start of the ranks; by default none.
        method: "fork" or "spawn", as in `shmcoll.run`.
        others: not taken. The error tells what an argument of another library is called here.

    Returns:
        The results, a list.

    Raises:
        TypeError: an argument has a wrong type, or the function, an item or a result cannot be pickled.
        ValueError: an argument is out of range.
        ImportError: `progress` is set, and tqdm is not installed.
        TimeoutError: after `timeout`.
        RankFailed: a rank ended, and with `return_errors` the last one.
        ShmcollError: as in `shmcoll.run`.

    Example:
        >>> shmcoll.map(lambda word: word.upper(), ["a", "b", "c"], n=2)
        ['A', 'B', 'C']
        >>> shmcoll.map(pow, [2, 3], [5, 2], n=2)
        [32, 9]
    """
    options = Options("shmcoll.map", fn, iterables, chunk, return_errors, timeout, others)
    wanted = options.ranks(n, method)
    show = bars.checked(progress)
    if options.source.length == 0:
        return []
    with api.turn(), contextlib.ExitStack() as stack:
        work = options.new_call(stack, wanted)
        bar = stack.enter_context(show(options.source.length))
        for news in start(stack, options, work, wanted, method, client.running_server):
            bar.update(len(news))
        return [*builtins.map(work.results.__getitem__, range(options.source.count))]


@border
def imap(
    fn: Callable[..., Any],
    *iterables: Iterable[Any],
    ordered: bool = True,
    n: int | None = None,
    chunk: int | None = None,
    progress: bool = False,
    return_errors: bool = False,
    timeout: float | None = None,
    method: str = "fork",
    **others: Never,
) -> Iterator[Any]:
    """Return an iterator over the results of `fn(item)` for every item, as they come.

    The ranks start with the first result that is asked for, and work ahead of the loop by some chunks. They end with
    the last result, and when the iterator is closed or forgotten. While results are not asked for, no further items are
    read. The loop may call `shmcoll.run` and `shmcoll.map`.

    The attribute `results` of an exception has the results that have not been returned.

    Args:
        fn: the function, as in `shmcoll.run`.
        iterables: as in `shmcoll.map`.
        ordered: return the results in the order of the items; otherwise in that in which they come.
        n: as in `shmcoll.map`.
        chunk: as in `shmcoll.map`.
        progress: as in `shmcoll.map`.
        return_errors: as in `shmcoll.map`.
        timeout: the limit in seconds, from the start of the ranks to the last result; by default none.
        method: as in `shmcoll.map`.
        others: as in `shmcoll.map`.

    Returns:
        An iterator over the results.

    Raises:
        TypeError: as in `shmcoll.map`.
        ValueError: as in `shmcoll.map`.
        ImportError: as in `shmcoll.map`.

    Example:
        >>> for square in shmcoll.imap(lambda x: x * x, range(3), n=2):
        ...     print(square)
        0
        1
        4
    """
    options = Options("shmcoll.imap", fn, iterables, chunk, return_errors, timeout, others)
    wanted = options.ranks(n, method)
    return _imap(options, wanted, method, ordered, bars.checked(progress))


def _imap(options: "Options", wanted: int, method: str, ordered: bool, show: bars.Show) -> Iterator[Any]:
    if options.source.length == 0:
        return
    with contextlib.ExitStack() as stack:
        with api.turn():
            server = client.take()
        stack.callback(client.give_back, server)
        work = options.new_call(stack, wanted, ahead=True)
        bar = stack.enter_context(show(options.source.length))
        yield from in_turn(start(stack, options, work, wanted, method, lambda: server), work, ordered, bar)


class Options:
    """The checked arguments of `map` and `imap`, of ranks that stay, too. of: the function that users call."""

    def __init__(
        self,
        of: str,
        fn: Callable[..., Any],
        iterables: tuple[Iterable[Any], ...],
        chunk: int | None,
        return_errors: bool,
        timeout: float | None,
        others: dict[str, Any],
    ):
        arguments.check_names(of, others, NAMES)
        arguments.check_function(of, fn, iterables[0] if iterables else None)
        if not iterables:
            raise TypeError(f"{of} needs an iterable of the arguments of fn: {of}({arguments.name_of(fn)}, items)")
        for one in iterables:
            if not (isinstance(one, Iterable) or hasattr(type(one), "__getitem__")):
                hint = f"; did you mean n={shown(one)}?" if isinstance(one, int) and one is not iterables[0] else ""
                raise TypeError(f"each of the iterables must be one of the arguments of fn, got {shown(one)}{hint}")
        arguments.check_timeout(timeout)
        self.of, self.fn, self.iterables, self.timeout = of, fn, iterables, timeout
        self.chunk = None if chunk is None else min(arguments.positive(chunk, "chunk"), sys.maxsize)
        self.return_errors = bool(return_errors)

    def ranks(self, n: int | None, method: str) -> int:
        """Check what starts ranks, and return their number."""
        number = usable_cores() if n is None else arguments.number_of_ranks(n, "n")
        arguments.check_method(method)
        arguments.refuse_ranks(self.of)
        check_proc()
        self.read(number)
        return number if self.source.length is None else max(1, min(number, self.source.length))

    def read(self, nprocs: int) -> None:
        """Begin to read the iterables."""
        self.source = Chunks(self.iterables, self.chunk, nprocs)

    def new_call(
        self, stack: contextlib.ExitStack, nprocs: int, *, stays: bool = False, ahead: bool = False
    ) -> MapCall:
        """Return the items of a call. stays: of ranks that stay, which end with the first of them."""
        errors = self.return_errors
        return MapCall(
            stack,
            self.of,
            self.fn,
            self.source,
            nprocs,
            returns_errors=errors,
            goes_on=errors and not stays,
            ahead=ahead,
        )


def start(
    stack: contextlib.ExitStack,
    options: Options,
    work: MapCall,
    nprocs: int,
    method: str,
    server_of: Callable[[], client.Server],
) -> Iterator[list[int]]:
    """Start ranks for the items, and yield the numbers of the results that have come."""
    stack.enter_context(limits_in_words(options.of, nprocs))
    call = OutgoingCall(stack, options.of, nprocs, Sending(options.fn), work)
    call.write(work.worker, (), {})
    server = server_of()
    only = Call(server.count + 1, options.timeout)
    stops = not options.return_errors
    yield from work.run(call, server, Open(only.number, nprocs, method == "fork", stops, only), options.timeout)


def in_turn(news: Iterator[list[int]], work: MapCall, ordered: bool, bar: bars.Bar) -> Iterator[Any]:
    """Yield the results, as they come or in the order of the items."""
    try:
        for numbers in news:
            bar.update(len(numbers))
            while (number := work.taken if ordered else next(iter(work.results), -1)) in work.results:
                work.taken += 1
                yield work.results.pop(number)
    except BaseException as e:
        shorten(e)
        raise
