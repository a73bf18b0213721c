"""The messages of the caller, the server and the ranks, the same for `shmcoll.run`, `shmcoll.map` and `shmcoll.ranks`.

The caller sends the server requests: short pickled messages. The server answers each with one `Over`, which repeats the
request's number. Before the first request it sends text about what it compiles, and READY.

    Open     start ranks. With `call` they perform this one call and end: the answer to it is the answer to `Open`.
             Without, they stay, and the server answers when they have been started
    Call     perform a call on the ranks that stay
    Stop     stop the call of this number; the answer is that of the call
    Close    end the ranks that stay; the answer comes when all have ended

The steps of a call:

    caller   writes the call into one file and makes another one for the answers. Sends both with the writing ends of
             two pipes, for stdout and stderr, and with the memory of shared arrays (`shared_memory.py`). Then it waits
             for the `Over`, and prints meanwhile what comes through the pipes
    server   has the ranks inherit the descriptors when it starts them for one call. Passes the descriptors to each
             rank that stays through the rank's own socket (`control`)
    rank     calls the function, writes its answer into its part of the second file, and sends the server an `Answered`
             through a socket that all ranks share. Then a rank of one call ends, and one that stays waits for the next
    server   sends the `Over` when each rank has ended, or, if they stay, has answered or ended. Before, it sends an
             `Ended` for each rank that has failed while others go on: the caller may have items that this rank had

Nobody waits forever:

    caller   is told by the kernel when the server ends (`Lost`). It waits for the answer to Stop or Close for a limited
             time, and then kills the server
    server   polls the caller's socket and process, the process of each rank, and its time limits. It ends with the
             caller. After the failure of a rank, a time limit or Stop it ends ranks by signals (`supervise.py`). A rank
             that waits for one that has answered is found by `stuck_ranks.py`
    rank     is killed by the kernel with the server. A rank that stays ends when the server closes `control`. It waits
             for other ranks only in collectives and messages, which end by themselves when a rank has failed

Both files are in memory and have no name. The first contains a `Setting`, then the function and its arguments, then the
source lines of functions that are in no file; every rank reads it. The second is sparse: each rank has a part of it for
itself. So large arrays are copied once on their way in and once on their way out, and no process has to wait for
another one to read. A part has 2^40 bytes. If the size of files is limited (ulimit -f), which includes files in memory,
the ranks share the limit. The limit is the caller's: a server that was started under another one is replaced.

A program may write into descriptors that it has not opened. So the call is sealed before it is sent, an answer begins
with ANSWER, and a message that is not of the expected kind is ignored (`parse`).
"""

import contextlib
import errno
import fcntl
import os
import pickle
import resource
import socket
import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TypeVar

from shmcoll.engine.system import log
from shmcoll.engine.system.handlers import reraise_of_handler
from shmcoll.errors import CallNotAllowed, RankFailed, RemoteTraceback
from shmcoll.startup.exits import RaisedException

T = TypeVar("T")

READY = "ready"
ANSWER = b"answer of shmcoll\n"
LONGEST_MESSAGE = 1 << 20  # bytes
DESCRIPTORS = 4  # of a call: the call, the answers, and the stdout and stderr of its ranks


@dataclass(frozen=True)
class Setting:
    """The state that a rank takes over from the caller's process. span: the largest number of bytes of each answer.
    main: the file of `__main__`, and its name if it was started with `python -m`: processes of multiprocessing load
    it. authkey: by which processes of multiprocessing know each other; managers ask for it."""

    span: int
    main: tuple[str | None, str | None]
    folder: str | None
    path: list[str]
    argv: list[str]
    environment: dict[str, str]
    authkey: bytes | None


@dataclass(frozen=True)
class Call:
    """Perform a call. timeout: the limit in seconds, or None."""

    number: int
    timeout: float | None


@dataclass(frozen=True)
class Open:
    """Start ranks. Its first descriptor is a file that begins with a `Setting`.

    stops: whether the failure of a rank stops the others. call: their only call, whose descriptors come with this
    message; None: they stay.
    """

    number: int
    nprocs: int
    fork: bool
    stops: bool = True
    call: Call | None = None


@dataclass(frozen=True)
class Stop:
    """Stop call `number`, if it still runs."""

    number: int


