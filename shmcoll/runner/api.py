"""`shmcoll.run`: call a function on several ranks, from a notebook, a test or a script.

The ranks are children of a server (`__main__.py`), which the first call of a process starts and later calls use again.
The output of ranks comes through two pipes and is written to the `sys.stdout` and `sys.stderr` that the caller has at
that time. So it appears below the notebook's cell and in a test's captured output.
"""

import atexit
import contextlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from shmcoll.engine.system.processes import check_proc
from shmcoll.engine.system.tracebacks import border
from shmcoll.runner import arguments, client
from shmcoll.runner.outgoing import OutgoingCall, limits_in_words
from shmcoll.runner.pickling import Sending
from shmcoll.runner.protocol import Call, Open
from shmcoll.runner.turns import Turns

_turns = Turns("shmcoll.run")


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
) -> list[Any]:
    call = OutgoingCall(stack, "shmcoll.run", nprocs, sending)
    with _turns.turn():
        call.write(fn, args, kwargs)
        server = client.running_server()
        only = Call(server.count + 1, timeout)
        over = call.exchange(server, Open(only.number, nprocs, method == "fork", on_failure == "stop", only))
    return call.results(over, timeout, on_failure)


def turn() -> AbstractContextManager[bool]:
    """Return the turn of a call in this process."""
    return _turns.turn()


def _forget() -> None:
    """Replace the lock in a fork of this process: a thread that does not exist here may hold it."""
    global _turns
    _turns = Turns("shmcoll.run")


os.register_at_fork(after_in_child=_forget)
atexit.register(client.at_exit)  # without a turn, for which a thread may wait forever
