"""Ordinary numpy arrays of a rank in shared memory: the pool, the allocator's state, the handlers, forks.

It saves the copy into a cell. Time of shmcoll with shared arrays over that with private ones, 2 ranks, 4 MiB
out of place, the same arrays in every call, on two days (`compare-2-ranks-shared.json` and `-hot.json` of the kept
measurements): scatter 0.57, collective_permute 0.69, reduce_scatter 0.73, all_gather 0.85, all_reduce 0.89, all_to_all
1.08, gather 1.23. At 64 MiB the memory is the limit: 0.84 to 1.43. Short arrays in place lose: an all_reduce of 64 KiB
took five times as long. `shmbench beyond shared_moves` measures both in turn.

Native code allocates and frees the memory; `engine/native/array_blocks.py` says how. Everything that it needs remains
until the process has ended, because the last array may be freed when the interpreter has ended: the state, the records,
the handlers, the code itself, and the mapping of the arena.

Fork. If there are arrays in the pool, a process that the rank forks shares the pool with it, and reads what the
rank writes into them. The rest of the arena is replaced by zeros there. The child allocates private memory only. An
array that existed during a fork may be read in the child after the rank has freed it, so the rank does not use that
memory again.
"""

import contextlib
import ctypes
import mmap
import os
import warnings
from collections.abc import Iterator

import numpy as np

from shmcoll.engine import layout
from shmcoll.engine.compiler.compile import load_allocator
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory import pages
from shmcoll.engine.memory.arena import Arena, mib
from shmcoll.engine.memory.heap import Heap
from shmcoll.engine.native import array_blocks as blocks
from shmcoll.engine.native import numpy_handlers

THRESHOLD = 64 << 10  # bytes of the shortest array that is shared
UNIT = max(16 << 10, mmap.PAGESIZE)
ARRAYS_SHARE = 3, 4  # of the job's limit
KEPT_SHARE = 4  # a rank keeps up to this part of its share of that

_LIBC = ctypes.CDLL(None)
_MADV_WIPEONFORK = 18


class ArraySharing:
    """The allocator of the arrays of rank `rank`, in its own process. One per process: `LocalRank.share_arrays`."""

    def __init__(self, arena: Arena, heap: Heap, rank: int):
        replaced = numpy_handlers.default().allocator
        self._functions = load_allocator()
        self._rank = rank
        self._state = new_state(arena, heap, rank, replaced)
        self._capsule = numpy_handlers.make("shmcoll", self._state.ctypes.data, self._functions)
        self._is_everywhere = self._has_warned = False
        self._first = self.word(blocks.BASE) - arena.address
        self._end = self.word(blocks.END) - arena.address
        arena.keep_mapped()
        os.register_at_fork(before=self._before_fork)

    def word(self, offset: int) -> int:
        """Return a word of the allocator's state."""
        return int(self._state[offset // WORD])

    @property
    def used_bytes(self) -> int:
        """The bytes of the blocks in use."""
        return self.word(blocks.USED_UNITS) * UNIT

    @contextlib.contextmanager
    def allocating(self) -> Iterator[None]:
        """Share the arrays that this thread, or asyncio task, makes in the body."""
        before = numpy_handlers.swap(self._capsule)
        try:
            yield
        finally:
            numpy_handlers.swap(before)

    def share_everywhere(self) -> None:
        """Share the arrays of all threads from now on."""
        if not self._is_everywhere:
            self._is_everywhere = True
            numpy_handlers.replace_default(self._state.ctypes.data, self._functions)

    def leave_in_child(self) -> tuple[int, int]:
        """Allocate nothing more, in a process that the rank has forked. Returns the range of the arena that it goes on
        sharing."""
        ctypes.c_int64.from_address(self.word(blocks.ALIVE)).value = 0
        return (self._first, self._end) if self.word(blocks.USED_BLOCKS) else (0, 0)

    def _before_fork(self) -> None:
        count = self.word(blocks.USED_BLOCKS)
        if not count or not ctypes.c_int64.from_address(self.word(blocks.ALIVE)).value:
            return
        self._state[blocks.FORKS // WORD] += 1
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"rank {self._rank} forks while {count} of its numpy arrays are in shared memory "
                f"({mib(self.used_bytes)}): the child shares them, so each reads what the other writes into them. "
                f"Their memory is not used again when they are freed. Copy an array to make it private, fork before "
                f"making arrays, or start processes with the method 'spawn'",
                RuntimeWarning,
                stacklevel=3,
            )


def new_state(arena: Arena, heap: Heap, rank: int, replaced: numpy_handlers.Allocator) -> np.ndarray:
    """Return the state of an allocator for a pool of its own. replaced: the functions of the handler that it
    replaces."""
    first, length = heap.reserve()
    base = layout.align(arena.address + first, UNIT)
    units = max(arena.address + first + length - base, 0) // UNIT
    numerator, denominator = ARRAYS_SHARE
    limit = arena.load(layout.JOB_HEAP) * numerator // denominator
    state = _for_ever(np.zeros(blocks.STATE_BYTES // WORD, np.int64))
    records = _for_ever(np.zeros(units * blocks.RECORD_BYTES // WORD, np.int64))
    for offset, value in (
        (blocks.ALIVE, _word_that_forks_lose()),
        (blocks.BASE, base),
        (blocks.END, base + units * UNIT),
        (blocks.SHIFT, UNIT.bit_length() - 1),
        (blocks.KEEP, limit // (KEPT_SHARE * arena.ranks) // UNIT),
        (blocks.RECORDS, records.ctypes.data),
        (blocks.OWN, arena.address + layout.directory_offset(arena.ranks, rank)),
        (blocks.DIRECTORIES, arena.address + layout.directory_offset(arena.ranks, 0)),
        (blocks.RANKS, arena.ranks),
        (blocks.LIMIT, limit),
        (blocks.COMMIT_BY, pages.advice_to_commit()),
        (blocks.PAGE, mmap.PAGESIZE),
        (blocks.LOCK, _address_of("pthread_mutex_lock")),
        (blocks.UNLOCK, _address_of("pthread_mutex_unlock")),
        (blocks.MADVISE, _address_of("madvise")),
        (blocks.MEMSET, _address_of("memset")),
        (blocks.TOUCH, _address_of("getresuid")),
        (blocks.USABLE, _address_of("malloc_usable_size")),
        (blocks.THRESHOLD, THRESHOLD),
        (blocks.CONTEXT, replaced.context or 0),
        (blocks.MALLOC, replaced.malloc),
        (blocks.CALLOC, replaced.calloc),
        (blocks.REALLOC, replaced.realloc),
        (blocks.FREE, replaced.free),
    ):
        state[offset // WORD] = value
    return state


def _for_ever(array: np.ndarray) -> np.ndarray:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(array))
    return array


def _word_that_forks_lose() -> int:
    """Return the address of a word that is 1 here, and 0 in a process that this one forks, if the system allows it."""
    page = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(page))
    with contextlib.suppress(OSError):  # `leave_in_child` does it too
        page.madvise(_MADV_WIPEONFORK)
    word = ctypes.c_int64.from_buffer(page)
    word.value = 1
    return ctypes.addressof(word)


def _address_of(name: str) -> int:
    """Return the address of a function of libc."""
    return ctypes.cast(getattr(_LIBC, name), ctypes.c_void_p).value or 0
