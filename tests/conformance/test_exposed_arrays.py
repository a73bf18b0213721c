"""Long arrays that other ranks read where they are: every move, over private, shared and mixed arrays.

See `engine/protocol/exposure.py`. The tests look into the headers: one that never took this way would prove nothing.
"""

import itertools
from typing import Any

import numpy as np
import pytest

from tests.support import switches
from tests.support.patience import PATIENCE
from tests.support.suite import judge, run_cases
from tests.support.suites import SUITES, sample

MOVES = ("all_gather", "all_to_all", "broadcast", "gather", "scatter", "collective_permute")
MOVES_WITH_COUNTS = ("all_gather_v", "all_to_all_v", "gather_v", "scatter_v")
SMALL = switches.ALL_IN_PLACE
KINDS = ("private", "shared", "mixed")


def random_cases(comm: Any, name: str, seed: int, factor: int) -> tuple[int, list[str]]:
    return run_cases(comm, sample(name)(seed, comm.size, factor))


@pytest.mark.parametrize("name", [name for name in (*MOVES, *MOVES_WITH_COUNTS) if name in SUITES])
def test_results_are_those_of_numpy(ranks: Any, few: int, name: str, seed: int, factor: int) -> None:
    """By any rank whose array is longer than a cache line, as far as ranks can read each other."""
    told = ranks(few, random_cases, name, seed, factor, environment=SMALL, deadline=PATIENCE * factor)
    judge(told, at_least=SUITES[name].at_least)


def is_shared(kind: str, rank: int) -> bool:
    return kind == "shared" or (kind == "mixed" and rank % 2 == 0)


def make(comm: Any, kind: str, length: int) -> Any:
    return comm.empty(length, np.int64) if is_shared(kind, comm.rank) else np.empty(length, np.int64)


