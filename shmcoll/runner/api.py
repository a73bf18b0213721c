"""`shmcoll.run`: call a function on several ranks, from a notebook, a test or a script.

The ranks are children of a server (`server/`), which the first call of a process starts and later calls use again. What
ranks print comes through two pipes and is written to what `sys.stdout` and `sys.stderr` are in the caller at that time,
so that it appears below the notebook's cell and in a test's captured output.
"""

import atexit
import contextlib
import errno
import operator
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from shmcoll.engine.layout import CELL_BYTES, most_ranks
from shmcoll.engine.memory.group import names
from shmcoll.engine.system.processes import check_proc
from shmcoll.errors import CallNotAllowed, RankFailed, ShmcollError
from shmcoll.runner import client, protocol
from shmcoll.runner.client import Lost, Server, Stream
from shmcoll.runner.protocol import End, Over, Request, Stop
from shmcoll.startup import exits
from shmcoll.startup.defaults import GRACE

_METHODS = ("fork", "spawn")
_REACTIONS = ("stop", "continue")
_STOPPING = 2 * GRACE + 3.0  # seconds: how long the server may take to stop ranks: two graces, and some time to spare

_lock = threading.Lock()  # calls from several threads take turns
_inside: int | None = None  # the thread that holds the lock


def run(
    fn: Callable[..., Any],
    nprocs: int,
    *args: Any,
    timeout: float | None = None,
    method: str = "fork",
    on_failure: str = "stop",
) -> list[Any]:
    """Call `fn(*args)` on `nprocs` new ranks, and return their results.

    All ranks have ended when this function returns or raises. Calls from several threads take turns.

    If ranks fail, the exception of the rank that failed first is raised here. It has a note that names the rank, the
    rank's traceback as its `__cause__` (`RemoteTraceback`), and an attribute `others`, a dict with the exceptions of
    the other ranks that failed, by rank. A rank that ended without a result (killed, `os._exit`) counts as `RankFailed`
    with its signal or exit code. The other ranks have one second to end.

    Args:
        fn: the function; it joins the job with `shmcoll.init()`. It is sent with cloudpickle, so it may be a lambda, a
            closure, or defined in a notebook.
        nprocs: the number of ranks.
        args: the arguments of `fn`, which are pickled, as are the results.
        timeout: the limit in seconds, from the start of the ranks; by default none.
        method: "fork", from a server that has numpy and shmcoll loaded, or "spawn", an interpreter of its own for each
            rank.
        on_failure: "stop", or "continue": then the other ranks have as much time as they want (see
            `Communicator.shrink`), and the exceptions of ranks that failed are returned among the results.

    Returns:
        The results, a list in rank order.

    Raises:
        TimeoutError: after `timeout`; the text names the ranks that were still running.
        TypeError: the function, an argument or a result cannot be pickled, or an argument of `run` has a wrong type.
        ValueError: an argument of `run` is out of range.
        ArenaError: there is too little shared memory.
        ShmcollError: the system has no room for so many processes or files.
        RankFailed: a rank ended without a result, or the server was killed.
        CallNotAllowed: a rank calls it, or a signal handler during another call of `run`.

    Example:
        >>> import shmcoll
        >>> shmcoll.run(lambda: shmcoll.init().rank, 2)
        [0, 1]
    """
    nprocs = _check(fn, nprocs, timeout, method, on_failure)
    _refuse_ranks()
    check_proc()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_limits_in_words(nprocs))
        files = _Files(stack, nprocs)
        with _turn():
            protocol.write_call(files.call, files.span, fn, args)
            over = _exchange(files, nprocs, timeout, method, on_failure)
        return _results(over, files, nprocs, timeout, on_failure)


def shutdown() -> None:
    """End the server of this process, if there is one. The next `run` starts another. A run in progress fails."""
    client.kill()
    if _inside != threading.get_ident() and _lock.acquire(timeout=_STOPPING):
        try:
            client.end()
        finally:
            _lock.release()


def _check(fn: Any, nprocs: Any, timeout: Any, method: Any, on_failure: Any) -> int:
    if not callable(fn):
        raise TypeError(f"fn must be callable, got {fn!r} of type {type(fn).__name__}")
    try:
        number = operator.index(nprocs)
    except TypeError:
        number = None
    if number is None or isinstance(nprocs, bool):
        raise TypeError(f"nprocs must be an int, got {nprocs!r} of type {type(nprocs).__name__}")
    if number < 1:
        raise ValueError(f"nprocs must be at least 1, got {nprocs}")
    if number > (most := most_ranks(CELL_BYTES)):
        raise ValueError(f"nprocs must be at most {most}, got {nprocs}")
    if timeout is not None:
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
            raise TypeError(f"timeout must be a number of seconds or None, got {timeout!r}")
        if not 0 < timeout <= 1e9:
            raise ValueError(f"timeout must be a positive number of seconds, got {timeout!r}")
    if method not in _METHODS:
        raise ValueError(f"method must be 'fork' or 'spawn', got {method!r}")
    if on_failure not in _REACTIONS:
        raise ValueError(f"on_failure must be 'stop' or 'continue', got {on_failure!r}")
    return number


