"""The heap of one rank: its own share of the arena, in which only this rank allocates memory and gives it back.

So ranks share no lock, and only the rank itself knows which blocks are free. The ranks share HELD, one word per rank
that only this rank writes: the bytes that it holds. Together these may not exceed JOB_HEAP. A rank adds its need to its
own word first and sums all words afterwards. So if two ranks take the last bytes at the same time, at least one sees
the other: the limit is never exceeded, though both may be refused. That needs a fence between the store and the sum, on
every processor.

Memory is committed when it is taken and cleared when it is given back: it reads as zero when it is taken again. Of
some blocks it is committed later (`take`). The limit counts them from the beginning as if all were committed.

Part of it may become a pool for ordinary numpy arrays (`reserve`), whose memory native code commits and gives back. A
second word of the rank, ARRAYS, has the bytes that the pool holds. The limit is that of both words together.

A block may have words behind it that say which ranks have views of it (`holds.py`). A block that is given back stays
until all ranks that hold it have let go or ended. That is checked whenever memory is taken or given back. The last rank
that lets go gives the memory to the system at once; HELD counts it until that check.

Within the rank. Threads take turns (`_lock`). But between any two steps the same thread may run another call: of a
signal handler that takes memory, or of the garbage collector, which gives memory back. The lock lets that call in, and
it ends before the interrupted call goes on. Both change the heap by replacing an immutable picture of it, in one step
of the interpreter. A picture that has been replaced holds its successor, and `setdefault` lets only one call set that.
A call whose picture has been replaced meanwhile begins again with the latest one.

    take     claim a block, add it to HELD, check the limit, commit. Any exception withdraws the claim
    give     enter the block among the dropped blocks, where it stays until it is free. A call that gets the lock
             without waiting, and a call that takes memory, clears the dropped blocks; only one call at a time clears a
             block (`cleared_by`). Then the block leaves the picture: it is not taken before it is clear

Spare blocks. To commit and to clear a few MiB takes most of the time in which a group is made and closed. So a caller
may set a few blocks aside (`set_aside`), and have them again as they are (`take_spare`). They stay committed, and they
do not count as held. When there is too little memory for another block, this rank gives its spare blocks back first.
"""

import os
import threading
from bisect import insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from shmcoll.engine import layout
from shmcoll.engine.memory import holds as holding
from shmcoll.engine.memory.arena import Arena, mib, space_limit
from shmcoll.errors import ArenaError

_MOST_SPARES = 2
_SPARE_SHARE = 16  # of what the heaps may hold, all ranks together keep at most this part as spare blocks

_Gaps = tuple[tuple[int, int], ...]  # first byte and length of each free range, in order


@dataclass(eq=False)  # compared by identity
class _Block:
    """A block of the heap. holds: the distance from its beginning to the words that say which ranks have views of it; 0
    if no rank may have any. is_doubted: see `holds.py`."""

    length: int
    holds: int
    offset: int = -1  # of the latest claim
    is_doubted: bool = False
    cleared_by: dict[int, object] = field(default_factory=dict)  # under 0, the call that clears it


class _Taken:
    """The blocks by their first bytes. It cannot be changed. It consists of small parts, so that a copy with one block
    more or less takes no longer for a thousand blocks."""

    def __init__(self, parts: tuple[dict[int, _Block], ...] = ({},) * 61):
        self._parts = parts

    def __getitem__(self, offset: int) -> _Block:
        return self._parts[self._part(offset)][offset]

    def get(self, offset: int) -> _Block | None:
        return self._parts[self._part(offset)].get(offset)

    def items(self) -> Iterator[tuple[int, _Block]]:
        return chain.from_iterable(part.items() for part in self._parts)

    def with_block(self, block: _Block) -> "_Taken":
        return self._replaced(block.offset, lambda part: part | {block.offset: block})

    def without(self, block: _Block) -> "_Taken":
        return self._replaced(block.offset, lambda part: {o: one for o, one in part.items() if one is not block})

    def _replaced(self, offset: int, change: Callable[[dict[int, _Block]], dict[int, _Block]]) -> "_Taken":
        i = self._part(offset)
        return _Taken((*self._parts[:i], change(self._parts[i]), *self._parts[i + 1 :]))

    def _part(self, offset: int) -> int:
        return offset // layout.PAGE % len(self._parts)


class _Picture(NamedTuple):
    """The heap as it is, until `successor` holds another picture."""

    gaps: _Gaps
    taken: _Taken
    successor: dict[int, "_Picture"]


