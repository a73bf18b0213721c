"""A rank that ends makes every other rank raise `RankFailed` naming it, quickly, and again at every later call."""

import ctypes
import faulthandler
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from itertools import product
from statistics import quantiles
from typing import Any

import pytest

from shmcoll.errors import RankFailed
from tests.support import switches
from tests.support.calls import LONG, SHORT, all_reduce, barrier
from tests.support.ranks import published
from tests.support.waiting import until

SOON = 1.0  # seconds within which every survivor must know; promised: 0.1 in the middle, 1 at most


class Bad(Exception):
    """What a rank raises here."""


def segfault() -> None:
    faulthandler.disable()  # its report would be taken for that of the test process
    ctypes.string_at(0)


def raise_bad() -> None:
    raise Bad("no more")


CAUSES: dict[str, Callable[[], Any]] = {
    "kill -9": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segfault": segfault,
    "_exit(0)": lambda: os._exit(0),
    "_exit(3)": lambda: os._exit(3),
    "exit(3)": lambda: sys.exit(3),
    "exception": raise_bad,
    "return": lambda: None,
}
PLACES = ("before", "inside", "after")
SIZES = (2, 3, 4, 8)


def victim_or_survivor(comm, board, operation: str, cause: str, place: str, victim: int) -> Any:
    call = SHORT[operation]
    if place == "after":
        call(comm)
    if comm.rank == victim:
        if place == "inside":
            others = [r for r in comm.ranks if r != victim]
            until(lambda: all(published(comm._local_rank.arena, r) for r in others))
        board[0] = time.monotonic_ns()
        return CAUSES[cause]()
    texts = []
    entered = time.monotonic_ns()
    for attempt in (call, call, barrier, all_reduce):
        with pytest.raises(RankFailed) as told:
            attempt(comm)
        if not texts:
            late = (time.monotonic_ns() - max(entered, int(board[0]))) / 1e9
        texts.append(str(told.value))
    return late, texts


def check(
    ranks, board, allowed, n: int, operation: str, cause: str, place: str, victim: int, tell: bool
) -> list[float]:
    """Run one case; returns after how many seconds each survivor knew."""
    outcomes = ranks.outcomes(n, victim_or_survivor, board, operation, cause, place, victim, tell=tell, timeout=20.0)
    seconds = []
    for outcome in outcomes:
        if outcome.rank == victim:
            assert outcome.status == STATUS[cause]
            continue
        assert outcome.error is None, outcome.traceback
        late, texts = outcome.value
        assert f"rank {victim} " in texts[0].partition(": ")[2], texts[0]
        if cause == "exception":
            assert "Bad: no more" in texts[0]
        assert texts == texts[:1] * 4
        assert late < allowed(SOON)
        seconds.append(late)
    return seconds


STATUS = {"kill -9": -9, "segfault": -11, "_exit(0)": 0, "_exit(3)": 3, "exit(3)": 3, "exception": 1, "return": 0}
ALL = list(product(SIZES, SHORT, CAUSES, PLACES, (False, True)))
#: of the full product every sixty-first; 61 shares no factor with it, so that all values of each come up
SOME = [pytest.param(*case, marks={4: pytest.mark.stress, 8: pytest.mark.slow}.get(case[0], ())) for case in ALL[::61]]


@pytest.mark.parametrize(("n", "operation", "cause", "place", "tell"), SOME)
def test_survivors_name_the_rank_that_ended(ranks, board, allowed, seed, n, operation, cause, place, tell):
    """`tell`: a launcher writes a record about it; without one, the ranks find out by the pidfd."""
    check(ranks, board, allowed, n, operation, cause, place, seed % n, tell)


@pytest.mark.stress
def test_survivors_name_the_rank_that_ended_in_every_case(ranks, board, allowed, seed):
    for i, (n, operation, cause, place, tell) in enumerate(ALL):
        check(ranks, board, allowed, n, operation, cause, place, (seed + i) % n, tell)


@pytest.mark.slow
def test_survivors_know_within_a_tenth_of_a_second(ranks, board, allowed, seed):
    """The quickest quarter of them: on a busy machine 4 ranks wait for a core for about as long."""
    seconds = []
    for i, operation in enumerate([*SHORT, *SHORT]):
        seconds += check(ranks, board, allowed, 4, operation, "kill -9", "inside", (seed + i) % 4, True)
    assert quantiles(seconds, n=4)[0] < allowed(0.1)


def test_the_launchers_word_is_quoted(ranks, board):
    outcomes = ranks.outcomes(3, victim_or_survivor, board, "gather", "kill -9", "inside", 1, tell=True)
    for outcome in (outcomes[0], outcomes[2]):
        assert outcome.value[1][0] == f"gather #1 on rank {outcome.rank}: rank 1 was killed by signal 9"


# --- at any instant ---------------------------------------------------------------------------------------------------


def again_and_again(comm, operation: str) -> str:
    """Call until the group ends; every result on the way is checked."""
    call = (SHORT | LONG)[operation]
    try:
        while True:
            call(comm)
    except RankFailed as error:
        with pytest.raises(RankFailed, match="rank"):
            call(comm)
        return str(error)


def kill_at_random(ranks, random_: random.Random, n: int, operation: str) -> None:
    victim = random_.randrange(n)
    environment = switches.IN_ROUNDS | switches.slices(random_.choice([4096, 131072]))  # else test_exposed_arrays.py
    job = ranks.start(n, again_and_again, operation, environment=environment, tell=random_.random() < 0.5)
    watched = job.progress if operation in LONG else job.sequence
    steps = random_.randrange(1, 40)
    seen: set[int] = set()

    def enough() -> bool:
        seen.add(watched(victim))
        return len(seen) > steps

    job.until(enough, f"rank {victim} makes {steps} steps")
    os.kill(job.pids[victim], signal.SIGKILL)
    for outcome in job.finish():
        if outcome.rank != victim:
            assert outcome.error is None, outcome.traceback
            assert f"rank {victim} " in outcome.value.partition(": ")[2], outcome.value


@pytest.mark.slow
@pytest.mark.parametrize("operation", [*SHORT, *LONG])
def test_killed_at_any_instant(ranks, seed, operation):
    random_ = random.Random(seed)
    kill_at_random(ranks, random_, random_.choice([2, 3, 4]), operation)


@pytest.mark.stress
@pytest.mark.parametrize("operation", [*SHORT, *LONG])
def test_killed_at_many_instants(ranks, seed, operation):
    random_ = random.Random(seed)
    for _ in range(100):
        kill_at_random(ranks, random_, random_.choice([2, 3, 4, 8, 16]), operation)


# --- afterwards -------------------------------------------------------------------------------------------------------


def test_a_new_job_works_at_once(ranks, board, allowed, seed):
    for i in range(5):
        check(ranks, board, allowed, 3, "all_reduce", "kill -9", "inside", (seed + i) % 3, False)
        assert ranks(3, lambda comm: [call(comm) for call in SHORT.values()]) == [[None] * len(SHORT)] * 3


@pytest.mark.stress
def test_five_hundred_jobs_one_after_the_other(ranks, board, allowed, seed):
    for i in range(500):
        check(ranks, board, allowed, 3, "barrier", "kill -9", PLACES[i % 3], (seed + i) % 3, i % 2 == 0)
