"""How a rank ends under a launcher that is not ours: the rank that failed first ends first, and torchrun's file."""

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shmcoll.startup import foreign_end
from tests.support.patience import PATIENCE

Start = Callable[..., subprocess.Popen[str]]

FAIL = """
import os, sys, time, shmcoll
sleep = time.sleep
def note(seconds):
    if seconds > 0.1:
        print("slept", seconds, file=sys.stderr, flush=True)
    sleep(seconds)
time.sleep = note
comm = shmcoll.init(rank=int(os.environ["RANK"]), size=2, job=os.environ["JOB"])
comm.barrier()
if comm.rank == 1:
    raise ValueError("bad sample 41")
comm.barrier()
"""


def test_the_first_failure_ends_first_and_alone_writes_the_file(start: Start, script: Path, tmp_path: Path) -> None:
    script.write_text(FAIL)
    job = f"end-{os.getpid()}-{time.monotonic_ns()}"
    files = [tmp_path / f"error{rank}.json" for rank in (0, 1)]
    begun = int(time.time())
    ranks = [
        start(RANK=str(rank), JOB=job, TORCHELASTIC_ERROR_FILE=str(files[rank]), PYTHONUNBUFFERED="1")
        for rank in (0, 1)
    ]
    told = [rank.communicate(timeout=PATIENCE)[1].splitlines() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [1, 1]
    assert told[0][-1] == f"slept {foreign_end.PATIENCE}"  # after the traceback
    assert told[0][-2].startswith("shmcoll.errors.RankFailed: ")
    assert told[1][-1] == "ValueError: bad sample 41"
    assert not files[0].exists()
    message = json.loads(files[1].read_text())["message"]
    assert message["message"] == "ValueError: bad sample 41"
    assert message["extraInfo"]["py_callstack"].endswith("ValueError: bad sample 41\n")
    assert begun <= int(message["extraInfo"]["timestamp"]) <= time.time()


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "error.json"
    path.write_text("written by the program")
    foreign_end._write_error_file(path, ValueError())
    assert path.read_text() == "written by the program"


def test_no_file_where_others_may_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError):
        foreign_end._write_error_file(tmp_path / "error.json", ValueError())
    assert list(tmp_path.iterdir()) == []