class Heap:
    """The heap of `rank`, in its own process. Offsets are those of the arena; blocks are whole pages."""

    def __init__(self, arena: Arena, rank: int):
        self._arena, self.rank = arena, rank
        self._held_word = layout.directory_offset(arena.ranks, rank) + layout.HELD
        self._pid = os.getpid()
        first, self._length = span(arena, rank)
        self._known = _Picture(((first, self._length),), _Taken(), {})  # the latest, or one before
        self._dropped: dict[_Block, None] = {}
        self._spares: dict[int, int] = {}  # first byte and length of each
        self.ring_bytes = 0  # of all rings for messages of this rank
        self._lock = threading.RLock()

    def reserve(self) -> tuple[int, int]:
        """Give up half of the longest range of free addresses. Returns its first byte and its length. The heap never
        uses it again."""
        with self._lock:
            while True:
                old = self._picture()
                offset, room = max(old.gaps, key=lambda gap: gap[1], default=(0, 0))
                length = room // 2 & -layout.PAGE
                first = offset + room - length
                gaps = tuple((o, n - length if o == offset else n) for o, n in old.gaps)
                if self._replace(old, gaps, old.taken):
                    break
            self._length -= length
            self._tell_held()
        return first, length

    def take(
        self, length: int, purpose: str, *, holds: bool = False, commits: int | None = None, huge: bool = True
    ) -> int:
        """Allocate `length` bytes of zeros and return their offset. If there is too little memory, it takes nothing and
        raises `ArenaError`. commits: how many bytes at the beginning are committed here, and the caller has the others
        committed; None: all of them. huge: see `pages.give`."""
        behind = layout.align(length, layout.LINE)
        words = holding.words(self._arena.ranks) if holds else 0
        length = layout.align(max(behind + words * layout.WORD, 1), layout.PAGE)
        block = _Block(length, behind if holds else 0)
        try:
            return self._take(block, length, behind, purpose, commits, huge)
        except ArenaError:
            if not self._give_spares():
                raise
            return self._take(_Block(length, block.holds), length, behind, purpose, commits, huge)

    def _take(self, block: _Block, length: int, behind: int, purpose: str, commits: int | None, huge: bool) -> int:
        try:
            with self._lock:
                self._put_back()
                self._claim(block, purpose)
                self._check_limit(0, length, purpose)
                if commits is None:
                    self._arena.commit(block.offset, length, purpose, huge=huge)
                else:
                    self._arena.check_room(length, purpose)
                    for first, end in ((0, commits), (behind & -layout.PAGE if block.holds else length, length)):
                        if first < end:
                            self._arena.commit(block.offset + first, end - first, purpose, huge=huge)
            return block.offset
        except BaseException:
            with self._lock:
                self._withdraw(block)
            raise

    def set_aside(self, offset: int) -> bool:
        """Keep a block for `take_spare` instead of giving it back. Returns False if there are enough."""
        length = self._picture().taken[offset].length
        most = self._arena.load(layout.JOB_HEAP) // _SPARE_SHARE // self._arena.ranks
        if len(self._spares) >= _MOST_SPARES or sum(self._spares.values()) + length > most:
            return False
        self._spares[offset] = length
        self._tell_held()
        return True

    def take_spare(self, length: int, purpose: str) -> int:
        """Return the offset of a spare block of this length, with the bytes that its last user has left; 0 if no spare
        block is so long. Raises `ArenaError` if the heaps are full."""
        length = layout.align(length, layout.PAGE)
        for offset, room in list(self._spares.items()):
            if room == length and self._spares.pop(offset, 0):
                try:
                    self._tell_held()
                    self._check_limit(0, length, purpose)
                    return offset
                except BaseException:
                    self.give(offset)
                    raise
        return 0

    def _give_spares(self) -> bool:
        """Give all spare blocks back. Returns whether there were any."""
        given = [offset for offset in list(self._spares) if self._spares.pop(offset, 0)]
        for offset in given:
            self.give(offset)
        return bool(given)

    def block_of(self, offset: int) -> tuple[int, int] | None:
        """Return the first byte of the block that contains a byte, and where its words about views begin; None if no
        rank may have views of it."""
        blocks = self._picture().taken.items()
        return next(((at, at + b.holds) for at, b in blocks if at <= offset < at + b.holds), None)

    def give(self, offset: int) -> None:
        """Give a block back. May be called from anywhere, even by the garbage collector in the middle of `take`."""
        block = self._picture().taken[offset]
        try:
            if block.holds and os.getpid() == self._pid:
                holding.give(self._arena, offset + block.holds, doubted=block.is_doubted)
                if (
                    self._is_held(block)
                    and not block.is_doubted
                    and holding.nobody_sees(self._arena, offset + block.holds)
                ):
                    self._arena.drop(offset, block.holds)
        finally:
            self._dropped[block] = None  # last: from now on another call may free the block
        if self._lock.acquire(blocking=False):
            try:
                self._put_back()
            finally:
                self._lock.release()

    def doubt(self, offset: int) -> None:
        """Note that a call has failed in which other ranks learned of a block."""
        self._picture().taken[offset].is_doubted = True

    def _put_back(self) -> None:
        for block in self._dropped.copy():
            me = object()
            try:
                if block.cleared_by.setdefault(0, me) is me and self._is_taken(block) and not self._is_held(block):
                    if os.getpid() == self._pid:  # in a fork of the rank the block is the rank's
                        self._arena.clear(block.offset, block.length)
                    self._withdraw(block)
            finally:
                if block.cleared_by.get(0) is me:
                    block.cleared_by.clear()
            if not self._is_taken(block):
                self._dropped.pop(block, None)

    def _is_held(self, block: _Block) -> bool:
        """Return whether a living rank has views of a block that has been dropped."""
        if not block.holds or os.getpid() != self._pid:
            return False
        return holding.is_held(self._arena, block.offset + block.holds, doubted=block.is_doubted)

    # --- the picture --------------------------------------------------------------------------------------------------

    def _picture(self) -> _Picture:
        latest = self._known
        while latest.successor:
            latest = latest.successor[0]
        return latest

    def _replace(self, old: _Picture, gaps: _Gaps, taken: _Taken) -> bool:
        """Replace the latest picture by another. Returns False if an inner call has replaced it first."""
        new = _Picture(gaps, taken, {})
        if old.successor.setdefault(0, new) is not new:
            return False
        self._known = new
        return True

    def _claim(self, block: _Block, purpose: str) -> None:
        """Enter a block in a gap that is long enough, and add it to HELD."""
        while True:
            old = self._picture()
            block.offset = self._first_fit(old.gaps, block.length, purpose)
            if self._replace(old, _without(old.gaps, block), old.taken.with_block(block)):
                break
        self._tell_held()

    def _withdraw(self, block: _Block) -> None:
        while self._is_taken(block):
            old = self._picture()
            self._replace(old, _with(old.gaps, block), old.taken.without(block))
        self._tell_held()

    def _is_taken(self, block: _Block) -> bool:
        return self._picture().taken.get(block.offset) is block

    def _tell_held(self) -> None:
        told = -1
        while told != (held := self._in_use()):
            if os.getpid() == self._pid:
                self._arena.store(self._held_word, held)
            told = held

    def _in_use(self) -> int:
        gaps = sum(length for _, length in self._picture().gaps)
        return self._length - gaps - sum(list(self._spares.values()))

    def _first_fit(self, gaps: _Gaps, length: int, purpose: str) -> int:
        """Return the beginning of the first gap that is long enough."""
        for offset, room in gaps:
            if room >= length:
                return offset
        self._check_limit(length, length, purpose)
        longest = max((room for _, room in gaps), default=0)
        raise ArenaError(
            f"no block of {mib(length)} for {purpose} in this rank's part of the arena, of {mib(self._length)}; the "
            f"longest free one has {mib(longest)}. Drop arrays that you no longer need{space_limit()}",
            needed=length,
            available=longest,
        )

    def _check_limit(self, more: int, length: int, purpose: str) -> None:
        """Raise `ArenaError` if the heaps would exceed the limit with `more` bytes. length: those asked for."""
        self._arena.fence()
        limit, held = self._arena.load(layout.JOB_HEAP), held_by_all(self._arena) + more
        if held > limit:
            raise ArenaError(
                f"the heap is full: {mib(length)} needed for {purpose}, {mib(held - length)} of {mib(limit)} in use. "
                f"Drop arrays and close groups that you no longer need, or raise the limit: shmrun --heap, "
                f"SHMCOLL_HEAP{self._arena.advice_on_limit()}",
                needed=length,
                available=max(limit - (held - length), 0),
            )


