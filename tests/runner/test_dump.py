"""What is kept of `shmcoll.run` when it fails (SHMCOLL_DUMP)."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

import shmcoll


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHMCOLL_DUMP", "kept")
    return tmp_path / "kept"


def cause(kept: Path) -> dict:
    (path,) = kept.glob("*/job.json")
    return json.loads(path.read_text())["cause"]


def die() -> None:
    comm = shmcoll.init()
    comm.barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    comm.barrier()


def be_late() -> None:
    comm = shmcoll.init()
    if comm.rank == 1:
        time.sleep(600)
    comm.barrier()


def test_a_rank_that_dies(kept: Path) -> None:
    with pytest.raises(shmcoll.RankFailed):
        shmcoll.run(die, 2)
    assert cause(kept) == {"kind": "killed", "rank": 1, "text": "rank 1 was killed by signal 9 (SIGKILL)"}


@pytest.mark.slow
def test_a_time_limit(kept: Path) -> None:
    with pytest.raises(TimeoutError):
        shmcoll.run(be_late, 2, timeout=3)
    assert cause(kept) == {
        "kind": "time limit",
        "rank": None,
        "text": "the time limit is over; still running: ranks 0, 1",
    }
