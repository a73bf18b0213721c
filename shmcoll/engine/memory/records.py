"""Records: the states of the ranks, and why groups end. Plain Python, not on the fast path.

Writers. Each rank has two records of its life: it writes one itself, and the launcher writes the other. In each
group each member has two records that only it writes. One says why it ended the group, or, before that, which call of
its own was refused. The other says at which line it made a call that failed on all members. So every record has a
single writer. A record is written at most a few times: the text, the facts and the words first, and a checksum over
them last. A reader that finds a wrong checksum reads again.

Order of memory. The checksum shows that a record is whole. What its writer stored next (ABORT, CLOSED, the end of its
process) shows that there is a record: each store of `Arena` is a release, and each load is an acquire.

A failure in the life of a rank ends every group that it belongs to. The end of a group does not change the lives of its
members. A rank that finds a reason writes its record first and then ends the group (`Group.abort`).

Which rank failed first. Failures come in a cascade: one rank raises an exception or dies, the other ranks raise
`RankFailed`, and they may end before it does. So the cause of a record shows whether the failure is a consequence of
another rank's failure. The first failure is the earliest record that is not a consequence. If all are consequences (a
rank has left with exit code 0 and was still needed), it is the earliest of them. `first_failure` is the only place that
decides this. Survivors call it when they raise, and the launcher calls it when all ranks have ended: both read the same
records. A record's time is the time of writing, so a record that comes later never precedes one that has been read.
"""

import json
import struct
import time
import zlib
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from shmcoll.engine import layout
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.engine.system.processes import has_ended, process_start
from shmcoll.engine.system.text import beginning, to_bytes, to_text

# state
UNBORN, JOINED, DEPARTED, FAILED = range(4)

# cause of a failure
NONE, RAISED, EXITED, KILLED, TIMED_OUT, MISMATCHED, INTERRUPTED, ABORTED, BROKEN, DEADLOCKED = range(10)

# cause of a failure that is a consequence of another rank's failure
VANISHED = 10  # the rank found that a peer had gone
RAISED_BECAUSE = 11  # it raised an exception with a `RankFailed` behind it
EXITED_BECAUSE = 12  # it exited, and its own records say that it knew of another rank's failure
ENDED_BECAUSE = 13  # its launcher ended it, because another rank had failed or the time was over

_CONSEQUENCES = frozenset({VANISHED, RAISED_BECAUSE, EXITED_BECAUSE, ENDED_BECAUSE})

_FACTS = b"\0"  # between the text of a record and its facts, as JSON

_LEADING = struct.Struct("<7q")  # the words in front of RECORD_CHECK


@dataclass(frozen=True)
class Record:
    """One record. rank: the rank of the world that it is about, or that wrote it. code: an exit status or a signal
    number. time: CLOCK_MONOTONIC in ns."""

    rank: int
    state: int
    cause: int
    code: int
    time: int
    pid: int
    start: int
    text: str
    facts: dict[str, Any] = field(default_factory=dict)  # for programs: see `runtime/failure_facts.py`

    @property
    def is_consequence(self) -> bool:
        """Whether the rank failed because another rank had failed."""
        return self.cause in _CONSEQUENCES


def write(
    arena: Arena, rank: int, by: int, state: int, cause: int = NONE, code: int = 0, text: str = "", pid: int = 0
) -> None:
    """Write the life of `rank`. by: the rank itself, or the launcher. The text says what has happened to the rank, such
    as 'raised ValueError: bad sample'. It is cut to the length of a record."""
    _write(arena, layout.record_offset(arena.ranks, rank, by), state, cause, code, text, pid)


def read(arena: Arena, rank: int, by: int) -> Record:
    """Return the life of `rank`; an empty record (UNBORN) if none has been written."""
    return _read(arena, layout.record_offset(arena.ranks, rank, by), rank)


def own_state(arena: Arena, rank: int) -> int:
    """Return the state in the record that this rank, which is `rank`, has written."""
    return arena.load(layout.record_offset(arena.ranks, rank, layout.BY_RANK) + layout.RECORD_STATE)


def end(group: Group, rank: int, cause: int, text: str, facts: dict[str, Any] | None = None) -> None:
    """Write why `rank` of the group ends it, and end it. facts: the reason for programs, as far as there is room."""
    _write(group.arena, _ending(group, rank), FAILED, cause, 1, text, 0, facts)
    group.abort()


def amend(group: Group, rank: int, text: str) -> None:
    """Replace the text about why `rank` has ended the group: more is known by now. The time of the record stays."""
    known = ending(group, rank)
    _write(group.arena, _ending(group, rank), known.state, known.cause, known.code, text, 0, known.facts, known.time)


def note_refusal(group: Group, rank: int, sequence: int, text: str) -> None:
    """Note that a call of this rank, which would have been operation `sequence`, was refused."""
    if not group.has_ended():  # this record may hold the reason
        _write(group.arena, _ending(group, rank), JOINED, NONE, sequence, text, 0)


def ending(group: Group, rank: int) -> Record:
    """Return the record of `rank` about the end of the group, or about a refused call; an empty record if there is
    none."""
    return _read(group.arena, _ending(group, rank), group.ranks[rank])


def note_site(group: Group, rank: int, sequence: int, text: str, facts: dict[str, Any] | None = None) -> None:
    """Note the line at which this rank called operation `sequence`, which has failed."""
    _write(group.arena, _site(group, rank), JOINED, NONE, sequence, text, 0, facts)


