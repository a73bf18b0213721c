"""The attributes of errors (`tests/runtime/test_error_attributes.py`) survive the way from a rank to the caller."""

import os
import signal
from pathlib import Path

import pytest

import shmcoll
from tests.support.waiting import until


def late(told: Path) -> None:
    comm = shmcoll.init()
    comm.timeout = 0.2
    if comm.rank == 0:
        try:
            comm.barrier()
        finally:
            told.touch()
    until(told.exists)


def killed() -> None:
    if shmcoll.init().rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    shmcoll.init().barrier()


def test_a_timeout(tmp_path: Path) -> None:
    with pytest.raises(shmcoll.CollectiveTimeout) as caught:
        shmcoll.run(late, 2, tmp_path / "told")
    assert (caught.value.operation, caught.value.missing) == ("barrier", (1,))


def test_a_killed_rank() -> None:
    with pytest.raises(shmcoll.RankFailed) as caught:
        shmcoll.run(killed, 2)
    assert (caught.value.rank, caught.value.signal) == (1, 9)
    other = caught.value.others[0]
    assert (other.operation, other.rank, other.signal) == ("barrier", 1, 9)