def _refuse_ranks() -> None:
    """A rank that ran ranks would take its peers' cores, and its environment says that they are its peers."""
    job = sys.modules.get("shmcoll.startup.join")
    pid, comm = getattr(job, "_joined", None) or (0, None)
    joined = comm is not None and pid == os.getpid() and comm.launcher != "none"
    if joined or os.environ.get("SHMCOLL_ARENA"):
        rank = comm.rank if comm is not None and joined else os.environ.get("RANK", "?")
        raise CallNotAllowed(
            f"shmcoll.run was called by rank {rank} of a job; call it from a process that is not a rank, "
            f"or start all the ranks that you need at once"
        )


@contextlib.contextmanager
def _limits_in_words(nprocs: int) -> Iterator[None]:
    """Say which limit of this process keeps ranks from being started, and what to do."""
    try:
        yield
    except OSError as e:
        if e.errno not in (errno.EMFILE, errno.ENFILE) or hasattr(e, "__notes__"):  # a rank's has a note
            raise
        raise ShmcollError(
            f"shmcoll.run of {nprocs} ranks: {e.strerror}. Close files, or raise the limit (ulimit -n)."
        ) from e


@contextlib.contextmanager
def _turn() -> Iterator[None]:
    """One call at a time."""
    global _inside
    if _inside == threading.get_ident():
        raise CallNotAllowed("shmcoll.run was called during another shmcoll.run of this thread, as by a signal handler")
    with _lock:
        _inside = threading.get_ident()
        try:
            yield
        finally:
            _inside = None


class _Files:
    """What goes with a request: the call, the answers, and the writing ends of stdout and stderr."""

    def __init__(self, stack: contextlib.ExitStack, nprocs: int):
        self.span = protocol.span(nprocs)
        self.call, self.answers = (
            stack.enter_context(open(protocol.new_file(f"shmcoll-{name}"), "w+b"))  # noqa: SIM115
            for name in ("call", "answers")
        )
        self.streams = [Stream(stack, sys.stdout), Stream(stack, sys.stderr)]

    def descriptors(self) -> list[int]:
        return [self.call.fileno(), self.answers.fileno(), *(stream.write.fileno() for stream in self.streams)]

    def sent(self) -> None:
        """Close what only the ranks need."""
        self.call.close()
        for stream in self.streams:
            stream.write.close()


def _exchange(files: _Files, nprocs: int, timeout: float | None, method: str, on_failure: str) -> Over:
    """Have the server run the call. Whatever is raised meanwhile, the ranks are stopped before it goes on its way."""
    server = client.running_server()
    server.count += 1
    request = Request(server.count, nprocs, timeout, method == "fork", on_failure == "stop")
    try:
        server.send(request, files.descriptors())
        files.sent()
        return server.wait(files.streams)
    except Lost:
        raise RankFailed(
            f"the server of shmcoll.run {server.fate()}, and all {nprocs} ranks with it; the next run starts another"
        ) from None
    except BaseException:
        _stop(server, files.streams)
        raise


def _stop(server: Server, streams: list[Stream]) -> None:
    """After an exception in the caller, such as `KeyboardInterrupt`: no rank runs any more when this returns."""
    try:
        server.send(Stop(server.count))
        server.wait(streams, time.monotonic() + _STOPPING)
    except BaseException:  # a second Ctrl-C, or the server is gone: end it, and the kernel ends its ranks
        server.end()


def _results(over: Over, files: _Files, nprocs: int, timeout: float | None, on_failure: str) -> list[Any]:
    if over.refused:
        raise over.refused
    if over.late:
        raise TimeoutError(f"shmcoll.run: {timeout:g} s are over; still running: {names(over.late)} of {nprocs}")
    errors = {rank: _error(files, rank, end) for rank, end in over.failed.items()}
    if over.first is None or on_failure == "continue":
        return [errors.get(rank) or protocol.read_result(files.answers, rank, files.span) for rank in range(nprocs)]
    first = errors.pop(over.first)
    with contextlib.suppress(Exception):  # its class may forbid new attributes
        first.others = errors  # type: ignore[attr-defined]
    raise first


def _error(files: _Files, rank: int, end: End) -> BaseException:
    if end.raised:
        return protocol.read_error(files.answers, rank, files.span)
    late = "did not end in time after that and " if end.ended_by_us else ""
    return RankFailed(f"rank {rank} of shmcoll.run {late}{exits.describe(end.status)}, without a result")


def _forget() -> None:
    """In a fork of this process: the lock may be held by a thread that does not exist here."""
    global _lock, _inside
    _lock, _inside = threading.Lock(), None


os.register_at_fork(after_in_child=_forget)
atexit.register(shutdown)