def site(group: Group, rank: int, sequence: int) -> str | None:
    """Return the line at which `rank` of the group called operation `sequence`; None until it has noted that."""
    told = noted(group, rank, sequence)
    return told.text if told else None


def noted(group: Group, rank: int, sequence: int) -> Record | None:
    """Return all that `rank` of the group has noted about operation `sequence`; None until it has."""
    told = _read(group.arena, _site(group, rank), group.ranks[rank])
    return told if told.state == JOINED and told.code == sequence else None


def knew_of_a_failure(group: Group, rank: int) -> bool:
    """Return whether a failure that `rank` of the group has recorded itself is a consequence of another rank's
    failure."""
    own = (read(group.arena, group.ranks[rank], layout.BY_RANK), ending(group, rank))
    return any(record.state == FAILED and record.is_consequence for record in own)


def how_ended(arena: Arena, rank: int) -> str:
    """Return how the process of a rank of the world has ended; empty while it lives or has not joined yet."""
    failed = how_failed(arena, rank)
    if failed:
        return f"rank {rank} {failed}"
    states = (read(arena, rank, by).state for by in (layout.BY_LAUNCHER, layout.BY_RANK))
    return f"rank {rank} has ended" if DEPARTED in states else ""


def how_failed(arena: Arena, rank: int) -> str:
    """Return how a rank of the world has failed, to follow its name; empty unless it has. A rank that has left did
    not fail."""
    launcher, own = (read(arena, rank, by) for by in (layout.BY_LAUNCHER, layout.BY_RANK))
    for record in (launcher, own):
        if record.state == FAILED:
            return record.text or "failed"
    if DEPARTED not in (launcher.state, own.state) and own.pid and has_ended(own.pid, own.start):
        return "died: its process has ended"
    return ""


def note_compiling(arena: Arena, rank: int, *, begins: bool) -> None:
    """Note that `rank`, which is this process, begins to compile, or has ended."""
    where = layout.record_offset(arena.ranks, rank, layout.BY_RANK) + layout.RECORD_COMPILING
    arena.store(where, time.monotonic_ns() if begins else 0)


def some_rank_compiles(arena: Arena) -> bool:
    """Return whether a rank of the job compiles. Time limits do not pass meanwhile: see `engine/protocol/wait.py`."""
    now = time.monotonic_ns()
    for rank in range(arena.ranks):
        own, launcher = (layout.record_offset(arena.ranks, rank, by) for by in (layout.BY_RANK, layout.BY_LAUNCHER))
        begun = arena.load(own + layout.RECORD_COMPILING)
        if begun and now - begun < layout.LONGEST_COMPILATION:
            states = [arena.load(record + layout.RECORD_STATE) for record in (own, launcher)]
            if max(states) < DEPARTED:
                return True
    return False


def first_failure(group: Group, among: Collection[int] | None = None) -> Record | None:
    """Return the first failure of the group or of a member's life; None if nothing has failed. See the top of this
    file.

    Its text names the rank as members of the group do.

    Args:
        group: the group whose members are checked.
        among: ranks of the world to which the search is limited; a launcher leaves out ranks that ended with exit
            code 0, whatever they have recorded.
    """
    failed = []
    for rank, world in enumerate(group.ranks):
        if among is not None and world not in among:
            continue
        lives = (read(group.arena, world, by) for by in (layout.BY_RANK, layout.BY_LAUNCHER))
        name = f"rank {group.name(rank)}"
        failed += [replace(life, text=f"{name} {life.text}") for life in lives if life.state == FAILED]
        failed += [record for record in (ending(group, rank),) if record.state == FAILED]
    return min(failed, key=lambda record: (record.is_consequence, record.time), default=None)


def _ending(group: Group, rank: int) -> int:
    return group.offset + layout.ending_offset(group.size, rank)


def _site(group: Group, rank: int) -> int:
    return group.offset + layout.site_offset(group.size, rank)


def _write(
    arena: Arena,
    base: int,
    state: int,
    cause: int,
    code: int,
    text: str,
    pid: int,
    facts: dict[str, Any] | None = None,
    when: int = 0,
) -> None:
    tail = _FACTS + to_bytes(json.dumps(facts)) if facts else b""
    if len(tail) > layout.RECORD_TEXT_BYTES // 2:
        tail = b""
    body = beginning(text, layout.RECORD_TEXT_BYTES - len(tail)) + tail
    start = process_start(pid) if pid else 0
    words = _LEADING.pack(state, cause, code, when or time.monotonic_ns(), pid, start, len(body))
    arena.write(base, words)
    arena.write(base + layout.RECORD_TEXT, body)
    arena.store(base + layout.RECORD_CHECK, _checksum(words, body))


def _read(arena: Arena, base: int, rank: int) -> Record:
    for _ in range(1000):
        words = arena.read(base, _LEADING.size)
        state, cause, code, when, pid, start, length = _LEADING.unpack(words)
        text = arena.read(base + layout.RECORD_TEXT, min(max(length, 0), layout.RECORD_TEXT_BYTES))
        check = arena.load(base + layout.RECORD_CHECK)
        if check == 0 and state == UNBORN:
            break
        if check == _checksum(words, text):
            told, _, facts = text.partition(_FACTS)
            return Record(rank, state, cause, code, when, pid, start, to_text(told), _parsed(facts))
        time.sleep(1e-5)
    return Record(rank, UNBORN, NONE, 0, 0, 0, 0, "")


def _parsed(facts: bytes) -> dict[str, Any]:
    try:
        found = json.loads(facts or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _checksum(words: bytes, text: bytes) -> int:
    return zlib.crc32(text, zlib.crc32(words)) | 1 << 32
