"""The switches of tests: force a way, lower a limit, inject a fault, and look at what no public call returns.

Tests of behaviour use the public interface. What they need from inside has a name here, and only this file knows where
it is. Environments are for `ranks(..., environment=...)`; functions with a communicator are called in its rank.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shmcoll.calls import pickling
from shmcoll.communicator import object_rows, shared_arrays
from shmcoll.engine import atomics, context, layout
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory import records
from shmcoll.engine.memory.heap import arrays_held_by, held_by_all
from shmcoll.engine.messages import ring_buffers
from shmcoll.engine.native import entry
from shmcoll.engine.protocol import peer_memory
from shmcoll.engine.protocol.wait import DEADLOCK_SLICES
from shmcoll.runtime import waiting

if TYPE_CHECKING:
    import pytest  # not in the ranks of jobs that import this

# --- ways -------------------------------------------------------------------------------------------------------------

#: private arrays of any length are read where they are
IN_PLACE = {"SHMCOLL_DIRECT_BYTES": "1", "SHMCOLL_EXCHANGE_BYTES": "1"}
#: shared arrays, too
ALL_IN_PLACE = {**IN_PLACE, "SHMCOLL_SHARED_BYTES": "1"}
#: no array is read where it is: long ones go through cells, in rounds
IN_ROUNDS = {"SHMCOLL_DIRECT_BYTES": "1T", "SHMCOLL_EXCHANGE_BYTES": "1T"}
#: reductions by all ranks at once, and around a ring
FLAT = {"SHMCOLL_FLAT_BYTES": str(256 << 10)}
CUT = {"SHMCOLL_FLAT_BYTES": "128"}
RING = {**CUT, "SHMCOLL_RING_BYTES": "1"}


def slices(size: int) -> dict[str, str]:
    """Cells of so many bytes."""
    return {"SHMCOLL_SLICE_BYTES": str(size)}


def use_entry(monkeypatch: "pytest.MonkeyPatch", *, fast: bool) -> None:
    """Have calls go in through the fast entry, or through that of interpreters whose arrays have other fields."""
    monkeypatch.setattr(entry, "FAST", fast)


# --- limits -----------------------------------------------------------------------------------------------------------


def heap(size: str) -> dict[str, str]:
    """A heap of so much memory for each rank."""
    return {"SHMCOLL_HEAP": size}


def set_limit(name: str, seconds: float, monkeypatch: "pytest.MonkeyPatch | None" = None) -> None:
    """Change a limit of waits in Python, by its name there. Without a monkeypatch: in a rank, to its end."""
    (monkeypatch.setattr if monkeypatch else setattr)(waiting, name, seconds)


def set_slice(comm: Any, nanoseconds: int) -> None:
    """Cut the waits of a communicator into slices of so many nanoseconds."""
    comm._dispatcher.words[context.SLEEP // WORD] = nanoseconds


def until_looks(nanoseconds: int) -> float:
    """Return after how many seconds a wait of such slices looks for a deadlock."""
    return DEADLOCK_SLICES * nanoseconds / 1e9


#: lengths in bytes at which calls take another way
CELL_BYTES, LONGEST_ROW, LEAST_BUFFER = layout.CELL_BYTES, object_rows.LONGEST_SENT, pickling.LEAST_BUFFER
LEAST_MOVED, LEAST_ALONE, LEAST_BYTES = pickling.LEAST_MOVED, pickling.LEAST_ALONE, pickling.LEAST_BYTES
PART_BYTES, USUAL_RING, KEPT_RING = ring_buffers.PART_BYTES, ring_buffers.USUAL_RING, ring_buffers.KEPT_RING
STORED_BYTES = ring_buffers.STORED_BYTES


# --- faults -----------------------------------------------------------------------------------------------------------


def commit_shared_results(commit: Callable[..., None]) -> Callable[..., None]:
    """Replace how this rank commits its part of a shared result, to its end. Return what did it before."""
    before, shared_arrays.commit_part = shared_arrays.commit_part, commit
    return before


def fault(rank: int | str, what: str, at: int) -> dict[str, str]:
    """`what` (kill, stop) happens to a rank before its operation number `at`; jitter: `at` is the seed."""
    return {"SHMCOLL_FAULTS": f"{rank}:{what}@{at}"}


def refuse_reads(comm: Any) -> None:
    """Have this rank look like a process of another pid namespace, which none can read."""
    group = comm._dispatcher.group
    group.arena.store(group.mailbox(comm.rank) + layout.WITNESS_VALUE, 4711)


def keep_worker_busy(comm: Any, until: Callable[[], Any]) -> Any:
    """Have the worker call this before it begins what is submitted from now on. Returns the work."""
    return comm._dispatcher.worker.submit(until)


# --- what no public call returns --------------------------------------------------------------------------------------


def has_ended(comm: Any) -> bool:
    """Return whether the group has ended by a failure."""
    return bool(comm._dispatcher.group.has_ended())


def is_asleep(comm: Any, rank: int) -> bool:
    """Return whether a rank sleeps because it waits for others in this group."""
    group = comm._dispatcher.group
    return bool(group.arena.load(group.mailbox(rank) + layout.PARKED))


def has_closed(comm: Any, rank: int) -> bool:
    """Return whether a rank has closed this group."""
    group = comm._dispatcher.group
    return bool(group.arena.load(group.mailbox(rank) + layout.CLOSED))


def posted(comm: Any) -> int:
    """Return the number of receives that the worker serves."""
    return len(comm._dispatcher.posted._posted)


def exposed(comm: Any) -> int:
    """Return where this rank exposed the array of its last call: as the word EXPOSED."""
    sequence = int(comm._dispatcher.words[context.SEQUENCE // WORD])
    group = comm._dispatcher.group
    header = group.header(comm.rank, sequence)
    return int(group.arena.load(header + layout.HEADER_EXPOSED))


def was_copied(comm: Any, dest: int) -> bool:
    """Return whether rank `dest` has copied the last message to it from this rank's array."""
    buffers, arena = comm._dispatcher.buffers, comm._dispatcher.group.arena
    chain = (ring_buffers.chains_offset(comm.size) + 2 * dest * ring_buffers.CHAIN_BYTES) // WORD
    ring = int(buffers.words[chain + ring_buffers.BEGUN_IN // WORD]) - arena.address
    begun = int(buffers.words[chain + ring_buffers.BEGUN // WORD])
    return ring > 0 and arena.load(ring + layout.RING_ANSWER) == 2 * begun


def last_ring(comm: Any, dest: int) -> int:
    """Return how many bytes of pieces the last ring to a rank has."""
    chain = (ring_buffers.chains_offset(comm.size) + 2 * dest * ring_buffers.CHAIN_BYTES) // WORD
    return int(comm._dispatcher.buffers.words[chain + ring_buffers.CAPACITY // WORD])


def can_read_others(comm: Any) -> bool | None:
    """Return whether the ranks can read each other's memory, None if that is not known yet."""
    word = int(comm._dispatcher.words[context.READABLE // WORD])
    return {peer_memory.YES: True, peer_memory.NO: False}.get(word)


def held(comm: Any) -> int:
    """Return how many bytes of its heap this rank holds."""
    return int(comm._local_rank.arena.load(comm._local_rank.heap._held_word))


def held_by_ranks(comm: Any) -> int:
    """Return how many bytes of the heap all ranks hold."""
    return int(held_by_all(comm._local_rank.arena))


def committed(comm: Any) -> int:
    """Return how many bytes of memory the arena has."""
    return os.fstat(comm._local_rank.arena.fd).st_blocks * 512


def held_by_arrays(comm: Any) -> int:
    """Return how many bytes the shared arrays of this rank hold."""
    return int(arrays_held_by(comm._local_rank.arena, comm.rank))


def operations() -> int:
    """Return how many operations on shared words this process has made under SHMCOLL_FAULTS, else 0."""
    return int(atomics.hooks.count) if atomics.hooks else 0


def give_back_memory(comm: Any) -> None:
    """Give back what nobody uses any more, as a later call would."""
    comm._local_rank.groups.sweep()
    comm._local_rank.heap.give(comm._local_rank.heap.take(1, "a test"))


def pid_of(comm: Any, rank: int) -> int:
    """Return the pid that a rank has recorded."""
    return records.read(comm._local_rank.arena, rank, layout.BY_RANK).pid


def has_left(comm: Any, rank: int) -> bool:
    """Return whether it is recorded how a rank has ended."""
    return bool(records.how_ended(comm._local_rank.arena, rank))


def is_recorded_by_launcher(comm: Any, rank: int) -> bool:
    """Return whether the launcher has recorded that a rank has failed."""
    return records.read(comm._local_rank.arena, rank, layout.BY_LAUNCHER).state == records.FAILED
