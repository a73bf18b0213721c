"""How the members of a group come to share its region, without help from other ranks: the leader's part.

The member with the lowest rank leads. It allocates the region in its heap, prepares it, and enters it in its directory
(`group_directory.py`), where the other members look (`group_search.py`). The words, and the rank that writes them:

    region      the leader, before another rank can find it: identity, size, members, doorbells
    SLOT        the leader: see `group_directory.py`
    CLOSED      each member, in its own mailbox of the region: 1 when it has closed the group, which ends the waits of
                ranks that still need it; 2 when it will not touch the region any more
    identity 0  the leader, when every member has let go or is dead. Then it gives the region back, or keeps it for its
                next group of as many ranks (`Heap.set_aside`). It clears all words of such a region before another
                rank can find it

Order of memory: each of these words is stored with release and loaded with acquire (`Arena`). So a leader that finds
LET_GO gives back a region that its member has read to the end.

Identity. It is a hash of the members and of an origin that all members know. `split` makes a new group each time: its
origin is the identity of the parent, and how often the parent has been split. `subgroup` finds a group that exists: its
origin is its name, and how often this member has closed the group of these ranks and this name. A member that is a
generation ahead waits for the others.

No memory. The leader enters the identity with a refusal in place of an offset, and all members raise. For each of them
this counts as a generation that is closed. The leader does the same if its directory is full, for which one slot is
reserved, and if an exception ends its call.

A group that is abandoned. An exception may leave the leader's call after it has entered the group (`group_search.py`).
Then it ends the group, and clears the slot, or enters LEFT in place of the offset. It gives the region back when each
member that has joined has let go, and no other member can be about to join:

    leader   SLOT = 0;  fence;  reads LOOKING of the member: 0;  reads WITNESS: the member has not joined
    member   LOOKING + 1;  fence;  reads SLOT;  joins: WITNESS;  LOOKING - 1

A member that looks after the leader's fence finds nothing. One that looked before has joined when LOOKING is 0.
"""

import ctypes
import struct
import time
from collections import deque
from collections.abc import Callable
from functools import cache, partial

from shmcoll.engine import layout
from shmcoll.engine.memory import pages, records, slot_tables
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.engine.memory.heap import Heap
from shmcoll.errors import ArenaError
from shmcoll.runtime import group_directory as directory
from shmcoll.runtime import waiting
from shmcoll.runtime.group_directory import NOBODY, Identity

STILL_IN, CLOSED, LET_GO = range(3)

_sem_init = ctypes.CDLL(None).sem_init
_sem_init.argtypes = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint


