"""Where /dev/shm has 64 MiB, as in a container, jobs of shmrun and `shmcoll.run` have the memory of the machine."""

import os
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.small_memory import amounts, in_small_memory

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small /dev/shm")

MEMORY = 64  # MiB
JOB = """
    import os, subprocess, sys
    import numpy as np
    import shmcoll

    def shares():
        comm = shmcoll.init()
        mine = comm.full(20 << 20, comm.rank + 1, np.int32)
        return int(comm.all_reduce(mine[-1]))

    if __name__ == "__main__":
        comm = shmcoll.init()
        shares()
        if comm.rank == 0:
            for command in (["ps"], ["inspect", str(os.getpid())]):
                command = [sys.executable, "-m", "shmrun", *command]
                print(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        comm.barrier()
"""


def test_a_heap_larger_than_dev_shm(tmp_path: Path) -> None:
    """Each rank takes 80 MiB; the job is seen from outside, as every other one is."""
    (tmp_path / "job.py").write_text(textwrap.dedent(JOB))
    done = in_small_memory(tmp_path, MEMORY, [sys.executable, "-m", "shmrun", "-n", "2", "--heap", "1G", "job.py"])
    assert (done.returncode, done.stderr) == (0, "")
    ps, inspect = done.stdout.split("\n\n")[:2]
    assert any(line.endswith(" -n 2 --heap 1G job.py") for line in ps.splitlines())  # beside jobs of other tests
    assert "after all_reduce(int32[], sum) #1" in inspect


def test_run(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(textwrap.dedent(JOB))
    code = "import job, shmcoll; print(shmcoll.run(job.shares, 2))"
    done = in_small_memory(tmp_path, MEMORY, [sys.executable, "-c", code], SHMCOLL_HEAP="1G", PYTHONPATH=str(tmp_path))
    assert (done.stdout, done.stderr) == ("[3, 3]\n", "")


def test_ranks_that_meet_by_name_need_dev_shm(tmp_path: Path) -> None:
    """And the error says so."""
    code = """
        import subprocess, sys, shmcoll
        if len(sys.argv) == 1:
            other = subprocess.Popen([sys.executable, sys.argv[0], "1"])
        comm = shmcoll.init(rank=len(sys.argv) - 1, size=2, job="small")
        comm.barrier()
        if comm.rank == 0:
            try:
                comm.zeros(80 << 20, "u1")
            except shmcoll.ArenaError as e:
                print(e)
        comm.barrier()
        comm.rank or other.wait()
    """
    (tmp_path / "job.py").write_text(textwrap.dedent(code))
    done = in_small_memory(tmp_path, MEMORY, [sys.executable, "job.py"], SHMCOLL_HEAP="1G")
    assert (done.returncode, done.stderr) == (0, "")
    needed, available = amounts(done.stdout)
    assert needed >= 80 > 64 > available
    assert "MiB in use. Ranks that mpiexec, torchrun or a shell has started meet there" in done.stdout
