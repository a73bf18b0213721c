"""The allocator of ordinary numpy arrays in the arena, as plain Python on real memory: blocks, limits, forks."""

import ctypes
import os
import random

import numpy as np
import pytest

from shmcoll.engine import layout
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory.heap import Heap, arrays_held_by
from shmcoll.engine.native import array_allocator as allocator
from shmcoll.engine.native import array_blocks as blocks
from shmcoll.engine.native import numpy_handlers
from shmcoll.runtime.array_sharing import UNIT, new_state
from tests.support.huge_pages import HUGE, huge_bytes, need_huge_pages
from tests.support.ranks import close

LIMIT = 512 * UNIT
MOST = LIMIT * 3 // 4


class Allocator:
    """The functions of the allocator of rank 0 of two ranks, as numpy calls them."""

    def __init__(self):
        self.arena = arenas.create(2, timeout=1, heap=LIMIT)
        self.heap = Heap(self.arena, 0)
        self.state = new_state(self.arena, self.heap, 0, numpy_handlers.default().allocator)
        self.at = self.state.ctypes.data
        self[blocks.KEEP] = MOST // UNIT

    def __getitem__(self, offset):
        return int(self.state[offset // WORD])

    def __setitem__(self, offset, value):
        self.state[offset // WORD] = value

    def malloc(self, length):
        return allocator.malloc(self.at, length)

    def calloc(self, count, item):
        return allocator.calloc(self.at, count, item)

    def realloc(self, address, length):
        return allocator.realloc(self.at, address, length)

    def free(self, address):
        allocator.free(self.at, address, 0)

    def is_ours(self, address):
        return bool(allocator.is_ours(self.at, address))

    def purge(self):
        blocks.purge(self.at)

    @property
    def held(self):
        return arrays_held_by(self.arena, 0)

    def word(self, offset):
        return self.arena.load(layout.directory_offset(2, 0) + offset)

    def check(self):
        """Walk over all blocks: each ends where the next begins, and no two free neighbours are of one kind."""
        unit, before, totals = 0, None, {blocks.KEPT: 0, blocks.HOLE: 0, blocks.USED: 0}
        while unit < self[blocks.TOP]:
            record = blocks.record(self.at, unit)
            span, kind = (ctypes.c_int64.from_address(record + w).value for w in (blocks.SPAN, blocks.KIND))
            last = blocks.record(self.at, unit + span - 1)
            assert ctypes.c_int64.from_address(last + blocks.FIRST).value == unit
            assert kind == blocks.USED or kind != before
            totals[kind], before = totals[kind] + span, kind
            unit += span
        assert unit == self[blocks.TOP]
        assert before != blocks.HOLE
        assert totals[blocks.KEPT] == self[blocks.KEPT_UNITS]
        assert totals[blocks.USED] == self[blocks.USED_UNITS]
        assert self.held == (totals[blocks.KEPT] + totals[blocks.USED]) * UNIT


@pytest.fixture
def made():
    allocated = Allocator()
    yield allocated
    close(allocated.arena)


def fill(address, length, value):
    ctypes.memset(address, value, length)


def holds(address, length, value):
    return ctypes.string_at(address, length) == bytes([value]) * length


def test_random_calls_keep_every_byte(made, seed):
    """The contents of all arrays, and the records, after each of many calls."""
    draw, living = random.Random(seed), {}
    for step in range(600):
        choice = draw.random()
        length = int(draw.choice([65_536, 70_000, 3 * UNIT, 20 * UNIT, 100 * UNIT]) * draw.uniform(1, 1.5))
        if living and (choice < 0.4 or len(living) > 12):
            address = draw.choice(list(living))
            old, value = living.pop(address)
            assert holds(address, old, value)
            if draw.random() < 0.3:
                moved = made.realloc(address, length)
                assert holds(moved, min(old, length), value)
                fill(moved, length, step % 256)
                living[moved] = length, step % 256
            else:
                made.free(address)
        else:
            address = made.calloc(length, 1) if choice < 0.7 else made.malloc(length)
            if choice < 0.7:
                assert holds(address, length, 0)
            fill(address, length, step % 256)
            living[address] = length, step % 256
        if draw.random() < 0.05:
            made.purge()
        if step % 10 == 0:
            made.check()
        assert made.held <= MOST
    for address, (length, value) in living.items():
        assert holds(address, length, value)
        made.free(address)
    made.check()
    made.purge()
    assert (made.held, made[blocks.TOP], made[blocks.USED_BLOCKS]) == (0, 0, 0)
    assert made.word(layout.UNFIT) > 0


def test_short_arrays_and_those_of_numpy_stay_private(made):
    private = [made.malloc(0), made.malloc(100), made.malloc(65_535), made.calloc(10, 8), made.calloc(1 << 40, 1 << 22)]
    assert not any(map(made.is_ours, private))
    assert private[-1] == 0  # longer than any address space: numpy raises MemoryError
    for address in private[:-1]:
        made.free(address)
    assert (made.held, made.word(layout.UNFIT)) == (0, 0)


def test_a_private_array_that_grows_moves_into_the_arena(made):
    address = made.malloc(100)
    fill(address, 100, 7)
    moved = made.realloc(address, 100_000)
    assert made.is_ours(moved)
    assert holds(moved, 100, 7)
    shorter = made.realloc(moved, 10)
    assert shorter == moved
    assert made[blocks.USED_UNITS] == 1
    made.free(shorter)
    nothing_before = made.realloc(0, 100_000)
    assert made.is_ours(nothing_before)


def test_neighbours_become_one_block(made):
    a, b, c, d = (made.malloc(10 * UNIT) for _ in range(4))
    for address in (b, d, c):
        made.free(address)
        made.check()
    assert made.malloc(30 * UNIT) == b
    assert made.held == 40 * UNIT
    assert a not in (b, c, d)


def test_a_rank_keeps_only_so_much(made):
    made[blocks.KEEP] = 25
    a, b, c, last = (made.malloc(10 * UNIT) for _ in range(4))
    fill(c, 10 * UNIT, 1)
    for address in (a, b, c):
        made.free(address)
    made.check()
    assert made.held == 10 * UNIT  # the three had become one block
    assert holds(c, 10 * UNIT, 0)
    made.free(last)
    assert made.calloc(10 * UNIT, 1) == last  # kept, and cleared


def test_the_limit_is_that_of_all_ranks(made):
    theirs = layout.directory_offset(2, 1)
    made.arena.store(theirs + layout.HELD, MOST // 2)
    made.arena.store(theirs + layout.ARRAYS, MOST // 4)
    assert made.is_ours(made.malloc(MOST // 4))
    before = made.held
    private = made.malloc(UNIT * 8)
    assert not made.is_ours(private)
    made.free(private)
    assert made.held == before
    assert (made.word(layout.UNFIT), made.word(layout.UNFIT_BYTES)) == (1, UNIT * 8)
    assert made.word(layout.ARRAYS_PEAK) == before


def test_kept_blocks_are_given_back_before_an_array_becomes_private(made):
    half = made.malloc(MOST // 2)
    made.free(half)
    assert made.held == MOST // 2
    assert made.is_ours(made.malloc(MOST))
    made.check()


@pytest.mark.parametrize("advice", [9_999, 0], ids=["refused", "touched"])
def test_memory_that_the_system_does_not_give(made, advice):
    """An unknown advice is an error as too little memory is one; 0 is for kernels without such advice."""
    made[blocks.COMMIT_BY] = advice
    if advice:
        address = made.calloc(10 * UNIT, 1)
        assert not made.is_ours(address)
        made.free(address)
        assert (made.held, made[blocks.TOP], made.word(layout.UNFIT)) == (0, 0, 1)
    else:
        address = made.malloc(10 * UNIT)
        assert made.is_ours(address)
        assert holds(address, 10 * UNIT, 0)
    made.check()


def test_long_arrays_are_in_huge_pages(made):
    need_huge_pages()
    address = made.malloc(MOST)
    assert made.is_ours(address)
    assert huge_bytes(address) == ((address + MOST) // HUGE - -(-address // HUGE)) * HUGE > 0
    assert holds(address, MOST, 0)
    made.free(address)
    made.purge()
    assert huge_bytes(address) == 0
    made.check()


def test_memory_that_the_system_does_not_take_back_stays(made):
    address = made.malloc(10 * UNIT)
    fill(address, 10 * UNIT, 3)
    made[blocks.MADVISE] = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value  # fails: it is not 0
    made[blocks.KEEP] = 0
    made.free(address)
    made.check()
    assert made.held == 10 * UNIT
    assert made.calloc(10 * UNIT, 1) == address
    assert holds(address, 10 * UNIT, 0)


def test_what_a_fork_may_read_is_not_used_again(made):
    before = made.malloc(10 * UNIT)
    made[blocks.FORKS] += 1
    made.free(before)
    assert made.malloc(10 * UNIT) != before
    assert (made[blocks.WITHHELD], made.held) == (10, 20 * UNIT)
    made.check()


def test_a_fork_allocates_and_frees_nothing(made):
    address = made.malloc(10 * UNIT)
    fill(address, 10 * UNIT, 5)
    ctypes.c_int64.from_address(made[blocks.ALIVE]).value = 0
    state = made.state.copy()
    private, grown = made.malloc(10 * UNIT), made.realloc(address, 20 * UNIT)
    assert not made.is_ours(private)
    assert not made.is_ours(grown)
    assert holds(grown, 10 * UNIT, 5)
    assert made.realloc(address, 5 * UNIT) == address
    for place in (private, grown, address):
        made.free(place)
    assert (made.state == state).all()
    assert holds(address, 10 * UNIT, 5)


def test_a_fork_that_python_does_not_see_is_no_rank(made):
    libc = ctypes.CDLL(None)
    pid = libc.fork()
    if pid == 0:
        libc._exit(ctypes.c_int64.from_address(made[blocks.ALIVE]).value)
    assert os.waitpid(pid, 0)[1] == 0
    assert ctypes.c_int64.from_address(made[blocks.ALIVE]).value == 1


def test_the_heap_and_the_region_have_addresses_of_their_own(made):
    first, end = (made[word] - made.arena.address for word in (blocks.BASE, blocks.END))
    assert end - first >= LIMIT
    taken = []
    with pytest.raises(arenas.ArenaError):
        while True:
            taken.append(made.heap.take(64 * UNIT, "a test"))
    assert len(taken) == LIMIT // (64 * UNIT)
    assert all(offset + 64 * UNIT <= first or offset >= end for offset in taken)
    assert not made.is_ours(made.malloc(UNIT * 8))  # the heap holds it all
    for offset in taken:
        made.heap.give(offset)
    assert made.is_ours(made.malloc(UNIT * 8))
    assert np.all(made.state >= 0)