class GroupRegistry:
    """The groups that this rank leads, and those that it leaves."""

    def __init__(self, arena: Arena, rank: int, heap: Heap):
        self._arena = arena
        self._rank = rank
        self._heap = heap
        self._led: dict[int, Group] = {}  # by slot
        self._slots: dict[int, int] = {}  # of the regions of these groups, by offset
        self._closed: set[int] = set()  # slots of those that this rank has closed
        self._free: list[int] = []  # slots that have been used before
        self._used, self._room = 0, layout.SLOT_COUNT  # how many have ever been used, and are in the tables
        self._refusals: deque[int] = deque()  # slots with refusals, from the earliest on
        self._leaving: list[tuple[Group, int, dict[int, list[int]]]] = []
        self._lives_at = 0.0  # when the lives of the members may be read next
        self._abandoned: dict[int, bool] = {}  # slots of abandoned groups, and whether they contain LEFT

    def lead(self, ranks: tuple[int, ...], which: Identity, *, cells: bool = True) -> Group:
        """Make the region of a new group and let its members find it. If that fails, all members raise `ArenaError`.

        cells: whether the group makes collectives; messages need none.
        """
        self.sweep()
        try:
            self._make_room()
        except ArenaError as error:
            self._refuse(which, error)
            raise
        window, head = self._arena.load(layout.JOB_WINDOW_BYTES), layout.cells_offset(len(ranks))
        size = layout.group_bytes(len(ranks), window if cells else 0)
        commits_later = cells and window % layout.PAGE == 0 and pages.function_to_commit()
        slot, offset = self._free_slot(), 0
        try:
            offset = self._region(size, head if commits_later else size, f"a group of {len(ranks)} ranks")
            group = Group(self._arena, offset, ranks)
            _prepare(group, which, 0 if commits_later else window)
            self._led[slot], self._slots[offset] = group, slot
            directory.enter(self._arena, self._rank, slot, which, offset)
        except ArenaError as error:
            self._free.append(slot)
            self._refuse(which, error)
            raise
        except BaseException:  # from a signal handler
            if not offset or directory.look_up(self._arena, self._rank, which, slot) != offset:
                self._forget(slot, offset)
                if offset:
                    self._heap.give(offset)
            raise
        return group

    def slot_of(self, group: Group) -> int:
        """Return the slot in which this rank has entered a group that it leads."""
        return self._slots[group.offset]

    def _forget(self, slot: int, offset: int) -> None:
        self._led.pop(slot, None)
        self._slots.pop(offset, None)
        self._free.append(slot)

    def _make_room(self) -> None:
        """See to it that there is a slot for a group, and another one for a refusal. Raises `ArenaError` if there is
        none. An interrupt may have lost a slot."""
        if len(self._free) + len(self._refusals) + self._room - self._used > 1:
            return
        number = (self._room - layout.SLOT_COUNT) // layout.MORE_SLOTS
        if number == layout.MORE_TABLES:
            raise directory.refusal("this rank", directory.FULL)
        table = self._heap.take(slot_tables.TABLE_BYTES, "the directory of groups")
        slot_tables.add_table(self._arena, self._rank, number, table)
        self._room += layout.MORE_SLOTS

    def _region(self, size: int, head: int, purpose: str) -> int:
        """Return memory for a region; if there is too little, after a look at the regions of ranks that have died.
        head: how many bytes at its beginning are committed."""
        try:
            return self._heap.take_spare(size, purpose) or self._heap.take(size, purpose, commits=head, huge=False)
        except ArenaError:
            self._lives_at = 0.0
            self.sweep()
            return self._heap.take(size, purpose, commits=head, huge=False)

    def _refuse(self, which: Identity, error: ArenaError) -> None:
        """Let all members raise the error of a group that is not made."""
        error.is_common = True  # type: ignore[attr-defined]
        self._enter_refusal(which, directory.refusal_word(error))

    def _enter_refusal(self, which: Identity, why: int) -> None:
        slot = self._free_slot()
        self._refusals.append(slot)
        directory.enter(self._arena, self._rank, slot, which, why)

    def abandon(self, group: Group | None, rank: int, which: Identity, text: str, *, leaves: bool) -> None:
        """Leave the call that makes a group, as its rank `rank`. group: None if this rank has not found it. text: why.
        leaves: whether the leader has to enter LEFT, because nothing else tells the members that it has left."""
        if rank == 0:
            slot, group = self._slot_of(which)
            if slot is None and leaves:
                self._enter_refusal(which, directory.LEFT)
            elif slot is not None:
                self._abandoned[slot] = leaves
                directory.enter(self._arena, self._rank, slot, which if leaves else NOBODY, directory.LEFT)
                self._arena.fence()
        if group is not None:
            records.end(group, rank, records.INTERRUPTED, text)
            self.leave(group, rank, {})

    def _slot_of(self, which: Identity) -> tuple[int | None, Group | None]:
        """Return the slot of a group that this rank leads, and the group."""
        for slot, group in self._led.items():
            if directory.identity_of(group) == which:
                return slot, group
        return None, None

    def leave(self, group: Group, rank: int, rings: dict[int, list[int]]) -> None:
        """Close the group as its rank `rank`, and wake the ranks that wait for it. rings: the memory that may hold
        messages of this rank, by receiver. It is given back when the receiver has closed the group, too. Only when all
        of it has been given back does this rank let go of the region."""
        group.arena.store(group.mailbox(rank) + layout.CLOSED, CLOSED)
        group.ring()
        if (slot := self._slots.get(group.offset)) is not None:  # not for the world of a job beside this one
            self._closed.add(slot)
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
        """Give back the regions and the memory of messages that no rank needs any more. A program may have a thousand
        groups, so nothing is read of those that their leader still needs, and the lives of ranks are only read after a
        while."""
        self._let_go()
        how_ended: Callable[[int], str] = _unknown
        if (now := time.monotonic()) >= self._lives_at:
            self._lives_at, how_ended = now + waiting.SLICE, cache(partial(records.how_ended, self._arena))
        for slot in list(self._closed):
            group = self._led[slot]
            if all(self._is_out(slot, group, rank, how_ended) for rank in range(group.size)):
                self._closed.remove(slot)
                if self._abandoned.pop(slot, False):
                    self._refusals.append(slot)
                    del self._led[slot], self._slots[group.offset]
                else:
                    directory.enter(self._arena, self._rank, slot, NOBODY, 0)
                    self._forget(slot, group.offset)
                if not self._heap.set_aside(group.offset):
                    self._heap.give(group.offset)

    def _is_out(self, slot: int, group: Group, rank: int, how_ended: Callable[[int], str]) -> bool:
        """Return whether a member does not touch the region any more."""
        world = group.ranks[rank]
        if self._arena.load(group.mailbox(rank) + layout.CLOSED) == LET_GO or how_ended(world):
            return True
        is_looking = self._arena.load(layout.directory_offset(self._arena.ranks, world) + layout.LOOKING)
        return slot in self._abandoned and not is_looking and not has_joined(group, rank)

    def _free_slot(self) -> int:
        """Return a slot without a group. There always is one (`_make_room`); the last one to go has a refusal."""
        if self._free:
            return self._free.pop()
        if self._used < self._room:
            self._used += 1
            return self._used - 1
        return self._refusals.popleft()


def _unknown(_rank: int) -> str:
    """Return how a rank has ended, of which nothing is read."""
    return ""


def _prepare(group: Group, which: Identity, committed: int) -> None:
    """Write all words of a region, in which another group of as many ranks may have been. committed: bytes of each
    window of a new region."""
    arena = group.arena
    fits = arena.load(group.offset + layout.SIZE) == group.size
    known = group.load_of_each(layout.COMMITTED) if fits else [committed] * group.size
    ctypes.memset(arena.address + group.offset, 0, layout.cells_offset(group.size))
    arena.write(group.offset + layout.IDENTITY, struct.pack("=3q", *which, group.size))
    arena.write(group.offset + layout.MEMBERS, struct.pack(f"={group.size}q", *group.ranks))
    for rank, value in enumerate(known):
        mailbox = group.mailbox(rank)
        arena.store(mailbox + layout.COMMITTED, value)
        _sem_init(arena.address + mailbox + layout.SEMAPHORE, 1, 0)


def has_closed(group: Group, rank: int) -> bool:
    """Return whether a rank of the group has closed it, or has ended. A rank that has let go of the group must not call
    this."""
    return group.arena.load(group.mailbox(rank) + layout.CLOSED) != STILL_IN or bool(
        records.how_ended(group.arena, group.ranks[rank])
    )


def has_joined(group: Group, rank: int) -> bool:
    """Return whether a member has made its communicator of the group (`Dispatcher._publish_witness`)."""
    return group.arena.load(group.mailbox(rank) + layout.WITNESS) != 0
