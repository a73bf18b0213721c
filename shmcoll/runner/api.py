"""`shmcoll.run` and `shmcoll.map`: call a function on several ranks, from a notebook, a test or a script.

The ranks are children of a server (`__main__.py`), which the first call of a process starts and later calls use again.
The output of ranks comes through two pipes and is written to the `sys.stdout` and `sys.stderr` that the caller has at
that time. So it appears below the notebook's cell and in a test's captured output.
"""

import atexit
import contextlib
import os
from collections.abc import Callable, Iterable
from typing import Any, Never

from shmcoll.engine.system.cores import usable_cores
from shmcoll.engine.system.processes import check_proc
from shmcoll.engine.system.text import shown
from shmcoll.engine.system.tracebacks import border
from shmcoll.runner import arguments, client, work_queue
from shmcoll.runner.outgoing import OutgoingCall, limits_in_words
from shmcoll.runner.pickling import Sending
from shmcoll.runner.protocol import Call, Open
from shmcoll.runner.turns import Turns
from shmcoll.runner.work_queue import WorkQueue

_turns = Turns("shmcoll.run")

_ONE_ITERABLE = (
    "; items is one iterable, of the arguments of fn. Of several, make one: "
    "shmcoll.map(lambda item: fn(*item), zip(items, more))"
)


@border
@arguments.refuse_twice
def run(
    fn: Callable[..., Any],
    nprocs: int,
    *args: Any,
    timeout: float | None = None,
    method: str = "fork",
    on_failure: str = "stop",
    **kwargs: Any,
) -> list[Any]:
    """Call `fn(*args, **kwargs)` on `nprocs` new ranks, and return their results.

    All ranks have ended when this function returns or raises. Calls from several threads take turns.

    If ranks fail, the exception of the rank that failed first is raised here. It has a note that names the rank, the
    rank's traceback as its `__cause__` (`RemoteTraceback`), and an attribute `others`, a dict with the exceptions of
    the other ranks that failed, by rank. A rank that ended without a result (killed, `os._exit`) counts as `RankFailed`
    with its signal or exit code. The other ranks have one second to end.

    A `TimeoutError` or a `KeyboardInterrupt` has a note that shows where every rank was, with its stack.

    Args:
        fn: the function; it joins the job with `shmcoll.init()`. It is sent with cloudpickle, so it may be a lambda, a
            closure, or defined in a notebook.
        nprocs: the number of ranks.
        args: the positional arguments of `fn`, which are pickled, as are the results. See also `shmcoll.shared`.
        timeout: the limit in seconds, from the start of the ranks; by default none.
        method: "fork", from a server that has numpy and shmcoll loaded, or "spawn", an interpreter of its own for each
            rank.
        on_failure: "stop", or "continue": then the time of the other ranks is not limited (see `Communicator.shrink`),
            and the exceptions of ranks that failed are returned among the results.
        kwargs: the keyword arguments of `fn`. Use `functools.partial` for those that have the name of an argument of
            `run`.

    Returns:
        The results, a list in rank order.

    Raises:
        TimeoutError: after `timeout`; the text names the ranks that were still running.
        TypeError: the function, an argument or a result cannot be pickled, an argument of `run` has a wrong type, or
            `timeout`, `method` or `on_failure` is passed and `fn` has a parameter of this name, too.
        ValueError: an argument of `run` is out of range.
        ArenaError: there is too little shared memory.
        ShmcollError: the system has no room for so many processes or files.
        RankFailed: a rank ended without a result, or the server was killed.
        CallNotAllowed: a rank calls it, or a signal handler during another call of `run`.

    Example:
        >>> import shmcoll
        >>> shmcoll.run(lambda: shmcoll.init().rank, 2)
        [0, 1]
        >>> def scaled(x, *, by=1):
        ...     return x * by * shmcoll.init().rank
        >>> shmcoll.run(scaled, 3, 2, by=10)
        [0, 20, 40]
    """
    arguments.check_function("shmcoll.run", fn, nprocs)
    arguments.check_keywords("shmcoll.run", fn, kwargs, {"ranks": "nprocs", "method": "method", "timeout": "timeout"})
    nprocs = arguments.number_of_ranks(nprocs, "nprocs")
    arguments.check_timeout(timeout)
    arguments.check_method(method)
    arguments.check_reaction(on_failure)
    options = {"timeout": (timeout, None), "method": (method, "fork"), "on_failure": (on_failure, "stop")}
    arguments.check_clear("shmcoll.run", fn, args, options)
    arguments.refuse_ranks("shmcoll.run")
    check_proc()
    with contextlib.ExitStack() as stack:
        stack.enter_context(limits_in_words("shmcoll.run", nprocs))
        return _run(stack, Sending(fn), fn, nprocs, args, kwargs, timeout, method, on_failure)


