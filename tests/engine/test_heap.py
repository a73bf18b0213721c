"""The heap: blocks apart, given back, cleared; the limit kept by all ranks together; shared arrays upon it."""

import gc
import os
import random
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

from shmcoll.engine import layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory.heap import Heap, held_by_all, span
from shmcoll.errors import ArenaError
from tests.support.ranks import close

PAGE = layout.PAGE
LIMIT = 1 << 20


@pytest.fixture
def arena():
    made = arenas.create(2, timeout=1, heap=LIMIT)
    yield made
    close(made)


@pytest.fixture
def heap(arena):
    return Heap(arena, 0)


def blocks_on_disk(arena) -> int:
    return os.fstat(arena.fd).st_blocks * 512


def test_every_rank_has_room_for_all_that_is_allowed(arena):
    (first, length), (second, other) = span(arena, 0), span(arena, 1)
    assert first >= layout.arena_bytes(2, layout.CELL_BYTES)
    assert first + length <= second
    assert second + other <= arena.size
    assert min(length, other) >= LIMIT


def test_blocks_are_committed_cleared_and_given_back(arena, heap):
    before = blocks_on_disk(arena)
    offset = heap.take(3 * PAGE - 5, "a test")
    assert blocks_on_disk(arena) == before + 3 * PAGE
    arena.write(offset, b"x" * 3 * PAGE)
    heap.give(offset)
    assert blocks_on_disk(arena) == before
    assert held_by_all(arena) == 0
    again = heap.take(3 * PAGE, "a test")
    assert again == offset
    assert arena.read(again, 3 * PAGE) == bytes(3 * PAGE)


def test_a_spare_block_is_taken_again_as_it_is_and_does_not_count(arena, heap):
    before, other = blocks_on_disk(arena), Heap(arena, 1)
    first, second = heap.take(3 * PAGE - 5, "a test"), heap.take(3 * PAGE, "a test")
    arena.write(first, b"x" * PAGE)
    assert heap.set_aside(first)
    assert held_by_all(arena) == 3 * PAGE
    assert not heap.take_spare(PAGE, "a test")
    assert heap.take_spare(3 * PAGE, "a test") == first
    assert arena.read(first, PAGE) == b"x" * PAGE
    assert not heap.take_spare(3 * PAGE, "a test")
    assert heap.set_aside(first)
    other.take(LIMIT - 3 * PAGE, "a test")  # the limit is reached
    with pytest.raises(ArenaError, match="the heap is full"):
        heap.take_spare(3 * PAGE, "a test")
    assert not heap.take_spare(3 * PAGE, "a test")
    assert blocks_on_disk(arena) == before + LIMIT
    heap.give(second)
    assert held_by_all(arena) == LIMIT - 3 * PAGE


