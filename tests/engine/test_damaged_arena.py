"""Words of the arena that somebody has overwritten are told as damage, and lead nowhere: no crash, no wrong result."""

import numpy as np
import pytest

from shmcoll.engine import layout
from shmcoll.engine.layout import WORD
from shmcoll.engine.messages import ring_buffers
from shmcoll.errors import ArenaError, InternalError
from shmcoll.runtime.group_directory import identity

HUGE = 1 << 46


WORDS = {
    "offset capacity": layout.RING_CAPACITY,
    "piece kind": layout.PIECE_KIND,
    "piece total": layout.PIECE_TOTAL,
    "piece length": layout.PIECE_LENGTH,
}


class Ring:
    """The ring from rank 1 to rank 0, in which a message of 8 words lies, as rank 0 finds it."""

    def __init__(self, comm):
        self.arena = comm._local_rank.arena
        mailbox = comm._dispatcher.group.mailbox(1)
        self.told = mailbox + layout.rings_offset(2)
        self.offset = self.arena.load(self.told)
        self.piece = self.offset + layout.RING_PIECES

    def overwrite(self, where: str, value: int) -> None:
        self.arena.store(self.told if where == "ring" else getattr(self, where.split()[0]) + WORDS[where], value)


DAMAGES = [
    *(("ring", value) for value in (HUGE, -HUGE, -1, 1, (1 << 63) - 1)),
    *(("offset capacity", value) for value in (0, -1, 1, HUGE, -(1 << 63), (1 << 63) - 1)),
    *(
        ("piece kind", value)
        for value in (0, 9, ring_buffers.FIRST | 1000 << 16, ring_buffers.FIRST | 1 << 62, -1, ring_buffers.SKIP)
    ),
    ("piece kind", ring_buffers.NEXT),
    *(("piece length", value) for value in (-1, 65, HUGE, -(1 << 63), (1 << 63) - 1)),
    *(("piece total", value) for value in (-1, 1, -(1 << 63))),
]


@pytest.mark.parametrize(("where", "value"), DAMAGES)
def test_a_damaged_message_is_told(ranks, where, value):
    def use(comm) -> str:
        if comm.rank == 1:
            comm.send(np.arange(8), 0, tag=5)
            comm.barrier()
            with pytest.raises(InternalError) as told:
                comm.barrier()
            return str(told.value)
        comm.barrier()
        Ring(comm).overwrite(where, value)
        with pytest.raises(InternalError) as told:
            comm.recv(np.zeros(8, np.int64), source=1)
        return str(told.value)

    for text in ranks(2, use):
        assert "the arena is damaged: what rank 1 has written there makes no sense" in text


def test_damage_in_the_midst_of_a_long_message_is_told(ranks):
    """A later piece says that it is longer than what is left of the message."""

    def use(comm) -> str:
        long = np.arange(3 * ring_buffers.PART_BYTES // WORD)
        if comm.rank == 1:
            comm.send(long, 0)
            comm.barrier()
            return ""
        comm.barrier()
        ring = Ring(comm)
        head = layout.PIECE_DIMS + WORD
        second = ring.piece + -(-(head + ring_buffers.PART_BYTES) // layout.PIECE_UNIT) * layout.PIECE_UNIT
        assert ring.arena.load(second + layout.PIECE_LENGTH) == ring_buffers.PART_BYTES
        ring.arena.store(second + layout.PIECE_LENGTH, 2 * ring_buffers.PART_BYTES + 8)
        out = np.zeros(len(long) + 8, np.int64)
        with pytest.raises(InternalError) as told:
            comm.recv(out[:-8], source=1)
        assert not out[-8:].any()
        return str(told.value)

    assert "the arena is damaged: what rank 1 has written" in ranks(2, use)[0]


@pytest.mark.parametrize("offset", [HUGE, layout.PAGE, 8, (1 << 62) + 4096])
def test_a_damaged_directory_is_told(ranks, offset):
    """A member finds the identity of its group, and beside it an offset that leads nowhere."""

    def use(comm) -> str:
        arena = comm._local_rank.arena
        if comm.rank == 0:
            which = identity((0, 1), "subgroup", "", 0)
            slot = layout.directory_offset(2, 0) + layout.SLOTS
            arena.store(slot + layout.SLOT_OFFSET, offset)
            arena.store(slot + layout.SLOT_IDENTITY, which[0])
        comm.barrier()
        if comm.rank == 1:
            with pytest.raises(ArenaError) as told:
                comm.subgroup([0, 1])
            return str(told.value)
        return ""

    assert "the arena is damaged: what rank 0 says of the groups that it leads makes no sense" in ranks(2, use)[1]


@pytest.mark.parametrize("word", [layout.SIZE, layout.MEMBERS])
@pytest.mark.parametrize("value", [-1, 0, 1 << 40])
def test_a_damaged_region_is_told(ranks, word, value):
    def use(comm) -> str:
        arena = comm._local_rank.arena
        if comm.rank == 0:
            group = comm._local_rank.groups.lead((0, 1), identity((0, 1), "subgroup", "", 0))
            arena.store(group.offset + word, value)
        comm.barrier()
        text = ""
        if comm.rank == 1 and not (word == layout.MEMBERS and value == 0):
            with pytest.raises(ArenaError) as told:
                comm.subgroup([0, 1])
            text = str(told.value)
        comm.barrier()
        return text

    text = ranks(2, use)[1]
    assert "the arena is damaged" in text or (word == layout.MEMBERS and value == 0)
