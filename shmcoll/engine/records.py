"""How each rank fares: state records, and the end of a group. Plain Python; nothing on the fast path.

Who writes what. Each rank has two records: one that it writes itself, one that the launcher writes about it. So every
record has a single writer. A record is written at most a few times in a job: text and words first, a checksum over
them last; a reader that finds a wrong checksum reads again. No ordering between processors is relied upon.

Ending a group. Whoever finds a reason writes its record, then sets the group's ABORT word to 1, then posts every
doorbell of the group. A waiter looks at ABORT after announcing that it sleeps and before it does, so either it sees
the word or the post comes after its look and ends its sleep: nobody sleeps through an abort. As the word only ever
goes from 0 to 1, it does not matter how many set it. The earliest record names the culprit.
"""

import ctypes
import time
import zlib
from dataclasses import dataclass

from shmcoll.engine import layout
from shmcoll.engine.arena import Arena
from shmcoll.engine.processes import process_start

_LIBC = ctypes.CDLL(None, use_errno=True)

# state
UNBORN, JOINED, DEPARTED, FAILED = range(4)

# cause of a failure
NONE, RAISED, EXITED, KILLED, TIMED_OUT, MISMATCHED, INTERRUPTED, VANISHED, ABORTED, BROKEN = range(10)


@dataclass(frozen=True)
class Record:
    """One record. `code` is an exit status or signal number, `time` CLOCK_MONOTONIC in ns."""

    rank: int
    by: int
    state: int
    cause: int
    code: int
    time: int
    pid: int
    start: int
    text: str


def write(
    arena: Arena, rank: int, by: int, state: int, cause: int = NONE, code: int = 0, text: str = "", pid: int = 0
) -> None:
    """Write the record about `rank`: `by` the rank itself or the launcher. The text is cut to what fits."""
    base = layout.record_offset(arena.ranks, rank, by)
    body = text.encode()[: layout.RECORD_TEXT_BYTES]
    words = (state, cause, code, time.monotonic_ns(), pid, process_start(pid) if pid else 0, len(body))
    for i, word in enumerate(words):
        arena.store(base + i * layout.WORD, word)
    arena.write(base + layout.RECORD_TEXT, body)
    arena.store(base + layout.RECORD_CHECK, _checksum(arena, base, len(body)))


def read(arena: Arena, rank: int, by: int) -> Record:
    """The record about `rank`; an empty one (UNBORN) when none has been written."""
    base = layout.record_offset(arena.ranks, rank, by)
    for _ in range(1000):
        length = min(max(arena.load(base + layout.RECORD_LENGTH), 0), layout.RECORD_TEXT_BYTES)
        words = [arena.load(base + i * layout.WORD) for i in range(7)]
        text = arena.read(base + layout.RECORD_TEXT, length)
        check = arena.load(base + layout.RECORD_CHECK)
        if check == 0 and words[0] == UNBORN:
            break
        if check == _checksum(arena, base, length):
            state, cause, code, when, pid, start, _ = words
            return Record(rank, by, state, cause, code, when, pid, start, text.decode(errors="replace"))
        time.sleep(1e-5)
    return Record(rank, by, UNBORN, NONE, 0, 0, 0, 0, "")


def first_failure(arena: Arena, ranks: list[int] | range) -> Record | None:
    """The earliest failure among `ranks`, with the launcher's word joined to the rank's own; None if there is none.

    A rank that raised tells the exception itself and the launcher adds the exit code a moment later: the rank's own
    record is the better one. A rank that was killed cannot tell: the launcher's record stands alone.
    """
    told = [read(arena, r, by) for r in ranks for by in (layout.BY_RANK, layout.BY_LAUNCHER)]
    failed = [t for t in told if t.state == FAILED]
    return min(failed, key=lambda t: t.time, default=None)


def abort(arena: Arena, group: int) -> None:
    """End the group whose region starts at offset `group`: every wait in it returns at once, every later call raises.

    The caller has written its record before.
    """
    arena.store(group + layout.ABORT, 1)
    ring_all(arena, group)


def ring_all(arena: Arena, group: int) -> None:
    """Post every doorbell of a group, so that each sleeping rank looks around."""
    for rank in range(arena.ranks):
        mailbox = group + layout.MAILBOXES + rank * layout.mailbox_bytes(arena.ranks)
        _LIBC.sem_post(ctypes.c_void_p(arena.address + mailbox + layout.SEMAPHORE))


def _checksum(arena: Arena, base: int, length: int) -> int:
    words = arena.read(base, layout.RECORD_CHECK)
    return zlib.crc32(arena.read(base + layout.RECORD_TEXT, length), zlib.crc32(words)) | 1 << 32
