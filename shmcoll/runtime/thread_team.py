"""The helpers of this process: threads that do parts of long copies and sums, if the rank has asked for threads.

A rank asks with SHMCOLL_THREADS, which `shmrun --threads` sets: so many threads take part,
the one that calls among them. It may use as many cores. `engine/protocol/team.py` has the protocol.

Helpers are made by pthread_create, and run native code alone. Python does not know of them, so they are no threads in
`threading`, have no thread state, and need nothing at the end of the interpreter. All signals are blocked in them. They
have the cores of the thread that makes the first communicator. Their memory is never given back, since they end with
the process. A fork has no helpers, and begins again.
"""

import ctypes
import mmap
import os
import signal

from shmcoll.engine.compiler import compile as code
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol import team
from shmcoll.engine.system import log
from shmcoll.engine.system.cores import MOST_THREADS, usable_cores

VARIABLE, AUTO = "SHMCOLL_THREADS", "auto"
PIECE_BYTES = 64 << 10  # copies and sums of so many bytes are shared
PART_BYTES = 16 << 10  # in parts of at least about so many
ARRAY_BYTES = 1 << 20  # in calls with arrays of so many bytes
POLL_NS = 100_000

_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP, signal.SIGSYS}
_LIBC = ctypes.CDLL(None)
_made: dict[int, int] = {}  # threads -> address of the team


most_by_auto = MOST_THREADS  # what a front end lets `auto` be at most: the threads of its library


def check() -> None:
    """Raise `ValueError` if SHMCOLL_THREADS is neither auto nor a number from 1 to the cores that this process may
    use."""
    asked(1, 0)


def asked(ranks: int, cores: int) -> int:
    """Return how many threads this rank has asked for, in a job of so many ranks on so many cores. auto: as many as its
    part of the cores."""
    given = os.environ.get(VARIABLE, "").strip()
    if not given:
        return 1
    usable = min(usable_cores(), MOST_THREADS)
    if given == AUTO:
        return max(1, min(usable, cores // ranks, most_by_auto))
    if not (given.isascii() and given.isdecimal() and 1 <= int(given) <= usable):
        raise ValueError(
            f"{VARIABLE}={given!r} is not a number of threads from 1 to {usable}, the cores that this rank may use, or "
            f"{AUTO}; give fewer threads, or each rank more cores"
        )
    return int(given)


def address(threads: int, *, polls: bool) -> int:
    """Return where the team of so many threads, two or more, is. polls: every thread of the job has a core, so
    helpers may poll."""
    if threads not in _made:
        _made[threads] = _make(threads, POLL_NS if polls else 0)
    return _made[threads]


def _make(threads: int, poll_ns: int) -> int:
    serve, share = code.load_functions(team.NAME, team.functions, log.info)
    memory = mmap.mmap(-1, team.team_words(threads) * WORD, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))  # helpers look there as long as the process lives
    words = (ctypes.c_int64 * team.team_words(threads)).from_buffer(memory)
    base = ctypes.addressof(words)
    for offset, value in (
        (team.THREADS, 1),
        (team.POLL_NS, poll_ns),
        (team.ARRAY_BYTES, ARRAY_BYTES),
        (team.LEAST_PART, PART_BYTES),
        (team.RUN, share),
    ):
        words[offset // WORD] = value
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _FAULTS)
    try:
        for number in range(1, threads):
            place = team.member(base, number)
            words[(place + team.OF - base) // WORD], words[(place + team.NUMBER - base) // WORD] = base, number
            thread = ctypes.c_ulong()
            error = _LIBC.pthread_create(ctypes.byref(thread), None, ctypes.c_void_p(serve), ctypes.c_void_p(place))
            if error:
                log.warning(f"{VARIABLE}: only {number} of {threads} threads could be started: {os.strerror(error)}")
                break
            _LIBC.pthread_setname_np(thread, b"shmcoll-helper")
            words[team.THREADS // WORD] = number + 1
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    log.debug(f"{words[team.THREADS // WORD]} threads of this rank share long copies and sums")
    return base


os.register_at_fork(after_in_child=_made.clear)
