"""Exchanges of a middle length, and writes into cells, go the way that has been faster lately: see
`engine/protocol/pace.py`."""

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from shmcoll.engine import atomics, layout
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory.thresholds import Thresholds
from shmcoll.engine.protocol.pace import (
    FIRST_RETRY,
    MOST_CHANGE,
    RANGE,
    RETRY,
    RETRY_WRITE,
    SAMPLE,
    TIMED_BYTES,
    UNIT,
    begin_copy,
    limit_by_pace,
    note_copy,
    passes_caches,
)
from shmcoll.engine.protocol.ways import NEVER
from shmcoll.engine.system.cores import usable_cores

LIMIT, SHARE = 1 << 20, 1 << 18


class Rank:
    """`atomics.hooks` of a rank whose copies take as long as the test says."""

    def __init__(self) -> None:
        self.words = (ctypes.c_int64 * c.CONTEXT_WORDS)()
        self.words[c.PACED_BYTES // WORD] = LIMIT // 32
        self.ctx, self.time = ctypes.addressof(self.words), 10**15

    def clock(self) -> int:
        return self.time

    def copy(self, pace: int, ns: int, length: int = UNIT, times: int = 1) -> int:
        for _ in range(times):
            begun = begin_copy(self.ctx, length)
            self.time += ns
            note_copy(self.ctx, pace, begun, length)
        return self.words[pace // WORD]

    def ways(self, calls: int, share: int = SHARE, limit: int = LIMIT) -> list[bool]:
        """Whether each of so many calls takes one copy."""
        return [share >= limit_by_pace(self.ctx, share, limit) for _ in range(calls)]


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rank]:
    made = Rank()
    monkeypatch.setattr(atomics, "hooks", made)
    yield made


def test_a_rank_that_has_measured_nothing_uses_the_cells_and_tries_the_other_way(rank: Rank) -> None:
    assert [i for i, way in enumerate(rank.ways(2 * RETRY), 1) if way] == [FIRST_RETRY, RETRY + FIRST_RETRY]


@pytest.mark.parametrize(("cell", "read", "one_copy"), [(1000, 1499, True), (1000, 1500, False), (3000, 2000, True)])
def test_one_copy_must_clearly_take_less_than_two(rank: Rank, cell: int, read: int, one_copy: bool) -> None:
    rank.copy(c.WRITE_PACE, cell + 1)
    rank.copy(c.FETCH_PACE, cell - 1)
    rank.copy(c.READ_PACE, read)
    tried = [i for i, way in enumerate(rank.ways(RETRY), 1) if way != one_copy]
    assert tried == [FIRST_RETRY]


def test_the_choice_is_free_between_two_lengths(rank: Rank) -> None:
    rank.copy(c.WRITE_PACE, 1000)
    rank.copy(c.FETCH_PACE, 1000)
    rank.copy(c.READ_PACE, 1)
    assert rank.ways(1, LIMIT // 32) == [True]
    assert rank.ways(1, LIMIT // 32 - 1) == [False]
    rank.copy(c.READ_PACE, 10**6, times=100)
    assert rank.ways(1, LIMIT - 1) == [False]
    assert rank.ways(2 * RETRY, LIMIT) == [True] * 2 * RETRY
    rank.words[c.PACED_BYTES // WORD] = NEVER
    rank.copy(c.READ_PACE, 1, times=100)
    assert rank.ways(2 * RETRY, LIMIT - 1) == [False] * 2 * RETRY


def test_a_pace_follows_the_copies(rank: Rank) -> None:
    assert rank.copy(c.READ_PACE, 8000, 2 * UNIT) == 4000
    assert rank.copy(c.READ_PACE, 8000) == 5000
    assert rank.copy(c.READ_PACE, 10**9) == 5000 + (MOST_CHANGE - 1) * 5000 // 4
    assert rank.copy(c.FETCH_PACE, 1) == 1
    assert rank.copy(c.FETCH_PACE, 10, times=5) > 1
    assert 1000 <= rank.copy(c.READ_PACE, 1000, times=50) < 1010
    assert rank.copy(c.READ_PACE, 10**6, TIMED_BYTES - 1) < 1010, "short copies are not measured"


def test_a_rank_that_reads_notices_that_cells_have_become_faster(rank: Rank) -> None:
    rank.copy(c.WRITE_PACE, 9000)
    rank.copy(c.FETCH_PACE, 9000)
    rank.copy(c.READ_PACE, 4000)
    calls = 0
    while rank.ways(1) == [True] or calls % RETRY == FIRST_RETRY - 1:
        calls += 1
        assert calls < 10 * RETRY
        if calls % RETRY == FIRST_RETRY:
            rank.copy(c.WRITE_PACE, 1000)  # where the other way was tried
            rank.copy(c.FETCH_PACE, 1000)


def test_a_write_that_was_faster_counts_at_once(rank: Rank) -> None:
    assert rank.copy(c.WRITE_PACE, 28_000) == 28_000
    assert rank.copy(c.WRITE_PACE, 2_000) == 2_000
    assert rank.copy(c.WRITE_PACE, 6_000) == 3_000
    assert rank.copy(c.READ_PACE, 8_000) == 8_000
    assert rank.copy(c.READ_PACE, 4_000) == 7_000


def test_some_of_the_shorter_copies_are_measured(rank: Rank) -> None:
    measured = []
    for writes in range(2 * SAMPLE):
        rank.words[c.WRITES // WORD] = writes
        measured.append(begin_copy(rank.ctx, TIMED_BYTES) > 0)
        assert begin_copy(rank.ctx, TIMED_BYTES - 1) == 0
        assert begin_copy(rank.ctx, UNIT) > 0
    assert measured == [True, *[False] * (SAMPLE - 1)] * 2


def writes(rank: Rank, count: int) -> list[bool]:
    """Whether each of so many writes passes the caches."""
    return [passes_caches(rank.ctx) for _ in range(count)]


def test_a_rank_that_has_not_written_tries_both_ways(rank: Rank) -> None:
    assert writes(rank, 3) == [False] * 3
    rank.copy(c.WRITE_PACE, 2000)
    assert writes(rank, 3) == [True] * 3
    rank.copy(c.PASS_PACE, 2000)
    assert writes(rank, 3) == [False] * 3


@pytest.mark.parametrize(
    ("plain", "passing", "fetching", "faster"),
    [
        (28_000, 2_500, 4_000, True),  # cores that share no cache
        (1_700, 2_500, 2_000, False),  # cores that do
        (6_500, 2_500, 4_000, False),
        (6_501, 2_500, 4_000, True),
        (5_000, 2_500, 0, False),  # a root that reads no cells
        (5_001, 2_500, 0, True),
    ],
)
def test_writes_pass_the_caches_if_that_pays_for_the_reader_too(
    rank: Rank, plain: int, passing: int, fetching: int, faster: bool
) -> None:
    for pace, ns in ((c.WRITE_PACE, plain), (c.PASS_PACE, passing), (c.FETCH_PACE, fetching)):
        rank.words[pace // WORD] = ns
    assert writes(rank, 2 * RETRY_WRITE) == [*[faster] * (RETRY_WRITE - 1), not faster] * 2


def test_nothing_passes_the_caches_if_ranks_outnumber_cores(rank: Rank) -> None:
    for pace, ns in ((c.WRITES, -1), (c.WRITE_PACE, 10**9), (c.PASS_PACE, 1), (c.FETCH_PACE, 1)):
        rank.words[pace // WORD] = ns
    assert writes(rank, 2 * RETRY_WRITE) == [False] * 2 * RETRY_WRITE
    assert rank.words[c.WRITES // WORD] == -1


def has_exposed(comm: Any) -> bool:
    """Whether this rank has exposed its array in its last call."""
    group, sequence = comm._dispatcher.group, int(comm._dispatcher.words[c.SEQUENCE // WORD])
    header = group.mailbox(comm.rank) + (sequence & 1) * layout.HEADER_BYTES
    return group.arena.load(header + layout.HEADER_EXPOSED) != 0


EXCHANGES = ("all_to_all", "collective_permute", "all_to_all_v", "all_gather")


@pytest.mark.skipif(usable_cores() < 2, reason="with more ranks than cores, times say nothing, and thresholds hold")
@pytest.mark.parametrize("name", EXCHANGES)
def test_calls_go_the_faster_way_and_measure_it(ranks: Any, name: str) -> None:
    """Results are the same both ways, and where two ranks go different ways."""

    def work(comm: Any) -> list[bool]:
        words, me, n = comm._dispatcher.words, comm.rank, 40_000
        x = np.arange(2 * n) + me * 1_000_000
        calls = {
            "all_to_all": lambda: comm.all_to_all(x),
            "collective_permute": lambda: comm.collective_permute(x, [(0, 1), (1, 0)]),
            "all_to_all_v": lambda: comm.all_to_all_v(x, [n, n])[0],
            "all_gather": lambda: comm.all_gather(x),
        }
        peer = np.arange(2 * n) + (1 - me) * 1_000_000
        both = [x, peer] if me == 0 else [peer, x]
        half = slice(me * n, (me + 1) * n)
        blocks = np.concatenate([both[0][half], both[1][half]])
        wanted = {"all_to_all_v": blocks, "all_to_all": blocks, "collective_permute": peer}
        wanted["all_gather"] = np.concatenate(both)

        def exposes(cell: int, read: int, turn: int = 0) -> bool:
            words[c.WRITE_PACE // WORD] = words[c.FETCH_PACE // WORD] = cell
            words[c.READ_PACE // WORD] = read
            words[c.PACED_CALLS // WORD] = turn
            assert np.array_equal(calls[name](), wanted[name])
            return has_exposed(comm)

        for _ in range(3):
            exposes(10**12, 1)  # until the ranks know that they can read each other
        told = [
            exposes(10**12, 1),
            exposes(1, 10**12),
            exposes(1, 10**12, FIRST_RETRY - 1),
            exposes(10**12, 1, FIRST_RETRY - 1),
        ]
        told.append(exposes(10**12, 1) if me else exposes(1, 10**12))
        exposes(0, 0)
        assert words[c.WRITE_PACE // WORD] > 0
        assert words[c.FETCH_PACE // WORD] > 0
        exposes(0, 0, FIRST_RETRY - 1)
        assert words[c.READ_PACE // WORD] > 0
        return told

    told = ranks(2, work)
    assert told == [[True, False, True, False, False], [True, False, True, False, True]]


def test_thresholds_of_measurements_are_exact(ranks: Any) -> None:
    def work(comm: Any) -> tuple[int, int]:
        dispatcher = comm._dispatcher
        before = int(dispatcher.words[c.PACED_BYTES // WORD])
        dispatcher.choose_by(Thresholds())
        return before, int(dispatcher.words[c.PACED_BYTES // WORD])

    told = ranks(2, work, environment={"SHMCOLL_EXCHANGE_BYTES": "4M"})
    assert told == [((4 << 20) // RANGE if usable_cores() > 1 else NEVER, NEVER)] * 2


def test_thresholds_of_a_terabyte_keep_all_arrays_in_the_cells(ranks: Any) -> None:
    """As the error advises where the memory of a rank cannot be read any more."""

    def work(comm: Any) -> list[bool]:
        words, x, found = comm._dispatcher.words, np.zeros(1 << 20), []
        for _ in range(3):
            for call in (
                lambda: comm.all_to_all(x),
                lambda: comm.collective_permute(x, [(0, 1), (1, 0)]),
                lambda: comm.all_gather(x),
                lambda: comm.scatter(x if comm.rank == 0 else None, 0),
            ):
                words[c.WRITE_PACE // WORD], words[c.READ_PACE // WORD] = 10**12, 1
                call()
                found.append(has_exposed(comm))
        return found

    environment = {"SHMCOLL_DIRECT_BYTES": "1T", "SHMCOLL_EXCHANGE_BYTES": "1T"}
    assert ranks(2, work, environment=environment) == [[False] * 12] * 2
