"""Which ranks keep a group waiting, from what its ranks have written in their mailboxes. Only texts use this."""

from collections.abc import Container

from shmcoll.collectives import record_of
from shmcoll.diagnostics.describe_mismatch import is_eager
from shmcoll.diagnostics.flight_log import FlightRecord, flights
from shmcoll.engine import layout
from shmcoll.engine.atomics import reached
from shmcoll.engine.kernels.dtypes import BY_CODE
from shmcoll.engine.memory.group import Group

NOTHING = 1 << 62


def not_arrived(group: Group, rank: int, sequence: int) -> list[int]:
    """Return the ranks whose header keeps a rank from going on in operation `sequence`, because they have not published
    it. In an eager operation (`engine/protocol/sync.py`) it waits for some ranks; or for all to publish an earlier one,
    so that it may write a header over that.
    """
    awaited = min(_awaited_number(group, rank), sequence)
    late = [other for other in range(group.size) if group.published(other) < awaited]
    if awaited < sequence:
        return late
    needed = _needed(group, rank, sequence)
    return [other for other in late if other in needed]


def _awaited_number(group: Group, rank: int) -> int:
    """Return the number of the operation whose header a rank sleeps for; a large one if it sleeps for no header."""
    load, box = group.arena.load, group.mailbox(rank)
    peer, word = load(box + layout.AWAITED_PEER) - 1, load(box + layout.AWAITED_WORD)
    if not 0 <= peer < group.size:
        return NOTHING
    within = word - layout.mailbox_offset(group.size, peer)
    return load(box + layout.AWAITED_VALUE) if 0 <= within < layout.PROGRESS else NOTHING


def _needed(group: Group, rank: int, sequence: int) -> Container[int]:
    """Return the ranks whose header for operation `sequence` a rank waits for."""
    flight = next((one for one in flights(group, rank) if one.sequence == sequence), None)
    record = record_of(layout.call_operation(flight.call)) if flight else None
    everybody = range(group.size)
    if flight is None or record is None or not _may_be_eager(flight):
        return everybody
    root = flight.arguments[0]
    if record.name in ("broadcast", "scatter"):
        has_come = group.published(root) >= sequence if root in everybody else True
        return everybody if has_come and not is_eager(group, sequence, root) else (root,)
    return range(rank) if record.name in ("scan", "exscan") else everybody


def _may_be_eager(flight: FlightRecord) -> bool:
    """Return whether the payload of a call fits beside a header, as far as its rank knows."""
    dtype = BY_CODE.get(layout.call_dtype(flight.call))
    return dtype is None or flight.count * dtype.numpy.itemsize <= layout.EAGER_BYTES


def who_stopped(group: Group, waiting: int, awaited: int) -> list[int]:
    """Return the rank that keeps rank `waiting` from going on, which waits for a step of rank
    `awaited`.

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
    first = group.arena.load(group.mailbox(waiting) + layout.AWAITED_VALUE) & -(1 << layout.STEP_BITS)
    done = {rank: steps_done(group, rank, first) for rank in range(group.size) if rank != waiting}
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


def steps_done(group: Group, rank: int, first: int) -> int:
    """Return how many steps a rank has done in an operation. first: PROGRESS before any."""
    progress = group.arena.load(group.mailbox(rank) + layout.PROGRESS)
    return (progress - first) % (1 << layout.STEP_BITS) if reached(progress, first) else 0