@border
def map(
    fn: Callable[[Any], Any],
    items: Iterable[Any],
    n: int | None = None,
    *,
    timeout: float | None = None,
    method: str = "fork",
    **others: Never,
) -> list[Any]:
    """Call `fn(item)` for every item, on `n` new ranks, and return the results in the order of the items.

    Each rank takes one item at a time, and the next one when it is done: a slow item keeps one rank busy, and the
    others go on. No two ranks have the same item at the same time, so `fn` must not call collectives of all ranks.
    Everything else is as in `shmcoll.run`. The exception of an item has a note with the item's number, and ends the
    call. The note of a `TimeoutError` or a `KeyboardInterrupt` says which item each rank had.

    Args:
        fn: the function of one item.
        items: an iterable of arguments, which is read completely first. Items are pickled.
        n: the number of ranks; by default one for each usable core, but not more than items.
        timeout: the limit in seconds, from the start of the ranks; by default none.
        method: "fork" or "spawn", as in `shmcoll.run`.
        others: not taken. The error tells what an argument of another library is called here.

    Returns:
        The results, a list as long as `items`.

    Raises:
        TypeError: an argument has a wrong type, or the function, an item or a result cannot be pickled.
        ValueError: an argument is out of range.
        TimeoutError: after `timeout`.
        ShmcollError: as in `shmcoll.run`.

    Example:
        >>> shmcoll.map(lambda word: word.upper(), ["a", "b", "c"], 2)
        ['A', 'B', 'C']
    """
    names = {"ranks": "n", "function": "fn", "items": "items", "method": "method", "timeout": "timeout"}
    arguments.check_names("shmcoll.map", others, names)
    arguments.check_function("shmcoll.map", fn, items)
    if not isinstance(items, Iterable):
        raise TypeError(f"items must be an iterable of the arguments of fn, got {shown(items)}")
    listed = list(items)
    hint = _ONE_ITERABLE if isinstance(n, Iterable) and not isinstance(n, str) else ""
    wanted = usable_cores() if n is None else arguments.number_of_ranks(n, "n", hint)
    arguments.check_timeout(timeout)
    arguments.check_method(method)
    arguments.refuse_ranks("shmcoll.map")
    check_proc()
    if not listed:
        return []
    nprocs = min(wanted, len(listed))
    with contextlib.ExitStack() as stack:
        stack.enter_context(limits_in_words("shmcoll.map", nprocs))
        sending = Sending(fn)
        queue = WorkQueue(fn, listed, nprocs, sending)

        def doing(rank: int) -> str:
            number = queue.item_of(rank)
            return "" if number is None else f"rank {rank} had item {number}: {shown(listed[number])}"

        results = _run(stack, sending, queue, nprocs, (), {}, timeout, method, "stop", "shmcoll.map", doing)
        return work_queue.in_order(results, len(listed))


def shutdown() -> None:
    """End the server of this process, if there is one.

    The next `run` starts another server. A run in progress fails."""
    client.kill()
    if not _turns.is_inside():
        with _turns.turn():
            client.end()


def _run(
    stack: contextlib.ExitStack,
    sending: Sending,
    fn: Callable[..., Any],
    nprocs: int,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    timeout: float | None,
    method: str,
    on_failure: str,
    of: str = "shmcoll.run",
    doing: Callable[[int], str] = lambda _: "",
) -> list[Any]:
    call = OutgoingCall(stack, of, nprocs, sending, doing)
    with _turns.turn():
        call.write(fn, args, kwargs)
        server = client.running_server()
        only = Call(server.count + 1, timeout)
        over = call.exchange(server, Open(only.number, nprocs, method == "fork", on_failure == "stop", only))
    return call.results(over, timeout, on_failure)


def _forget() -> None:
    """Replace the lock in a fork of this process: a thread that does not exist here may hold it."""
    global _turns
    _turns = Turns("shmcoll.run")


os.register_at_fork(after_in_child=_forget)
atexit.register(client.at_exit)  # without a turn, for which a thread may wait forever
