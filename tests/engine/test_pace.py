"""Cells are written the way that has been faster lately: see `engine/protocol/pace.py`."""

import ctypes
from collections.abc import Iterator

import pytest

from shmcoll.engine import atomics
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol.pace import (
    FIRST_PACE,
    MOST_CHANGE,
    RETRY_WRITE,
    SAMPLE,
    SAMPLE_CROWDED,
    STEPS_CROWDED,
    TIMED_BYTES,
    UNIT,
    begin_copy,
    is_one_in,
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
    measured = 0
    for writes in range(100 * SAMPLE):
        rank.words[c.WRITES // WORD] = writes
        measured += begin_copy(rank.ctx, TIMED_BYTES) > 0
        assert begin_copy(rank.ctx, TIMED_BYTES - 1) == 0
        assert begin_copy(rank.ctx, UNIT) > 0
    assert 90 <= measured <= 110


@pytest.mark.parametrize("interval", [SAMPLE, SAMPLE_CROWDED, RETRY_WRITE])
def test_each_reader_of_a_call_is_measured(interval: int) -> None:
    for readers in range(1, 33):
        due = [writes for writes in range(30 * interval * readers) if is_one_in(interval, writes)]
        assert {writes % readers for writes in due} == set(range(readers)), readers


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
    ways = writes(rank, 2 * RETRY_WRITE)
    assert 1 <= ways.count(not faster) <= 3


# --- with more ranks than cores ---------------------------------------------------------------------------------------


@pytest.fixture
def crowded(rank: Rank) -> Rank:
    """A rank as `runtime/dispatcher.py` begins with it, if ranks outnumber cores."""
    rank.words[c.WRITES // WORD], rank.words[c.CROWDED // WORD] = 1, 1
    rank.words[c.WRITE_PACE // WORD] = FIRST_PACE
    return rank


def call(rank: Rank, near: int, far: int, passing: int) -> list[bool]:
    """A call of eight ranks: three readers are near, which is on the core of the writer, and four are far. Return
    whether each write passed the caches. near, far: how long a plain write takes, in ns for 64 KiB."""
    ways = []
    for plain in (near, near, near, far, far, far, far):
        passes = passes_caches(rank.ctx)
        pace = c.PASS_PACE if passes else c.WRITE_PACE
        rank.copy(pace, passing if passes else plain)
        ways.append(passes)
    rank.copy(c.FETCH_PACE, 1500)
    return ways


def calls(rank: Rank, count: int, near: int, far: int) -> float:
    """Return which part of the writes of so many calls passed the caches."""
    ways = [way for _ in range(count) for way in call(rank, near, far, 2500)]
    return sum(ways) / len(ways)


def test_readers_on_the_same_core_do_not_hide_that_the_others_are_far(crowded: Rank) -> None:
    assert calls(crowded, 2000, 1500, 7000) < 0.01, "a minute in which lines pass quickly"
    calls(crowded, 200, 1500, 28_000)
    assert calls(crowded, 2000, 1500, 28_000) > 0.95
    calls(crowded, 4000, 1500, 7000)
    assert calls(crowded, 2000, 1500, 7000) < 0.01


def test_long_copies_are_not_all_measured_if_ranks_outnumber_cores(crowded: Rank) -> None:
    crowded.words[c.WRITES // WORD] = 1
    assert begin_copy(crowded.ctx, 16 * UNIT) == 0
    crowded.words[c.WRITES // WORD] = 0
    assert begin_copy(crowded.ctx, TIMED_BYTES) > 0


def test_a_mean_follows_slowly_in_both_directions(crowded: Rank) -> None:
    crowded.words[c.WRITES // WORD] = 0  # the next copy is measured
    assert crowded.copy(c.WRITE_PACE, 4200) == FIRST_PACE + (MOST_CHANGE - 1) * FIRST_PACE // STEPS_CROWDED + 1
    crowded.words[c.WRITE_PACE // WORD] = 6400
    assert crowded.copy(c.WRITE_PACE, 3200) == 6300
    assert crowded.copy(c.FETCH_PACE, 3200) == 3200
    assert crowded.copy(c.FETCH_PACE, 0) == 3100
    assert crowded.copy(c.PASS_PACE, 3200) == 3200
    assert crowded.copy(c.PASS_PACE, 1600) == 1600, "no reader makes a copy past the caches faster than it is"


def test_a_copy_that_was_interrupted_changes_nothing(crowded: Rank) -> None:
    calls(crowded, 100, 1500, 7000)
    for _ in range(5):
        note_copy(crowded.ctx, c.WRITE_PACE, crowded.time - 4_000_000, UNIT)
        assert calls(crowded, 20, 1500, 7000) < 0.02


@pytest.mark.parametrize(
    ("plain", "fetching", "faster"),
    [
        (9000, 3500, False),
        (9001, 3500, True),
        (7500, 0, False),  # a root that reads no cells
        (7501, 0, True),
    ],
)
def test_plain_writes_must_take_clearly_longer_if_readers_are_near(
    crowded: Rank, plain: int, fetching: int, faster: bool
) -> None:
    for pace, ns in ((c.WRITE_PACE, plain), (c.PASS_PACE, 2500), (c.FETCH_PACE, fetching)):
        crowded.words[pace // WORD] = ns
    assert writes(crowded, 100) == [faster] * 100
