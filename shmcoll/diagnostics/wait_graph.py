"""Which ranks keep a group waiting, from what its ranks have written in their mailboxes. Only texts use this."""

from shmcoll.engine import layout
from shmcoll.engine.atomics import reached
from shmcoll.engine.memory.group import Group


def not_arrived(group: Group, sequence: int) -> list[int]:
    """Return the ranks that have not published operation `sequence`: all ranks wait for them first."""
    return [rank for rank in range(group.size) if group.published(rank) < sequence]


def who_stopped(group: Group, waiting: int, awaited: int, sequence: int) -> list[int]:
    """Return the rank that keeps rank `waiting` from going on, which waits for rank `awaited` in operation `sequence`.

    It is the end of the chain of ranks that sleep for one another. If that is a circle, it is the rank that has done
    the fewest steps of this operation; if there are several, the one that `waiting` waits for.
    """
    seen, rank = {waiting}, awaited
    while rank not in seen:
        seen.add(rank)
        following = awaited_by(group, rank)
        if following is None:
            return [rank]
        rank = following
    done = {rank: steps_done(group, rank, sequence) for rank in range(group.size) if rank != waiting}
    slowest = [rank for rank, steps in done.items() if steps == min(done.values())]
    return [awaited] if awaited in slowest else slowest


def awaited_by(group: Group, rank: int) -> int | None:
    """Return the rank whose word a rank sleeps for; None if the word has been written, or if the rank has never
    slept."""
    box, load = group.mailbox(rank), group.arena.load
    peer, word, value = (load(box + w) for w in (layout.AWAITED_PEER, layout.AWAITED_WORD, layout.AWAITED_VALUE))
    end = layout.cells_offset(group.size)
    if not 0 < peer <= group.size or not 0 <= word < end or reached(load(group.offset + word), value):
        return None
    return peer - 1


def steps_done(group: Group, rank: int, sequence: int) -> int:
    """Return how many steps of operation `sequence` a rank has done."""
    progress, none = group.arena.load(group.mailbox(rank) + layout.PROGRESS), sequence << layout.STEP_BITS
    return (progress - none) % (1 << layout.STEP_BITS) if reached(progress, none) else 0