def every_move(comm: Any, kind: str, length: int) -> list[str]:
    """Make every move three times; return the names of those in which this rank has exposed its array."""
    n, me = comm.size, comm.rank
    found = set()
    for turn in range(3):
        values = [np.arange(length) * 10 + rank + turn * 1_000_003 for rank in range(n)]
        root = turn % n
        x, out, long = make(comm, kind, length), make(comm, kind, n * length), make(comm, kind, n * length)

        def note(name: str) -> None:
            if switches.exposed(comm):
                found.add(name)

        x[:] = values[me]
        comm.all_gather(x, out=out)
        note("all_gather")
        assert np.array_equal(out, np.concatenate(values))
        out[:], own = -1, out[me * length : (me + 1) * length]
        own[:] = x
        comm.all_gather(own, out=out)
        note("all_gather in place")
        assert np.array_equal(out, np.concatenate(values))
        long[:] = np.arange(n * length) * 100 + me
        wanted = np.concatenate([(np.arange(n * length) * 100 + r)[me * length : (me + 1) * length] for r in range(n)])
        comm.all_to_all(long, out=out)
        note("all_to_all")
        assert np.array_equal(out, wanted)
        across = comm.all_to_all(long.reshape(n, length), 0, 1)
        note("all_to_all along two axes")
        assert np.array_equal(across.reshape(n, length), wanted.reshape(n, length))
        comm.all_to_all(long, out=long)
        assert switches.exposed(comm) == 0, "in place a rank writes what its peers read"
        assert np.array_equal(long, wanted)
        comm.broadcast(x, root)
        note("broadcast")
        assert np.array_equal(x, values[root])
        assert np.array_equal(comm.broadcast(x if me == root else None, root), values[root])
        x[:] = values[me]
        gathered = comm.gather(x, root)
        note("gather")
        assert me != root or np.array_equal(gathered.reshape(-1), np.concatenate(values))
        long[:] = np.concatenate(values)
        assert np.array_equal(comm.scatter(long if me == root else None, root).reshape(-1), values[me])
        note("scatter")
        ring = [(rank, (rank + 1) % n) for rank in range(n)]
        assert np.array_equal(comm.collective_permute(x, ring), values[me - 1])
        note("collective_permute")
        comm.collective_permute(x, ring, out=x)
        assert switches.exposed(comm) == 0, "in place a rank writes what its target reads"
        assert np.array_equal(x, values[me - 1])
        x[:] = values[me]
        counts = [length - 7 * rank for rank in range(n)]
        parts = [array[:count] for array, count in zip(values, counts, strict=True)]
        assert np.array_equal(comm.all_gather_v(x[: counts[me]])[0], np.concatenate(parts))
        note("all_gather_v")
        received = comm.gather_v(x[: counts[me]], root)[0]
        note("gather_v")
        assert me != root or len(received) == sum(counts)
        mine = comm.scatter_v(*((long[: sum(counts)], root) if me == root else (None, root)), send_counts=counts)
        note("scatter_v")
        assert np.array_equal(mine, np.concatenate(values)[sum(counts[:me]) : sum(counts[: me + 1])])
        blocks = [length * (rank + me) // n for rank in range(n)]
        sent, _ = comm.all_to_all_v(np.arange(sum(blocks)) * 3 + me, blocks), note("all_to_all_v")
        wanted_parts = []
        for rank in range(n):
            theirs = [length * (other + rank) // n for other in range(n)]
            wanted_parts.append((np.arange(sum(theirs)) * 3 + rank)[sum(theirs[:me]) : sum(theirs[: me + 1])])
        assert np.array_equal(sent[0], np.concatenate(wanted_parts))
    return sorted(found)


EXPOSING = {
    "all_gather", "all_gather in place", "all_to_all", "all_to_all along two axes", "broadcast", "gather", "scatter",
    "collective_permute", "all_gather_v", "all_to_all_v", "gather_v", "scatter_v",
}  # fmt: skip


#: moves of private arrays that take this way between two ranks only, and never: see "Where it pays"
TO_ALL, NEVER = {"all_gather", "all_gather in place", "all_gather_v", "broadcast"}, {"gather", "gather_v"}


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_every_move_takes_this_way(ranks: Any, kind: str, size: int) -> None:
    """Of one round of cells and of three; each rank is a root in turn."""

    def work(comm: Any) -> list[list[str]]:
        return [every_move(comm, kind, length) for length in (9_000, 70_000)]

    private = EXPOSING - NEVER - (TO_ALL if size > 2 else set())
    for rank, names in enumerate(ranks(size, work, environment=SMALL)):
        assert set(itertools.chain(*names)) == (EXPOSING if is_shared(kind, rank) else private)


@pytest.mark.parametrize("distance", [0, 1, 16, 31, 32, 4095])
def test_reads_at_every_distance(ranks: Any, distance: int) -> None:
    """From the source to the target, modulo a page. Where the kernel is slow, they go in pieces."""

    def at(offset: int, length: int) -> np.ndarray:
        memory = np.empty(4096 + offset + length, np.uint8)
        begin = -memory.ctypes.data % 4096 + offset
        return memory[begin : begin + length]

    def work(comm: Any) -> None:
        ring = [(0, 1), (1, 0)]
        for length in (1, 4_000, 61_440, 61_441, 200_001):
            x, out = at(100, length), at(100 + distance, length)
            x[:] = np.arange(length) % 251 + comm.rank
            for _ in range(2):
                out[:] = 255
                comm.collective_permute(x, ring, out=out)
                assert np.array_equal(out, np.arange(length) % 251 + 1 - comm.rank)
        assert switches.exposed(comm)

    ranks(2, work, environment=SMALL)


def test_short_arrays_go_through_the_cells(ranks: Any) -> None:
    def work(comm: Any) -> list[int]:
        found = []
        for length in (100, 60_000):  # of 8 bytes: below both thresholds, below that of private arrays
            for _ in range(3):
                comm.all_gather(np.ones(length), out=np.empty(2 * length))
                found.append(switches.exposed(comm) if length > 2_000 else 0)
        return found

    assert ranks(2, work) == [[0] * 6] * 2


def test_a_rank_that_cannot_be_read_uses_the_cells(ranks: Any) -> None:
    """A witness that differs is that of another process: in another pid namespace the pid is its pid."""

    def work(comm: Any) -> tuple[bool | None, int, bool]:
        if comm.rank == 1:
            switches.refuse_reads(comm)
        comm.barrier()
        x = np.arange(100_000) + comm.rank
        for _ in range(3):
            result = comm.all_gather(x, out=np.empty(2 * len(x), x.dtype))
        right = np.array_equal(result, np.concatenate([np.arange(100_000), np.arange(100_000) + 1]))
        return switches.can_read_others(comm), switches.exposed(comm), right

    assert ranks(2, work, environment=SMALL) == [(False, 0, True)] * 2


def test_ranks_can_read_each_other(ranks: Any) -> None:
    """Where this is refused, no test of private arrays in this file tries what it says."""

    def work(comm: Any) -> bool | None:
        for _ in range(3):
            comm.all_gather(np.ones(100_000))
        return switches.can_read_others(comm)

    assert ranks(2, work, environment=SMALL) == [True] * 2


def test_results_that_overlap_what_another_rank_exposes(ranks: Any) -> None:
    """It is refused on all ranks, before a byte moves, and the group goes on."""

    def work(comm: Any) -> tuple[str, bool]:
        mine = comm.full(30_000, comm.rank)
        views = comm.views(mine)
        with pytest.raises(ValueError, match="overlaps") as told:
            comm.all_gather(mine[:10_000], out=views[0][5_000:25_000] if comm.rank else np.empty(20_000, mine.dtype))
        comm.barrier()
        return str(told.value), bool((mine == comm.rank).all())

    for text, unchanged in ranks(2, work):
        assert text.startswith("all_gather #")
        assert text.endswith(": out of rank 1 overlaps x of rank 0; give an out of its own")
        assert unchanged
