"""The heap of one rank: its own share of the arena, from which it alone takes memory and gives it back.

Nobody else takes from it, so no lock is shared between ranks, and which blocks are free is private knowledge. What is
shared is HELD, one word a rank that it alone writes: the bytes it holds. Together they may not pass JOB_HEAP. A rank
adds its need to its own word first and sums all words afterwards, so that of two ranks that take the last bytes at once
at least one sees the other: the limit is never passed, though both may be refused. That needs a fence between the store
and the sum, on every processor.

Memory is committed when taken and punched out when given back: it reads as zero when it is taken again.

A block may have HOLDS behind it, a word a rank, that rank's alone: how many views of the block it has (`shared.py`). A
block that is given back stays until all ranks that hold it have let go or ended, which is looked at whenever memory is
taken or given. A rank holds only what its owner has at that time, so nobody holds what has been given back.
"""

import ctypes
import os
import threading
from bisect import insort
from collections import deque

from shmcoll.engine import layout, records
from shmcoll.engine.arena import Arena, mib
from shmcoll.errors import ArenaError

_LIBC = ctypes.CDLL(None, use_errno=True)
_KEEP_SIZE, _PUNCH_HOLE = 1, 2


class Heap:
    """The heap of `rank`, in its own process. Offsets are those of the arena; blocks are whole pages."""

    def __init__(self, arena: Arena, rank: int):
        self._arena = arena
        self._held_word = layout.directory_offset(arena.ranks, rank) + layout.HELD
        self._pid = os.getpid()
        first, length = span(arena, rank)
        self._free = [(first, length)]
        self._taken: dict[int, int] = {}
        self._holds: dict[int, int] = {}  # where those are, of blocks that have any
        self._dropped: deque[int] = deque()
        self._lock = threading.Lock()

    def take(self, length: int, purpose: str, *, holds: bool = False) -> int:
        """Offset of `length` bytes of zeros. Raises `ArenaError`, with nothing taken, when there is too little."""
        behind = layout.align(length, layout.LINE)
        length = layout.align(max(behind + holds * self._arena.ranks * layout.WORD, 1), layout.PAGE)
        with self._lock:
            self._put_back()
            self._reserve(length, purpose)
            try:
                offset = self._cut(length, purpose)
                self._arena.commit(offset, length, purpose)
            except BaseException:
                self._hold(-length)
                raise
            self._free = _without(self._free, offset, length)
            self._taken[offset] = length
            if holds:
                self._holds[offset] = offset + behind
        return offset

    def block_of(self, offset: int) -> tuple[int, int] | None:
        """First byte and HOLDS of the block in which a byte lies; None where no rank may have views."""
        return next(((first, at) for first, at in self._holds.items() if first <= offset < at), None)

    def give(self, offset: int) -> None:
        """Give a block back. May be called from anywhere, even by the garbage collector in the midst of `take`."""
        self._dropped.append(offset)
        if self._lock.acquire(blocking=False):
            try:
                self._put_back()
            finally:
                self._lock.release()

    def _put_back(self) -> None:
        for _ in range(len(self._dropped)):
            offset = self._dropped.popleft()
            if self._is_held(offset):
                self._dropped.append(offset)
                continue
            self._holds.pop(offset, None)
            length = self._taken.pop(offset)
            if os.getpid() != self._pid:
                continue  # a fork of the rank: the block is the rank's
            mode = ctypes.c_int(_KEEP_SIZE | _PUNCH_HOLE)
            _LIBC.fallocate(ctypes.c_int(self._arena.fd), mode, ctypes.c_long(offset), ctypes.c_long(length))
            self._hold(-length)
            self._free = _merged(self._free, offset, length)

    def _is_held(self, offset: int) -> bool:
        """Whether a living rank has views of a block."""
        if offset not in self._holds or os.getpid() != self._pid:
            return False
        arena, at = self._arena, self._holds[offset]
        return any(
            arena.load(at + rank * layout.WORD) and not records.how_ended(arena, rank) for rank in range(arena.ranks)
        )

    def _hold(self, more: int) -> None:
        self._arena.store(self._held_word, self._arena.load(self._held_word) + more)

    def _reserve(self, length: int, purpose: str) -> None:
        limit = self._arena.load(layout.JOB_HEAP)
        self._hold(length)
        self._arena.fence()
        held = held_by_all(self._arena)
        if held > limit:
            self._hold(-length)
            raise ArenaError(
                f"the heap is full: {mib(length)} needed for {purpose}, {mib(held - length)} of {mib(limit)} in use. "
                f"Drop arrays and close groups that you no longer need, or raise the limit: shmrun --heap, "
                f"SHMCOLL_HEAP",
                needed=length,
                available=max(limit - (held - length), 0),
            )

    def _cut(self, length: int, purpose: str) -> int:
        for offset, room in self._free:
            if room >= length:
                return offset
        raise ArenaError(
            f"no block of {mib(length)} for {purpose} in this rank's part of the arena; it is in pieces",
            needed=length,
            available=max((room for _, room in self._free), default=0),
        )


def span(arena: Arena, rank: int) -> tuple[int, int]:
    """First byte and length of a rank's heap: an equal share of all behind the world's region."""
    first = layout.arena_bytes(arena.ranks, arena.load(layout.JOB_CELL_BYTES))
    share = (arena.size - first) // arena.ranks & -layout.PAGE
    return first + rank * share, share


def held_by_all(arena: Arena) -> int:
    """Bytes that the heaps of all ranks hold."""
    return sum(arena.load(layout.directory_offset(arena.ranks, rank) + layout.HELD) for rank in range(arena.ranks))


def _without(free: list[tuple[int, int]], offset: int, length: int) -> list[tuple[int, int]]:
    """The free blocks after cutting `length` bytes off the one that begins at `offset`."""
    left = [(o, n) if o != offset else (o + length, n - length) for o, n in free]
    return [(o, n) for o, n in left if n]


def _merged(free: list[tuple[int, int]], offset: int, length: int) -> list[tuple[int, int]]:
    """The free blocks, in order, with one more; neighbours become one."""
    blocks = list(free)
    insort(blocks, (offset, length))
    merged: list[tuple[int, int]] = []
    for o, n in blocks:
        if merged and sum(merged[-1]) == o:
            merged[-1] = (merged[-1][0], merged[-1][1] + n)
        else:
            merged.append((o, n))
    return merged
