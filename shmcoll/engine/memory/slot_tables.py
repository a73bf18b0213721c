"""Where the slots of a leader are: the first ones in its directory, further ones in tables in its heap.

The leader makes a table when all slots are in use, and keeps it. Only the leader writes the words, in this order:

    table   cleared
    MORE    where it is, with release
    slot    see `runtime/group_directory.py`

So whoever finds a table finds slots in it. What MORE says is checked: the table is within the heap of the leader.
"""

from collections.abc import Iterator

from shmcoll.engine import layout
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.heap import span

TABLE_BYTES = layout.MORE_SLOTS * layout.SLOT_BYTES


def most_slots() -> int:
    """Return how many slots a leader can have."""
    return layout.SLOT_COUNT + layout.MORE_TABLES * layout.MORE_SLOTS


def tables(arena: Arena, leader: int) -> Iterator[tuple[int, int]]:
    """Yield where the slots of a leader are, and how many, table by table."""
    base = layout.directory_offset(arena.ranks, leader)
    yield base + layout.SLOTS, layout.SLOT_COUNT
    first, length = span(arena, leader)
    for number in range(layout.MORE_TABLES):
        table = arena.load(base + layout.MORE + number * WORD)
        if not (first <= table <= first + length - TABLE_BYTES and table % layout.PAGE == 0):
            return
        yield table, layout.MORE_SLOTS


def add_table(arena: Arena, leader: int, number: int, table: int) -> None:
    """Let the other ranks find a further table of this leader."""
    arena.store(layout.directory_offset(arena.ranks, leader) + layout.MORE + number * WORD, table)


def slot_at(arena: Arena, leader: int, slot: int) -> int:
    """Return the offset of a slot; 0 if it is not there."""
    for table, slots in tables(arena, leader):
        if 0 <= slot < slots:
            return table + slot * layout.SLOT_BYTES
        slot -= slots
    return 0
