"""Long copies go the way that has been faster in trials: see `engine/protocol/choices.py`."""

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from shmcoll.engine import atomics
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory.thresholds import Thresholds
from shmcoll.engine.protocol import block_mover
from shmcoll.engine.protocol.choices import (
    ALL_WORDS,
    BEFORE,
    CALLS,
    CHOICE_BYTES,
    FIRST_TRIAL,
    INTERVAL,
    KINDS,
    LATER,
    LEAST,
    LEAST_COPY,
    LED,
    LENGTHS,
    LESS,
    LONG,
    LONG_MOVES,
    LONG_READS,
    LONG_TRIES,
    MORE,
    MOST_INTERVALS,
    MOVES,
    NEAR_READS,
    PACES,
    RESULTS,
    TRIAL,
    TRIES,
    WAY,
    begin_way,
    choice_of,
    new_words,
    note_way,
    way_of,
)
from shmcoll.engine.protocol.count_checks import ANYONE
from shmcoll.engine.protocol.pace import UNIT
from shmcoll.engine.protocol.ways import ALL_TO_ALL, EXCHANGE, FROM_ROOT, NEVER, RANGE, TO_ALL, TO_ROOT
from shmcoll.engine.system.cores import usable_cores
from tests.support.switches import exposed

WINDOW = 2 << 20