def span(arena: Arena, rank: int) -> tuple[int, int]:
    """Return the first byte and the length of a rank's heap: an equal share of the arena behind the world's region."""
    first = layout.arena_bytes(arena.ranks, arena.load(layout.JOB_WINDOW_BYTES))
    share = (arena.size - first) // arena.ranks & -layout.PAGE
    return first + rank * share, share


def held_by_all(arena: Arena) -> int:
    """Return the bytes that the heaps of all ranks hold, with those of ordinary numpy arrays."""
    first = layout.directory_offset(arena.ranks, 0)
    held = (arena.load_each(first + word, layout.DIRECTORY_BYTES, arena.ranks) for word in (layout.HELD, layout.ARRAYS))
    return sum(map(sum, held))


def held_by(arena: Arena, rank: int) -> int:
    """Return the bytes that a rank holds for groups, shared arrays and messages."""
    return arena.load(layout.directory_offset(arena.ranks, rank) + layout.HELD)


def arrays_held_by(arena: Arena, rank: int) -> int:
    """Return the bytes that a rank holds for ordinary numpy arrays."""
    return arena.load(layout.directory_offset(arena.ranks, rank) + layout.ARRAYS)


def _without(gaps: _Gaps, block: _Block) -> _Gaps:
    """Return the gaps after cutting a block off the beginning of one."""
    left = [(o, n) if o != block.offset else (o + block.length, n - block.length) for o, n in gaps]
    return tuple((o, n) for o, n in left if n)


def _with(gaps: _Gaps, block: _Block) -> _Gaps:
    """Return the gaps, in order, with one more; neighbours become one."""
    pieces = list(gaps)
    insort(pieces, (block.offset, block.length))
    merged: list[tuple[int, int]] = []
    for o, n in pieces:
        if merged and sum(merged[-1]) == o:
            merged[-1] = (merged[-1][0], merged[-1][1] + n)
        else:
            merged.append((o, n))
    return tuple(merged)
