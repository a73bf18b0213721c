"""Cells are written the way that has been faster lately: see `engine/protocol/pace.py`."""

import ctypes
from collections.abc import Iterator

import pytest

from shmcoll.engine import atomics
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol.pace import (
    MOST_CHANGE,
    RETRY_WRITE,
    SAMPLE,
    TIMED_BYTES,
    UNIT,
    begin_copy,
    note_copy,
    passes_caches,
)


class Rank:
    """`atomics.hooks` of a rank whose copies take as long as the test says."""

    def __init__(self) -> None:
        self.words = (ctypes.c_int64 * c.CONTEXT_WORDS)()
        self.ctx, self.time = ctypes.addressof(self.words), 10**15

    def clock(self) -> int:
        return self.time

    def copy(self, pace: int, ns: int, length: int = UNIT, times: int = 1) -> int:
        for _ in range(times):
            begun = begin_copy(self.ctx, length)
            self.time += ns
            note_copy(self.ctx, pace, begun, length)
        return self.words[pace // WORD]


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rank]:
    made = Rank()
    monkeypatch.setattr(atomics, "hooks", made)
    yield made


def test_a_pace_follows_the_copies(rank: Rank) -> None:
    assert rank.copy(c.FETCH_PACE, 8000, 2 * UNIT) == 4000
    assert rank.copy(c.FETCH_PACE, 8000) == 5000
    assert rank.copy(c.FETCH_PACE, 10**9) == 5000 + (MOST_CHANGE - 1) * 5000 // 4
    assert 1000 <= rank.copy(c.FETCH_PACE, 1000, times=50) < 1010
    assert rank.copy(c.FETCH_PACE, 10**6, TIMED_BYTES - 1) < 1010, "short copies are not measured"


def test_a_write_that_was_faster_counts_at_once(rank: Rank) -> None:
    assert rank.copy(c.WRITE_PACE, 28_000) == 28_000
    assert rank.copy(c.WRITE_PACE, 2_000) == 2_000
    assert rank.copy(c.WRITE_PACE, 6_000) == 3_000
    assert rank.copy(c.FETCH_PACE, 8_000) == 8_000
    assert rank.copy(c.FETCH_PACE, 4_000) == 7_000


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