class Rank:
    """`atomics.hooks` of a rank whose copies take as long as the test says."""

    def __init__(self) -> None:
        self.words = (ctypes.c_int64 * c.CONTEXT_WORDS)()
        self.choices = (ctypes.c_int64 * ALL_WORDS)(*new_words(WINDOW))
        self.words[c.CHOICES // WORD] = ctypes.addressof(self.choices) - ctypes.addressof(self.words)
        self.ctx, self.time, self.clocks = ctypes.addressof(self.words), 10**15, 0

    def clock(self) -> int:
        self.clocks += 1
        return self.time

    def call(
        self, usual: int, times: tuple[int, int], length: int = LEAST_COPY, kind: int = RESULTS, copies: int = 3
    ) -> int:
        """Make a call of some copies of 64 KiB, each of which takes so many ns on way 0 and on way 1."""
        self.words[c.SEQUENCE // WORD] += 1
        ways = set()
        for _ in range(copies):
            choice = choice_of(self.ctx, kind, length)
            ways.add(way := way_of(self.ctx, choice, usual))
            begin_way(self.ctx, choice)
            self.time += times[way]
            note_way(self.ctx, choice, UNIT)
        assert len(ways) == 1
        return way

    def calls(self, count: int, usual: int, *times: int, length: int = LEAST_COPY, kind: int = RESULTS) -> list[int]:
        return [self.call(usual, times, length, kind) for _ in range(count)]


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rank]:
    made = Rank()
    monkeypatch.setattr(atomics, "hooks", made)
    yield made


FIRST = FIRST_TRIAL - 1


@pytest.mark.parametrize("usual", [0, 1])
@pytest.mark.parametrize(
    ("expected", "other", "wins"),
    [(1000, 500, True), (1000, 1000 * MORE // LESS, False), (1000, 1000 * MORE // LESS - 1, True), (500, 1000, False)],
)
def test_a_way_that_is_not_usual_must_clearly_be_faster(
    rank: Rank, usual: int, expected: int, other: int, wins: bool
) -> None:
    times = (expected, other) if usual == 0 else (other, expected)
    best = 1 - usual if wins else usual
    assert rank.calls(FIRST + TRIES, usual, *times) == [usual] * FIRST + [1 - usual] * TRIES
    assert rank.calls(20, usual, *times) == [best] * 20


@pytest.mark.parametrize(("slower", "times"), [(1500, 1), (3000, 3), (10**6, MOST_INTERVALS)])
def test_trials_are_the_rarer_the_more_they_lose(rank: Rank, slower: int, times: int) -> None:
    rank.calls(FIRST + TRIES, 0, 1000, slower)
    between = times * INTERVAL - TRIES
    assert rank.calls(between, 0, 1000, slower) == [0] * between
    assert rank.calls(TRIES + 1, 0, 1000, slower) == [1] * TRIES + [0]


def test_a_trial_notices_that_the_other_way_has_become_faster(rank: Rank) -> None:
    assert rank.calls(FIRST + TRIES + 1, 0, 1000, 500)[-1] == 1
    rank.calls(2 * INTERVAL - TRIES - 1, 0, 1000, 500)
    assert rank.calls(1, 0, 1000, 500) == [0], "the trial"
    rank.calls(2 * INTERVAL + 2 * TRIES, 0, 1000, 1200)
    assert rank.calls(50, 0, 1000, 1200) == [0] * 50


def test_copies_that_were_interrupted_and_the_first_after_a_change_do_not_count(rank: Rank) -> None:
    fast = {2, FIRST + TRIES - 1}
    for i in range(FIRST + TRIES):
        rank.call(0, (1000, 800) if i in fast else (10**6, 10**6))
    assert rank.calls(5, 0, 1000, 800) == [1] * 5


@pytest.mark.parametrize(("kind", "tries"), [(RESULTS, LONG_TRIES), (LONG_READS, LONG_TRIES), (MOVES, LONG_MOVES)])
def test_a_trial_of_a_long_copy_takes_one_call_and_one_of_a_long_move_two(rank: Rank, kind: int, tries: int) -> None:
    first = FIRST + {RESULTS: 0, MOVES: LATER, LONG_READS: 2 * LATER}[kind]
    assert rank.calls(first + tries, 0, 1000, 2000, length=LONG, kind=kind) == [0] * first + [1] * tries
    assert rank.calls(20, 0, 1000, 2000, length=LONG, kind=kind) == [0] * 20


@pytest.mark.parametrize("kind", [RESULTS, LONG_READS, MOVES])
def test_a_faster_way_of_a_long_array_wins_in_its_trial(rank: Rank, kind: int) -> None:
    rank.calls(100, 0, 1000, 800, length=LONG, kind=kind)
    assert rank.calls(20, 0, 1000, 800, length=LONG, kind=kind) == [1] * 20


def test_a_long_call_that_was_interrupted_in_a_trial_leaves_the_usual_way(rank: Rank) -> None:
    for i in range(FIRST + LONG_TRIES):
        rank.call(0, (1000, 10**6 if i == FIRST else 800), LONG)
    assert rank.calls(20, 0, 1000, 800, length=LONG) == [0] * 20


def test_a_rank_that_is_led_takes_the_way_of_its_leader_and_tries_nothing(rank: Rank) -> None:
    choice = choice_of(rank.ctx, MOVES, LEAST_COPY)
    led = choice + LED
    ways = []
    for way in [0, 1, 1, 0] * INTERVAL:
        atomics.poke(rank.ctx + led, 1 + way)
        ways.append(rank.call(0, (1000, 500), kind=MOVES) == way)
    assert all(ways)
    assert rank.clocks == 0
    atomics.poke(rank.ctx + led, 0)
    assert rank.calls(100, 0, 1000, 500, kind=MOVES)[-1] == 1, "nobody leads any more, so it tries both"


def test_trials_of_one_length_do_not_meet_and_ten_calls_see_one_of_them(rank: Rank) -> None:
    for length in (1 << 20, 4 << 20, LONG, 8 * LONG):
        rank.choices[:] = new_words(WINDOW)
        ways = [[rank.call(0, (1000, 2000), length, kind) for kind in (RESULTS, MOVES, LONG_READS)] for _ in range(40)]
        assert all(sum(way) <= 1 for way in ways)
        assert [sum(way[1:]) for way in ways[:10]] == [0] * 10
        assert all(sum(way) > 0 for way in zip(*ways, strict=True))


def test_only_calls_of_a_trial_and_before_it_look_at_the_clock(rank: Rank) -> None:
    rank.calls(FIRST + TRIES, 0, 1000, 1500)
    assert rank.clocks == (1 + 3) * (BEFORE + TRIES - 1)
    rank.calls(INTERVAL - BEFORE - TRIES, 0, 1000, 1500)
    assert rank.clocks == (1 + 3) * (BEFORE + TRIES - 1)


KINDS_AND_LEAST = [(RESULTS, LEAST_COPY), (LONG_READS, LEAST_COPY)] + [(i, LEAST) for i in range(NEAR_READS, KINDS)]


def test_each_length_and_kind_has_words_of_its_own(rank: Rank) -> None:
    first_word, found = rank.words[c.CHOICES // WORD], []
    for kind, least in KINDS_AND_LEAST:
        own = first_word + kind * LENGTHS * CHOICE_BYTES
        last = own + (LENGTHS - 1) * CHOICE_BYTES
        assert choice_of(rank.ctx, kind, least - 1) == 0
        places = [choice_of(rank.ctx, kind, LEAST << i) for i in range(LENGTHS + 3)]
        wanted = [min(own + i * CHOICE_BYTES, last) if LEAST << i >= least else 0 for i in range(LENGTHS + 3)]
        assert places == wanted
        assert [choice_of(rank.ctx, kind, (LEAST << (i + 1)) - 1) for i in range(4, LENGTHS)] == wanted[4:LENGTHS]
        found += places
        for i, place in enumerate(places[:LENGTHS]):
            first = rank.choices[(place - first_word + TRIAL) // WORD] if place else 0
            after_all_cells = FIRST_TRIAL + LATER + 2 * WINDOW // (LEAST << i)
            of_copies = FIRST_TRIAL if kind == RESULTS else FIRST_TRIAL + 2 * LATER
            assert place == 0 or first == (after_all_cells if kind >= MOVES else of_copies)
    assert KINDS * LENGTHS * CHOICE_BYTES == WORD * ALL_WORDS
    assert len({place for place in found if place}) == sum(
        LENGTHS - 4 * (least > LEAST) for _, least in KINDS_AND_LEAST
    )


def test_an_exchange_is_tried_when_the_trials_of_its_copies_have_ended(rank: Rank) -> None:
    ways = [(rank.call(0, (1000, 2000)), rank.call(0, (1000, 2000), kind=MOVES)) for _ in range(600)]
    assert (1, 1) not in ways
    assert [sum(way) for way in zip(*ways, strict=True)] == [2 * TRIES] * 2


def test_without_words_the_usual_way_is_taken(rank: Rank) -> None:
    rank.words[c.CHOICES // WORD] = 0
    for usual in (0, 1):
        assert rank.calls(20, usual, *((1, 10**6)[:: 1 - 2 * usual])) == [usual] * 20
    assert rank.clocks == 0


@pytest.mark.parametrize("passes", [0, 1])
def test_results_are_the_same_on_both_ways(ranks: Any, passes: int) -> None:
    """Whole arrays and parts of them, at addresses of every kind, through cells and in one copy."""

    def work(comm: Any) -> int:
        dispatcher, me = comm._dispatcher, comm.rank
        words, known = dispatcher.words, dispatcher._choices
        dispatcher.choose_by(Thresholds(exchange_bytes=256 << 10))
        words[c.CHOICES // WORD] = known.ctypes.data - words.ctypes.data
        turns = 0
        for n in (300_000, 1_000_003):
            for begin in (0, 1, 13):
                both = [np.arange(begin + 2 * n, dtype=np.int32)[begin:] * (r + 1) for r in range(2)]
                out = np.empty(begin + 4 * n, np.int32)[begin:]
                for _ in range(3):
                    known[:] = new_words(int(words[c.WINDOW_BYTES // WORD]))
                    known[WAY // WORD :: CHOICE_BYTES // WORD] = passes
                    known[1 :: CHOICE_BYTES // WORD] = 10**6  # calls so far: the next trial is far away
                    known[2 :: CHOICE_BYTES // WORD] = 10**9
                    x, half = both[me], slice(me * n, (me + 1) * n)
                    assert np.array_equal(comm.all_gather(x, out=out), np.concatenate(both))
                    wanted = np.concatenate([both[0][half], both[1][half]])
                    assert np.array_equal(comm.all_to_all(x, out=out[: 2 * n]), wanted)
                    assert np.array_equal(comm.all_to_all_v(x, [n, n], out=out[: 2 * n])[0], wanted)
                    got = comm.gather(x, 0, out=out if me == 0 else None)
                    assert me or np.array_equal(got, np.concatenate(both))
                    turns += 1
        return turns

    assert ranks(2, work) == [18] * 2


@pytest.mark.parametrize("number", [2, 64])
def test_nothing_is_chosen_with_more_ranks_than_cores(ranks: Any, number: int) -> None:
    def work(comm: Any) -> bool:
        return bool(comm._dispatcher.words[c.CHOICES // WORD])

    assert ranks(number, work) == [number <= usable_cores()] * number


#: their ways, and which ranks send
CALLS_BY_TRIALS = {
    "all_to_all": (EXCHANGE, (0, 1)),
    "collective_permute": (EXCHANGE, (0, 1)),
    "all_to_all_v": (EXCHANGE, (0, 1)),
    "all_gather": (ALL_TO_ALL, (0, 1)),
    "broadcast": (TO_ALL, (0,)),
    "scatter": (FROM_ROOT, (0,)),
    "gather": (TO_ROOT, (1,)),
}


def test_a_root_that_reads_what_is_exposed_has_copied_its_block_before_its_senders_leave(
    rank: Rank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They choose the way of a gather by how long that takes."""
    done: list[str] = []
    stand_ins: dict[str, Callable[..., object]] = {
        "results_are_apart": lambda ctx: True,
        "exposed": lambda ctx, rank: 0,
        "survey": lambda ctx, turn, exposes: (1, True),
        "copy_own": lambda ctx, begin, end: done.append("copies its own block") if begin < end else None,
        "read_source": lambda *_: done.append("reads") or c.OK,  # type: ignore[func-returns-value]
        "has_ended": lambda ctx: False,
        "publish_step": lambda ctx, turn, k: done.append("lets the senders go"),
        "await_readers": lambda *_: c.OK,
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(block_mover, name, stand_in)
    for word, value in ((c.SIZE, 2), (c.READS_FROM, ANYONE), (c.SENDS_TO, 0), (c.OWN_BYTES, LONG), (c.PART, 1 << 18)):
        rank.words[word // WORD] = value
    assert block_mover.move_all(rank.ctx, 1) == c.OK
    assert done == ["copies its own block", "reads", "lets the senders go"]


@pytest.mark.skipif(usable_cores() < 2, reason="with more ranks than cores, times say nothing, and thresholds hold")
@pytest.mark.parametrize("name", CALLS_BY_TRIALS)
def test_calls_go_the_faster_way_and_measure_it(ranks: Any, name: str) -> None:
    """Results are the same both ways, and where two ranks go different ways."""

    way, senders = CALLS_BY_TRIALS[name]

    def work(comm: Any) -> list[bool]:
        words, me, n = comm._dispatcher.words, comm.rank, 40_000
        x = np.arange(2 * n) + me * 1_000_000
        calls = {
            "all_to_all": lambda: comm.all_to_all(x),
            "collective_permute": lambda: comm.collective_permute(x, [(0, 1), (1, 0)]),
            "all_to_all_v": lambda: comm.all_to_all_v(x, [n, n])[0],
            "all_gather": lambda: comm.all_gather(x),
            "broadcast": lambda: comm.broadcast(x if me == 0 else np.zeros_like(x), 0),
            "scatter": lambda: comm.scatter(x if me == 0 else None, 0),
            "gather": lambda: comm.gather(x, 0),
        }
        peer = np.arange(2 * n) + (1 - me) * 1_000_000
        both = [x, peer] if me == 0 else [peer, x]
        half = slice(me * n, (me + 1) * n)
        blocks = np.concatenate([both[0][half], both[1][half]])
        wanted = {"all_to_all_v": blocks, "all_to_all": blocks, "collective_permute": peer}
        wanted |= {"all_gather": np.concatenate(both), "broadcast": both[0], "scatter": both[0][half]}
        wanted["gather"] = np.concatenate(both) if me == 0 else None

        def exposes(one_copy: bool) -> bool:
            known[known_ways] = one_copy
            known[TRIAL // WORD :: CHOICE_BYTES // WORD] = 10**9
            known[CALLS // WORD :: CHOICE_BYTES // WORD] = 10**6
            known[LED // WORD :: CHOICE_BYTES // WORD] = 0
            assert np.array_equal(calls[name](), wanted[name])
            return exposed(comm) != 0

        known = comm._dispatcher._choices
        known_ways = np.arange(MOVES * LENGTHS, KINDS * LENGTHS) * (CHOICE_BYTES // WORD) + WAY // WORD
        for _ in range(3):
            exposes(True)  # until the ranks know that they can read each other
        told = [exposes(True), exposes(False), exposes(me == 0), exposes(me == 1)]
        known[:] = new_words(int(words[c.WINDOW_BYTES // WORD]))
        asked = known[TRIAL // WORD :: CHOICE_BYTES // WORD].reshape(KINDS, LENGTHS)[MOVES + way]
        for _ in range(asked[(x.nbytes // LEAST // 2).bit_length() - 1] + TRIES):
            calls[name]()
        measured = known.reshape(KINDS, LENGTHS, -1)[MOVES + way, :, PACES // WORD : PACES // WORD + 2].max(axis=0)
        assert (measured > 0).all() == (me == senders[0]), "rank 0 leads where both send"
        assert words[c.TIMED // WORD] == 0
        return told

    expected = [[True, False, me == 0, me == 1] if me in senders else [False] * 4 for me in range(2)]
    assert ranks(2, work) == expected


@pytest.mark.skipif(usable_cores() < 2, reason="with more ranks than cores, times say nothing, and thresholds hold")
def test_rank_0_leads_where_as_much_goes_both_ways(ranks: Any) -> None:
    def work(comm: Any) -> list[list[bool]]:
        me, n, told = comm.rank, 40_000, []
        known = comm._dispatcher._choices
        x, lengths = np.arange(4 * n), [[n, n], [n, 3 * n]][me]
        calls = (
            lambda: comm.all_to_all(x),
            lambda: comm.collective_permute(x, [(0, 1), (1, 0)]),
            lambda: comm.all_gather(x),
            lambda: comm.all_to_all_v(x[: 2 * n], [n, n]),
            lambda: comm.all_to_all_v(x[: sum(lengths)], lengths[::-1]),
            lambda: comm.collective_permute(x, [(1, 0)], out=np.empty_like(x)),
        )
        for _ in range(3):
            comm.all_to_all(np.arange(2 << 20))  # until the ranks know that they can read each other
        for call in calls:
            known[:] = new_words(WINDOW)
            ways = []
            for way_of_0, way_of_1 in ((1, 0), (1, 0), (0, 1), (0, 1)):
                known[TRIAL // WORD :: CHOICE_BYTES // WORD] = 10**9
                known[CALLS // WORD :: CHOICE_BYTES // WORD] = 10**6
                known[WAY // WORD :: CHOICE_BYTES // WORD] = way_of_1 if me else way_of_0
                call()
                ways.append(exposed(comm) != 0)
            told.append(ways)
        return told

    led, alone = [False, True, True, False], [False, False, True, True]
    of_0 = [True, True, False, False]
    assert ranks(2, work) == [[of_0] * 5 + [[False] * 4], [led] * 4 + [alone] * 2]


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
        x, found = np.zeros(1 << 20), []
        for _ in range(3):
            for call in (
                lambda: comm.all_to_all(x),
                lambda: comm.collective_permute(x, [(0, 1), (1, 0)]),
                lambda: comm.all_gather(x),
                lambda: comm.scatter(x if comm.rank == 0 else None, 0),
                lambda: comm.broadcast(x, 0),
                lambda: comm.gather(x, 0),
            ):
                comm._dispatcher._choices[WAY // WORD :: CHOICE_BYTES // WORD] = 1
                call()
                found.append(exposed(comm) != 0)
        return found

    environment = {"SHMCOLL_DIRECT_BYTES": "1T", "SHMCOLL_EXCHANGE_BYTES": "1T"}
    assert ranks(2, work, environment=environment) == [[False] * 18] * 2