@dataclass(frozen=True)
class Close:
    """Have the ranks that stay end."""

    number: int


Request = Open | Call | Stop | Close


@dataclass(frozen=True)
class Answered:
    """A rank's answer is written. raised: the exception that it consists of, None for a result.

    loaded: whether the rank has unpickled the whole call.
    """

    rank: int
    raised: RaisedException | None
    loaded: bool = True


@dataclass(frozen=True)
class End:
    """How a rank ended: its exit code or minus a signal number, and whether it had answered with an exception.

    ended_by_us: it did not end in time after another failure.
    """

    status: int
    raised: bool
    ended_by_us: bool


@dataclass(frozen=True)
class Over:
    """The outcome of request `number`. Either it was refused, or the time was over for the ranks in `late`, or the rank
    `first` failed first, or all ranks have answered with a result. failed: all ranks that have not.

    where: where the ranks were when the time was over or the caller stopped them. closed: why ranks that stay accept no
    further call; empty if they do. loaded: whether all of them have unpickled the whole call. said: what the caller is
    to be told about what ranks that have ended have recorded.
    """

    number: int
    refused: Exception | None = None
    late: tuple[int, ...] = ()
    first: int | None = None
    failed: dict[int, End] = field(default_factory=dict)
    where: str = ""
    closed: str = ""
    loaded: bool = False
    said: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ended:
    """Rank `rank` has failed in request `number`, and others go on. The server sends it to the caller at once, before
    the `Over`."""

    number: int
    rank: int
    end: End


@dataclass(frozen=True)
class Told:
    """An exception as the answer of a rank: as bytes, or the reason why it has none."""

    line: str
    traceback: str
    pickled: bytes | None
    why: str


def too_many_files() -> OSError:
    """Return the error of a call whose descriptors exceed the limit of the process that received them."""
    return OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def refusal(reason: str) -> str:
    """Return the error of a call of ranks that have ended."""
    return f"these ranks take no more calls: {reason}; open others with shmcoll.ranks"


def parse(data: bytes, kind: type[T]) -> T | None:
    """Return the message that these bytes are; None if they are not a message of this kind."""
    with contextlib.suppress(Exception):
        if isinstance(message := pickle.loads(data), kind):
            return message
    return None


def check_process(caller: int) -> None:
    """Raise `CallNotAllowed` in a fork of the process that makes a call."""
    if os.getpid() != caller:
        raise CallNotAllowed(f"process {os.getpid()} is a fork of {caller}, whose call it does not go on with")


@contextlib.contextmanager
def in_process(caller: int) -> Iterator[None]:
    """Do this only in the process that makes a call. Raises `CallNotAllowed` in a fork, in place of what it meets."""
    check_process(caller)
    try:
        yield
    except GeneratorExit:  # a fork may forget an iterator
        raise
    except BaseException:
        check_process(caller)
        raise


def new_file(name: str) -> int:
    """Return a file in memory. The name appears only in /proc."""
    return os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


_kept: "weakref.WeakSet[BinaryIO | socket.socket]" = weakref.WeakSet()


def keep_from_forks(file: BinaryIO | socket.socket) -> None:
    """Have /dev/null in place of the file in forks: what they read, or flush, would move the position of their parent,
    too. What they read from a socket, their parent would miss."""
    _kept.add(file)


def _leave_files() -> None:
    for file in list(_kept):
        number = -1 if getattr(file, "closed", False) else file.fileno()
        if number >= 0:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number, inheritable=False)
            os.close(null)


os.register_at_fork(after_in_child=_leave_files)


def reopen(fd: int, mode: str) -> Any:
    """Return the file with a position of its own. All processes that have the descriptor share its position."""
    return open(f"/proc/self/fd/{fd}", mode)


