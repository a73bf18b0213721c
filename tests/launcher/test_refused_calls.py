"""System calls that only advise, or that have another way, may be refused: jobs run all the same."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import refuse
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.slow

JOB = """
import shmcoll
comm = shmcoll.init()
print(comm.rank, int(comm.full(1 << 18, comm.rank, "i4")[-1]))
"""


@pytest.mark.parametrize("error", ["EPERM", "ENOSYS"])
@pytest.mark.parametrize("name", ["fallocate", "fstatfs", "statfs", "sched_getaffinity"])
def test_a_job_runs(tmp_path: Path, name: str, error: str) -> None:
    (tmp_path / "job.py").write_text(JOB)
    command = [sys.executable, refuse.__file__, name, error, sys.executable, "-m", "shmrun", "-n", "2", "job.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, sorted(done.stdout.splitlines()), done.stderr) == (0, ["0 0", "1 1"], "")
