"""A rank is killed while groups are made, used and closed: whoever needs it learns so, the others make new groups."""

import os
import random
import signal
import time

import numpy as np
import pytest

from shmcoll.errors import RankFailed

RANKS = 4


def churn(comm, board, seed: int, victim: int) -> list:
    """Make, use and close groups until the dead rank is needed, which is soon; then go on among the living."""
    draw = random.Random(seed)  # the same on all ranks: they agree on which groups there are
    board[1 + comm.rank] = 1
    try:
        while True:
            everybody, part = comm.subgroup(range(RANKS)), comm.split(draw.choice((comm.rank, comm.rank % 2, 0)))
            for group in (part, everybody):
                assert group.all_reduce(np.ones(3))[0] == group.size
                if draw.random() < 0.7:
                    group.close()
    except RankFailed as error:
        late = (time.monotonic_ns() - int(board[0])) / 1e9
        living = comm.subgroup([rank for rank in range(RANKS) if rank != victim])
        return [late, str(error), int(living.all_reduce(np.array([comm.rank]))[0])]


def kill_while_grouping(ranks, board, seed: int) -> None:
    draw = random.Random(seed)
    victim = draw.randrange(RANKS)
    job = ranks.start(RANKS, churn, board, seed, victim, timeout=20)
    job.until(lambda: board[1 : 1 + RANKS].all(), "all have begun")
    time.sleep(draw.random() * 0.05)
    board[0] = time.monotonic_ns()
    os.kill(job.pids[victim], signal.SIGKILL)
    outcomes = job.finish()
    for outcome in outcomes:
        if outcome.rank != victim:
            assert outcome.value is not None, outcome.text
            late, text, total = outcome.value
            assert late < 1, text
            assert "rank" in text
            assert total == sum(range(RANKS)) - victim


@pytest.mark.parametrize("instant", range(6))
def test_a_kill_while_groups_come_and_go(ranks, board, seed, instant):
    kill_while_grouping(ranks, board, seed + instant)


@pytest.mark.stress
def test_a_hundred_kills_while_groups_come_and_go(ranks, board, seed):
    for instant in range(100):
        board[:] = 0
        kill_while_grouping(ranks, board, seed + 1000 + instant)
