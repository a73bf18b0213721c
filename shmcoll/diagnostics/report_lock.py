"""Ranks that find together that a group cannot go on: one of them tells why, the others repeat it.

Every one of them knows some of it (where in its own code it is), none knows all. Who holds a lock on the group's first
word, which the kernel gives back when its holder dies, collects what the others note, writes the cause and ends the
group. Nobody waits for a lock: who does not get it waits for the end of the group, and after a limit tells by itself.
A lock on the first word of the job lets one rank at a time, of whatever groups, ask the others for their stacks.

Locks need the arena's descriptor. A rank whose program has closed it gets none: it waits for the others, and after the
limit tells by itself. So where all ranks have closed theirs, each may tell in its own words.
"""

import contextlib
import fcntl
import time
from collections.abc import Iterator

from shmcoll.engine.layout import JOB_MAGIC, WORD
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group

_NAP = 0.0005  # seconds


@contextlib.contextmanager
def turn(group: Group, patience: float) -> Iterator[bool]:
    """Whether it is for this rank to tell why the group ends; False when the group has ended. Waits up to `patience`
    seconds for another rank that is about to."""
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
    """What ranks of any groups do one after the other. Waits up to `patience` seconds for another."""
    end = time.monotonic() + patience
    while not (locked := _lock(arena, JOB_MAGIC)) and time.monotonic() < end:
        time.sleep(_NAP)
    try:
        yield
    finally:
        if locked:
            _unlock(arena, JOB_MAGIC)


def sites(group: Group, sequence: int, patience: float) -> list[str]:
    """Return where each rank has called operation `sequence`, '' for who does not say so within `patience` seconds."""
    end = time.monotonic() + patience
    while True:
        told = [records.site(group, rank, sequence) for rank in range(group.size)]
        if None not in told or time.monotonic() > end or group.has_ended():
            return [site or "" for site in told]
        time.sleep(_NAP)


def _lock(arena: Arena, offset: int) -> bool:
    """Return a lock of this process, on this word alone."""
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