def test_spare_blocks_are_few_and_go_before_memory_is_short(arena, heap, monkeypatch):
    before, commit = blocks_on_disk(arena), arena.commit
    assert not heap.set_aside(heap.take(LIMIT // 16, "a test"))  # each of the two ranks may keep half of that
    spares = [heap.take(PAGE, "a test") for _ in range(3)]
    assert [heap.set_aside(spare) for spare in spares] == [True, True, False]

    def short(*arguments, **how) -> None:
        if blocks_on_disk(arena) > before + LIMIT // 16 + PAGE:
            raise ArenaError("no")
        commit(*arguments, **how)

    monkeypatch.setattr(arena, "commit", short)
    heap.take(5 * PAGE, "a test")
    assert blocks_on_disk(arena) == before + LIMIT // 16 + 6 * PAGE


def test_the_limit_is_that_of_all_ranks_and_is_told(arena, heap):
    other = Heap(arena, 1)
    other.take(LIMIT // 2, "a test")
    heap.take(LIMIT // 4, "a test")
    text = r"the heap is full: 0\.5 MiB needed for a big one, 0\.8 MiB of 1\.0 MiB in use.*--heap, SHMCOLL_HEAP"
    with pytest.raises(ArenaError, match=text):
        heap.take(LIMIT // 2, "a big one")
    assert held_by_all(arena) == LIMIT * 3 // 4
    heap.take(LIMIT // 4, "a test")


def test_no_memory_is_an_error_and_takes_nothing(arena, heap, monkeypatch):
    def full(*_arguments, **_how) -> None:
        raise ArenaError("no")

    monkeypatch.setattr(arena, "commit", full)
    with pytest.raises(ArenaError, match="no"):
        heap.take(PAGE, "a test")
    assert held_by_all(arena) == 0
    monkeypatch.undo()
    assert heap.take(PAGE, "a test") == span(arena, 0)[0]


def test_blocks_never_overlap_and_all_come_back(arena, heap, seed):
    draw = random.Random(seed)
    taken: dict[int, int] = {}
    for _ in range(2000):
        if taken and draw.random() < 0.5:
            offset = draw.choice(list(taken))
            heap.give(offset)
            del taken[offset]
        else:
            length = draw.randrange(1, 8) * PAGE
            if held_by_all(arena) + length <= LIMIT:
                taken[heap.take(length, "a test")] = length
        ends = sorted((offset, offset + length) for offset, length in taken.items())
        assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))
        assert held_by_all(arena) == sum(taken.values())
    for offset in taken:
        heap.give(offset)
    assert heap._picture().gaps == (span(arena, 0),)


def test_a_block_dropped_while_another_thread_takes_one_is_given_back_by_the_next(arena, heap):
    offset = heap.take(PAGE, "a test")
    with ThreadPoolExecutor(1) as other:
        other.submit(heap._lock.acquire).result()  # as in the midst of `take`
        heap.give(offset)
        other.submit(heap._lock.release).result()
    assert held_by_all(arena) == PAGE
    heap.take(PAGE, "a test")
    assert held_by_all(arena) == PAGE


# --- shared arrays ----------------------------------------------------------------------------------------------------


def test_shared_arrays_are_arrays(ranks, n=2):
    def use(comm) -> list:
        x = comm.full((2, 3), comm.rank + 1)
        out = comm.empty((2, 3), x.dtype)
        assert type(x) is np.ndarray
        assert x.flags.c_contiguous and x.flags.writeable
        comm.all_reduce(x, out=out)
        views = [
            comm.zeros(()).shape,
            comm.zeros(3, "int8").tolist(),
            comm.empty((0, 4)).shape,
            comm.zeros([2, 1]).shape,
        ]
        return [x.dtype, out.tolist(), *views]

    assert ranks(n, use) == [[np.dtype(np.int64), [[3] * 3] * 2, (), [0, 0, 0], (0, 4), (2, 1)]] * n


def test_memory_goes_with_the_last_view(ranks):
    def drop(comm) -> list[int]:
        held = lambda: held_by_all(comm._local_rank.arena)  # noqa: E731
        x = comm.zeros(1000)
        view = x.reshape(10, 100)[::2].T
        told = [held()]
        del x
        gc.collect()
        told.append(held())
        del view
        gc.collect()
        return [*told, held()]

    assert ranks(1, drop) == [[8192, 8192, 0]]


def test_what_a_shared_array_cannot_be(ranks):
    def refused(comm) -> list[str]:
        told = []
        for shape, dtype in (((2,), object), ((-1,), float), ("x", float)):
            with pytest.raises((TypeError, ValueError)) as error:
                comm.empty(shape, dtype)
            told.append(type(error.value).__name__)
        with pytest.raises(ArenaError, match=r"the heap is full: 2\.0 MiB needed for a shared array"):
            comm.zeros(1 << 18)
        comm.barrier()
        return told

    told = ranks(1, refused, environment={"SHMCOLL_HEAP": "1M"})
    assert told == [["TypeError", "ValueError", "TypeError"]]


def test_a_forked_child_gives_nothing_back(ranks):
    def fork(comm) -> tuple[int, list]:
        x = comm.full(1000, 7)
        pid = os.fork()
        if pid == 0:
            del x
            gc.collect()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        return held_by_all(comm._local_rank.arena), x[:2].tolist()

    assert ranks(1, fork) == [(8192, [7, 7])]


@pytest.mark.parametrize(("text", "bytes_"), [("64K", 65536), ("1.5M", 3 << 19), ("2GiB", 2 << 30), ("4096", 4096)])
def test_the_limit_is_read_from_the_environment(monkeypatch, text, bytes_):
    monkeypatch.setenv("SHMCOLL_HEAP", text)
    arena = arenas.create(1, timeout=1)
    assert arena.load(layout.JOB_HEAP) == bytes_
    close(arena)


@pytest.mark.parametrize("text", ["plenty", "-1", "0", "1X", "8000T", "9" * 400])
def test_a_limit_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("SHMCOLL_HEAP", text)
    with pytest.raises(ValueError, match=r"SHMCOLL_HEAP=.* is not an amount of memory; give one like 512M or 2G"):
        arenas.create(1, timeout=1)