def span(nprocs: int) -> int:
    """Return the largest number of bytes of each rank's answer."""
    return min(1 << 40, _longest_file() // nprocs)


def _longest_file() -> int:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return limit if 0 <= limit < 1 << 62 else 1 << 62


class Part:
    """A part of a file for a pickle. It refuses a write that does not fit before any of it is written, and one by a
    fork of the process that writes it."""

    def __init__(self, file: BinaryIO, begin: int, span: int, what: str, writer: int, head: bytes = b""):
        self.file = file
        self._begin, self._end = begin, begin + span
        self._what, self._pid, self._head = what, writer, head
        keep_from_forks(file)
        self.rewind()

    def rewind(self) -> None:
        self.file.seek(self._begin)
        self.file.write(self._head)

    def seal(self) -> None:
        """Let no process change the file any more."""
        check_process(self._pid)
        self.file.flush()
        fcntl.fcntl(self.file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)

    def write(self, data: Any) -> int:
        check_process(self._pid)
        size = memoryview(data).nbytes
        if self.file.tell() + size > self._end:
            room = (self._end - self._begin) / (1 << 20)
            raise OSError(
                errno.EFBIG,
                f"{self._what} takes more than {room:,.1f} MiB, which the limit on the size of files leaves for it; "
                f"raise the limit (ulimit -f)",
            )
        return self.file.write(data)


def answer(file: BinaryIO, rank: int, span: int) -> Part:
    """Return the part into which a rank writes its answer, which begins with ANSWER."""
    return Part(file, rank * span, span, f"the result of rank {rank}", os.getpid(), ANSWER)


def setting(span: int) -> Setting:
    """Return the `Setting` that ranks take over from this process now."""
    folder = None
    with contextlib.suppress(OSError):  # the working directory has been removed
        folder = os.getcwd()  # noqa: PTH109
    main = sys.modules["__main__"]
    started = getattr(main, "__file__", None), getattr(getattr(main, "__spec__", None), "name", None)
    environment = {**os.environ, **log.for_ranks()}
    multi = sys.modules.get("multiprocessing.process")
    authkey = bytes(multi.current_process().authkey) if multi else None
    return Setting(span, started, folder, list(sys.path), list(getattr(sys, "argv", [])), environment, authkey)


def call_part(file: BinaryIO, caller: int) -> Part:
    """Return the part into which the caller writes a call."""
    return Part(file, 0, _longest_file(), "the function with its arguments", caller)


def read_result(file: BinaryIO, rank: int, span: int, of: str) -> Any:
    """Return the value that a rank returned. Raises `TypeError` if it cannot be unpickled in this process, and
    `RankFailed` if there is something else."""
    if not _find(file, rank, span):
        raise _damaged(rank, of)
    try:
        return pickle.load(file)
    except (MemoryError, OSError):
        raise
    except Exception as e:
        reraise_of_handler(e)
        raise TypeError(f"the result of rank {rank} cannot be unpickled here: {type(e).__name__}: {e}") from e


def _find(file: BinaryIO, rank: int, span: int) -> bool:
    """Go to a rank's answer. Returns whether there is one."""
    file.seek(rank * span)
    return file.read(len(ANSWER)) == ANSWER


def _damaged(rank: int, of: str) -> RankFailed:
    return RankFailed(
        f"rank {rank} of {of} answered with something else: its program, or another rank's, has written into a "
        f"descriptor that it had not opened",
        rank=rank,
    )


def read_error(file: BinaryIO, rank: int, span: int, of: str) -> BaseException:
    """Return the exception that a rank raised, with the rank's name and traceback; as `RankFailed` if it cannot be
    sent.

    of: the function that the caller called, such as "shmcoll.run".
    """
    told = None
    with contextlib.suppress(Exception):
        told = pickle.load(file) if _find(file, rank, span) else None
    return error_of(told, rank, of) if isinstance(told, Told) else _damaged(rank, of)


def error_of(told: Told, rank: int, of: str) -> BaseException:
    """Return the exception that a rank has sent. The arguments, and the result, are as of `read_error`."""
    error: BaseException | None = None
    why = told.why
    if told.pickled is not None:
        try:
            loaded = pickle.loads(told.pickled)
            loaded.__cause__ = None  # its class may forbid attributes
            error = loaded
        except Exception as e:
            reraise_of_handler(e)
            why = f"unpickled here: {type(e).__name__}: {e}"
    if error is None:
        error = RankFailed(f"rank {rank} raised {told.line} (the exception itself cannot be {why})", rank=rank)
    error.__cause__ = RemoteTraceback(told.traceback)
    with contextlib.suppress(Exception):  # its class may forbid new attributes
        error.add_note(f"raised by rank {rank} of {of}")
    return error
