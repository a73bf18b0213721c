"""A rank dies: the others go on without it, where they are let."""

import os
import signal
import time

import pytest

import shmcoll
from shmcoll.errors import RankFailed


def lose_one(victim: int) -> list[int]:
    comm = shmcoll.init()
    if comm.rank == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RankFailed):
        comm.barrier()
    time.sleep(2.5)  # longer than the others have where a failure stops the job
    return comm.shrink().ranks


def test_run_goes_on():
    zero, one, two = shmcoll.run(lose_one, 3, 1, on_failure="continue", timeout=30)
    assert (zero, two) == ([0, 2], [0, 2])
    assert isinstance(one, RankFailed)
    assert str(one) == "rank 1 of shmcoll.run was killed by signal 9 (SIGKILL), without a result"


def test_run_stops_by_default():
    with pytest.raises(RankFailed, match=r"rank 1 of shmcoll\.run was killed by signal 9"):
        shmcoll.run(lose_one, 3, 1, timeout=30)


def test_a_wrong_reaction_is_refused():
    with pytest.raises(ValueError, match="on_failure must be 'stop' or 'continue', got 'go on'"):
        shmcoll.run(lose_one, 3, 1, on_failure="go on")
