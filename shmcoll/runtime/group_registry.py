"""How the members of a group come to share its region, without help from other ranks.

The member with the lowest rank leads. It allocates the region in its heap, prepares it, and enters it in its directory,
where the other members look. The words, and the rank that writes them:

    region      the leader, before another rank can find it: identity, size, members, doorbells
    SLOT        the leader: offset first, then identity. A reader that finds the identity finds the offset. The leader
                cannot clear the slot meanwhile, because the reader has not closed this group
    CLOSED      each member, in its own mailbox of the region: 1 when it has closed the group, which ends the waits of
                ranks that still need it; 2 when it will not touch the region any more
    identity 0  the leader, when every member has let go or is dead. Then it gives the region back

Order of memory: each of these words is stored with release and loaded with acquire (`Arena`). So a member that finds
the identity finds the offset and the region. A leader that finds LET_GO gives back a region that its member has read to
the end.

Identity. It is a hash of the members and of an origin that all members know. `split` makes a new group each time: its
origin is the identity of the parent, and how often the parent has been split. `subgroup` finds a group that exists: its
origin is its name, and how often this member has closed the group of these ranks and this name. A member that is a
generation ahead waits for the others.

No memory. The leader enters the identity with a negative offset, which contains how much it needed and how much was
available, and all members raise. For each of them this counts as a generation that is closed. The leader does the same
if its directory is full. One slot is reserved for that.

Why no member waits forever. A member that looks for a slot also checks the leader's records and process, and it has a
deadline.
"""

import ctypes
import hashlib
import time
from itertools import chain

from shmcoll.engine import layout
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import WIDEST_BYTES, Arena, mib
from shmcoll.engine.memory.group import Group
from shmcoll.engine.memory.heap import Heap, span
from shmcoll.engine.system.text import to_bytes
from shmcoll.errors import ArenaError, CollectiveTimeout, RankFailed

STILL_IN, CLOSED, LET_GO = range(3)

