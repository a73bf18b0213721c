"""The entries of a leader in its directory, about the groups that it makes: where their regions are, or why one was not
made. `engine/memory/slot_tables.py` says where the slots are.

The words, all written by the leader:

    SLOT        offset first, then identity. A reader that finds the identity finds the offset. The leader cannot clear
                the slot of a region meanwhile, because the reader has not closed this group
    offset      of the region; negative: no region. FULL: no slot is free. LEFT: the leader has left the call. Else
                the memory that was needed, and what was available: a refusal says that some page was needed

Order of memory: each word is stored with release and loaded with acquire (`Arena`). So a member that finds the identity
finds the offset and the region.
"""

import hashlib

import numpy as np

from shmcoll.engine import layout
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory.arena import WIDEST_BYTES, Arena, mib
from shmcoll.engine.memory.group import Group
from shmcoll.engine.memory.heap import span
from shmcoll.engine.memory.slot_tables import most_slots, slot_at, tables
from shmcoll.engine.system.text import to_bytes
from shmcoll.errors import ArenaError, RankFailed

FULL, LEFT = -1, -2

_PAGES_BITS = (WIDEST_BYTES // layout.PAGE).bit_length()

Identity = tuple[int, int]
WORLD: Identity = (0, 0)
NOBODY = WORLD  # in a slot: it is free


def identity(ranks: tuple[int, ...], *origin: object) -> Identity:
    """Return the identity of a group of these ranks of the world: two words, not zero."""
    digest = hashlib.sha256(to_bytes(repr((ranks, origin)))).digest()
    first, second = (int.from_bytes(digest[i : i + WORD], "little", signed=True) for i in (0, WORD))
    return first or 1, second


def enter(arena: Arena, leader: int, slot: int, which: Identity, offset: int) -> None:
    """Let the members find a group, or why it was not made."""
    at = slot_at(arena, leader, slot)
    arena.store(at + layout.SLOT_IDENTITY, 0)
    arena.store(at + layout.SLOT_OFFSET, offset)
    arena.store(at + layout.SLOT_IDENTITY, which[0])


def look_up(arena: Arena, leader: int, which: Identity, slot: int | None = None) -> int:
    """Return the offset that the leader has entered for a group; 0 if it has not. slot: where, if it has told that."""
    if slot is not None:
        at = slot_at(arena, leader, slot)
        return arena.load(at + layout.SLOT_OFFSET) if at and arena.load(at + layout.SLOT_IDENTITY) == which[0] else 0
    for table, slots in tables(arena, leader):
        identities = np.frombuffer(arena.read(table, slots * layout.SLOT_BYTES), np.int64)[:: layout.SLOT_BYTES // WORD]
        for place in np.flatnonzero(identities == which[0]).tolist():
            at = table + place * layout.SLOT_BYTES
            if arena.load(at + layout.SLOT_IDENTITY) == which[0]:
                return arena.load(at + layout.SLOT_OFFSET)
    return 0


def entered(
    arena: Arena, leader: int, which: Identity, purpose: str, *, cells: bool = True, slot: int | None = None
) -> Group | None:
    """Return the group that a leader has entered; None if it has not. cells: as in `GroupRegistry.lead`. slot: as for
    `look_up`.

    Raises `ArenaError` if it had no room for it, and `RankFailed` if an exception ended its call before.
    """
    offset = look_up(arena, leader, which, slot)
    if offset == 0:
        return None
    if offset == LEFT:
        text = f"{purpose}: world rank {leader} was interrupted before it had made the group"
        raise RankFailed(text, operation="subgroup", rank=0)  # of the group that is being made
    if offset < 0:
        raise refusal(f"{purpose}: world rank {leader}", offset)
    group = Group(arena, offset, _members(arena, leader, offset, purpose, cells))
    return group if identity_of(group) == which else None


def no_memory(needed: int, available: int) -> int:
    """Return the negative word that replaces an offset if there was no memory: both amounts, in pages."""
    return -(needed // layout.PAGE << _PAGES_BITS | min(available, WIDEST_BYTES) // layout.PAGE)


def refusal_word(error: ArenaError) -> int:
    """Return the word that replaces the offset after an error of a leader that had no room."""
    return no_memory(error.needed, error.available) if error.needed else FULL


def refusal(who: str, offset: int) -> ArenaError:
    """Return the error of a leader that had no room for a group, which all members raise."""
    if offset == FULL:
        error = ArenaError(f"{who} leads {most_groups():,} open groups, which is the limit; close some of them")
    else:
        pages, available = divmod(-offset, 1 << _PAGES_BITS)
        needed, available = pages * layout.PAGE, available * layout.PAGE
        error = ArenaError(
            f"{who} found no memory for it, {mib(needed)} needed, {mib(available)} available; close groups or drop "
            f"shared arrays, or raise the limit: shmrun --heap, SHMCOLL_HEAP",
            needed=needed,
            available=available,
        )
    error.is_common = True  # type: ignore[attr-defined]
    return error


def most_groups() -> int:
    """Return how many groups a rank can lead at a time: all slots except the one that is reserved for refusals."""
    return most_slots() - 1


def _members(arena: Arena, leader: int, offset: int, purpose: str, cells: bool) -> tuple[int, ...]:
    """Return the members of the group whose region a leader has entered. Raises `ArenaError` if it is not a region."""
    first, length = span(arena, leader)
    room = first + length - offset
    if offset >= first and offset % layout.PAGE == 0 and room >= layout.PAGE:
        size = arena.load(offset + layout.SIZE)
        window = arena.load(layout.JOB_WINDOW_BYTES) if cells else 0
        if 0 < size <= arena.ranks and layout.group_bytes(size, window) <= room:
            members = arena.load_each(offset + layout.MEMBERS, WORD, size)
            if min(members) >= 0 and max(members) < arena.ranks:
                return tuple(members)
    raise ArenaError(
        f"{purpose}: the arena is damaged: what rank {leader} says of the groups that it leads makes no sense"
    )


def identity_of(group: Group) -> Identity:
    """Return the identity that the leader has written into the region of a group."""
    first, second = group.arena.load_each(group.offset + layout.IDENTITY, WORD, 2)
    return first, second
