"""Ranks that find together that a group cannot go on: one of them reports the reason, and the others repeat it.

Each of them knows a part of it (its own line in the program), and no rank knows all. A rank that holds a lock on the
group's first word collects what the others note, writes the cause and ends the group. The kernel releases the lock when
its holder dies. No rank waits for a lock: a rank that does not get it waits for the end of the group, and after a limit
reports by itself. A lock on the first word of the job lets one rank at a time, of any group, ask the others for their
stacks.

Locks need the arena's descriptor. A rank whose program has closed it gets no lock: it waits for the others, and after
the limit reports by itself. So if all ranks have closed their descriptors, their texts may differ.
"""

import contextlib
import fcntl
import time
from collections.abc import Iterator, Sequence

from shmcoll.engine.layout import JOB_MAGIC, WORD
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group

_NAP = 0.0005  # seconds
LEAVES = -2  # of the site of a rank that leaves the group, in place of the number of a collective
LINES = "lines"  # the fact of that site: the numbers of the calls that not all have compared, by their line


@contextlib.contextmanager
def turn(group: Group, patience: float) -> Iterator[bool]:
    """Wait for this rank's turn to report why the group ends. The value is False if the group has ended. Waits up to
    `patience` seconds for another rank that is about to report."""
    end = time.monotonic() + patience
    while not group.has_ended():
        locked = _lock(group.arena, group.offset)
        if locked or time.monotonic() > end:
            try:
                yield not group.has_ended()
            finally:
                if locked:
                    _unlock(group.arena, group.offset)
            return
        time.sleep(_NAP)
    yield False


@contextlib.contextmanager
def alone(arena: Arena, patience: float) -> Iterator[None]:
    """Run the block on one rank of all groups at a time. Waits up to `patience` seconds for another rank."""
    end = time.monotonic() + patience
    while not (locked := _lock(arena, JOB_MAGIC)) and time.monotonic() < end:
        time.sleep(_NAP)
    try:
        yield
    finally:
        if locked:
            _unlock(arena, JOB_MAGIC)


def sites(group: Group, sequence: int, patience: float, awaited: Sequence[int] = ()) -> list[str]:
    """Return the line at which each rank has called operation `sequence`; '' for a rank that does not note it within
    `patience` seconds.

    Args:
        awaited: ranks that note it after the end of the group. Without any, the end of the group ends the wait.
    """
    end = time.monotonic() + patience
    while True:
        told = [_site(group, rank, sequence) for rank in range(group.size)]
        has_all = all(told[rank] is not None for rank in awaited or range(group.size))
        if has_all or time.monotonic() > end or (group.has_ended() and not awaited):
            return [site or "" for site in told]
        time.sleep(_NAP)


def _site(group: Group, rank: int, sequence: int) -> str | None:
    """Return what a rank has noted as the line of an operation; None while it may still note that."""
    if (left := records.noted(group, rank, LEAVES)) is None:
        return records.site(group, rank, sequence)
    lines = left.facts.get(LINES)
    calls = lines.items() if isinstance(lines, dict) else ()
    return next((str(line) for line, numbers in calls if isinstance(numbers, list) and sequence in numbers), "")


def _lock(arena: Arena, offset: int) -> bool:
    """Return a lock of this process on this word only."""
    if not arena.has_descriptor():
        return False
    try:
        fcntl.lockf(arena.fd, fcntl.LOCK_EX | fcntl.LOCK_NB, WORD, offset)
    except OSError:
        return False
    return True


def _unlock(arena: Arena, offset: int) -> None:
    if arena.has_descriptor():
        fcntl.lockf(arena.fd, fcntl.LOCK_UN, WORD, offset)