_LIBC = ctypes.CDLL(None, use_errno=True)
_LONGEST_NAP = 0.001  # seconds
_PAGES_BITS = (WIDEST_BYTES // layout.PAGE).bit_length()
_FULL = -1  # in place of an offset: no slot is free; a refusal for lack of memory says that some page was needed

Identity = tuple[int, int]
WORLD: Identity = (0, 0)


def identity(ranks: tuple[int, ...], *origin: object) -> Identity:
    """Return the identity of a group of these ranks of the world: two words, not zero."""
    digest = hashlib.sha256(to_bytes(repr((ranks, origin)))).digest()
    first, second = (int.from_bytes(digest[i : i + WORD], "little", signed=True) for i in (0, WORD))
    return first or 1, second


class GroupRegistry:
    """The groups that this rank leads."""

    def __init__(self, arena: Arena, rank: int, heap: Heap):
        self._arena = arena
        self._heap = heap
        self._base = layout.directory_offset(arena.ranks, rank)
        self._led: dict[int, Group | None] = {}  # by slot; None: a slot which says that there was no memory
        self._leaving: list[tuple[Group, int, dict[int, list[int]]]] = []

    def lead(self, ranks: tuple[int, ...], which: Identity, *, cells: bool = True) -> Group:
        """Make the region of a new group and let its members find it. If that fails, all members raise `ArenaError`.

        cells: whether the group makes collectives; messages need none.
        """
        self.sweep()
        slot = self._free_slot()
        if sum(group is not None for group in self._led.values()) >= _most_groups():
            self._refuse(slot, which, _FULL)
            raise ArenaError(f"this rank {_too_many()}")
        size = layout.group_bytes(len(ranks), self._arena.load(layout.JOB_WINDOW_BYTES) if cells else 0)
        try:
            offset = self._heap.take(size, f"a group of {len(ranks)} ranks")
        except ArenaError as error:
            self._refuse(slot, which, _refusal(size, error.available))
            raise
        group = Group(self._arena, offset, ranks)
        _prepare(group, which)
        self._led[slot] = group
        self._enter(slot, which, offset)
        return group

    def _refuse(self, slot: int, which: Identity, why: int) -> None:
        self._enter(slot, which, why)
        self._led[slot] = None

    def _enter(self, slot: int, which: Identity, offset: int) -> None:
        at = self._base + layout.SLOTS + slot * layout.SLOT_BYTES
        self._arena.store(at + layout.SLOT_IDENTITY, 0)
        self._arena.store(at + layout.SLOT_OFFSET, offset)
        self._arena.store(at + layout.SLOT_IDENTITY, which[0])

    def leave(self, group: Group, rank: int, rings: dict[int, list[int]]) -> None:
        """Close the group as its rank `rank`, and wake the ranks that wait for it. rings: the memory that may hold
        messages of this rank, by receiver. It is given back when the receiver has closed the group, too. Only when all
        of it has been given back does this rank let go of the region."""
        group.arena.store(group.mailbox(rank) + layout.CLOSED, CLOSED)
        group.ring()
        self._leaving.append((group, rank, rings))
        self.sweep()

    def _let_go(self) -> None:
        for leaving in list(self._leaving):
            group, rank, rings = leaving
            for receiver in [r for r in rings if has_closed(group, r)]:
                for offset in rings.pop(receiver):
                    self._heap.give(offset)
            if not rings:
                group.arena.store(group.mailbox(rank) + layout.CLOSED, LET_GO)
                self._leaving.remove(leaving)

    def sweep(self) -> None:
        """Give back the regions and the memory of messages that no rank needs any more."""
        self._let_go()
        for slot, group in list(self._led.items()):
            if group is not None and all(_has_let_go(group, rank) for rank in range(group.size)):
                at = self._base + layout.SLOTS + slot * layout.SLOT_BYTES
                self._arena.store(at + layout.SLOT_IDENTITY, 0)
                self._heap.give(group.offset)
                del self._led[slot]

    def _free_slot(self) -> int:
        """Return a slot without a group. There always is one."""
        free = (slot for slot in range(layout.SLOT_COUNT) if slot not in self._led)
        refusals = (slot for slot, group in self._led.items() if group is None)
        return next(chain(free, refusals))


def find(
    arena: Arena, ranks: tuple[int, ...], which: Identity, me: int, timeout: float, *, cells: bool = True
) -> Group:
    """Return the group that its leader, ranks[0], has entered or will enter. me: this rank of the world, for messages.
    cells: as in `GroupRegistry.lead`.

    Raises `ArenaError` if the leader had no memory for it, `RankFailed` if the leader has ended, and
    `CollectiveTimeout` if it does not enter the group within `timeout` seconds.
    """
    leader, nap, end = ranks[0], 1e-5, time.monotonic() + timeout
    call = f"subgroup of world ranks {list(ranks)} on world rank {me}"
    while True:
        how = records.how_ended(arena, leader)
        # Read after `how`: a leader that has ended enters nothing
        group = entered(arena, leader, which, call, cells=cells)
        if group:
            return group
        if how:
            text = f"{call}: world {how}; it leads that group, and never made it"
            raise RankFailed(text, operation="subgroup", rank=0)  # of the group that is being made
        if time.monotonic() > end:
            from shmcoll.diagnostics.hang_report import explained

            text = (
                f"{call}: timed out after {timeout:g} s, waiting for world rank {leader}, which leads the group, to "
                f"call subgroup with the same ranks (and to close the one before as often)"
            )
            raise explained(CollectiveTimeout(text, operation="subgroup", missing=(0,)), arena)
        time.sleep(nap)
        nap = min(2 * nap, _LONGEST_NAP)


def entered(arena: Arena, leader: int, which: Identity, purpose: str, *, cells: bool = True) -> Group | None:
    """Return the group that a leader has entered; None if it has not. Raises `ArenaError` if it had no room for it."""
    offset = _look_up(arena, leader, which)
    if offset == _FULL:
        raise ArenaError(f"{purpose}: world rank {leader} {_too_many()}")
    if offset < 0:
        needed, available = _amounts(offset)
        raise ArenaError(
            f"{purpose}: world rank {leader} found no memory for it, {mib(needed)} needed, {mib(available)} available; "
            f"close groups or drop shared arrays, or raise the limit: shmrun --heap, SHMCOLL_HEAP",
            needed=needed,
            available=available,
        )
    if offset == 0:
        return None
    group = Group(arena, offset, _members(arena, leader, offset, purpose, cells))
    return group if _identity_of(group) == which else None


def _members(arena: Arena, leader: int, offset: int, purpose: str, cells: bool) -> tuple[int, ...]:
    """Return the members of the group whose region a leader has entered. Raises `ArenaError` if it is not a region."""
    first, length = span(arena, leader)
    room = first + length - offset
    if offset >= first and offset % layout.PAGE == 0 and room >= layout.PAGE:
        size = arena.load(offset + layout.SIZE)
        window = arena.load(layout.JOB_WINDOW_BYTES) if cells else 0
        if 0 < size <= arena.ranks and layout.group_bytes(size, window) <= room:
            members = tuple(arena.load(offset + layout.MEMBERS + i * WORD) for i in range(size))
            if all(0 <= rank < arena.ranks for rank in members):
                return members
    raise ArenaError(
        f"{purpose}: the arena is damaged: what rank {leader} says of the groups that it leads makes no sense"
    )


def _prepare(group: Group, which: Identity) -> None:
    arena = group.arena
    for i, word in enumerate(which):
        arena.store(group.offset + layout.IDENTITY + i * WORD, word)
    arena.store(group.offset + layout.SIZE, group.size)
    for i, rank in enumerate(group.ranks):
        arena.store(group.offset + layout.MEMBERS + i * WORD, rank)
    for rank in range(group.size):
        bell = arena.address + group.mailbox(rank) + layout.SEMAPHORE
        _LIBC.sem_init(ctypes.c_void_p(bell), 1, 0)


def _most_groups() -> int:
    """Return how many groups a rank can lead at a time: all slots except the one that is reserved for refusals."""
    return layout.SLOT_COUNT - 1


def _too_many() -> str:
    return f"leads {_most_groups()} open groups, which is the limit; close some of them"


def _refusal(needed: int, available: int) -> int:
    """Return the negative word that replaces an offset if there was no memory: both amounts, in pages."""
    return -(needed // layout.PAGE << _PAGES_BITS | min(available, WIDEST_BYTES) // layout.PAGE)


def _amounts(refusal: int) -> tuple[int, int]:
    """Return the bytes needed and the bytes available."""
    needed, available = divmod(-refusal, 1 << _PAGES_BITS)
    return needed * layout.PAGE, available * layout.PAGE


def _look_up(arena: Arena, leader: int, which: Identity) -> int:
    """Return the offset that the leader has entered for a group; 0 if it has not."""
    base = layout.directory_offset(arena.ranks, leader) + layout.SLOTS
    for at in range(base, base + layout.SLOT_COUNT * layout.SLOT_BYTES, layout.SLOT_BYTES):
        if arena.load(at + layout.SLOT_IDENTITY) == which[0]:
            return arena.load(at + layout.SLOT_OFFSET)
    return 0


def _identity_of(group: Group) -> Identity:
    first, second = (group.arena.load(group.offset + layout.IDENTITY + i * WORD) for i in (0, 1))
    return first, second


def has_closed(group: Group, rank: int) -> bool:
    """Return whether a rank of the group has closed it, or has ended. A rank that has let go of the group must not call
    this."""
    return group.arena.load(group.mailbox(rank) + layout.CLOSED) != STILL_IN or bool(
        records.how_ended(group.arena, group.ranks[rank])
    )


def _has_let_go(group: Group, rank: int) -> bool:
    if group.arena.load(group.mailbox(rank) + layout.CLOSED) == LET_GO:
        return True
    return bool(records.how_ended(group.arena, group.ranks[rank]))
