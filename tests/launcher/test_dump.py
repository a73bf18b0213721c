"""shmrun --dump: what is kept of a job that fails or hangs, and what `shmrun verdict` says of it."""

import json
import signal
import sys

import pytest

from tests.support.waiting import until

JOB = """
    import os, sys, time
    import numpy as np
    import shmcoll

    def absent(rank):
        open(f"ready{rank}", "w").close()
        time.sleep(600)

    comm = shmcoll.init()
    comm.barrier()
    if comm.rank == 1 and sys.argv[1] == "kill":
        os.kill(os.getpid(), 9)
    if comm.rank == 1 and sys.argv[1] == "absent":
        absent(comm.rank)
    comm.all_reduce(np.ones((2, 3), np.float32))
"""


def kept(folder):
    (path,) = folder.glob("*/job.json")
    return json.loads(path.read_text())


def test_a_rank_that_dies_is_kept_beside_the_logs(shmrun):
    shmrun.write(JOB)
    told = shmrun("-n", 2, "--log-dir", "my logs", "job.py", "kill")
    document = kept(shmrun.folder / "my logs" / "dump")
    assert document["cause"] == {"kind": "killed", "rank": 1, "text": "rank 1 was killed by signal 9 (SIGKILL)"}
    (folder,) = (shmrun.folder / "my logs" / "dump").iterdir()
    assert told.stderr.splitlines()[-2] == f"shmrun: what the ranks did is in {folder}: shmrun verdict '{folder}'"
    assert told.stderr.splitlines()[-1].startswith("shmrun: rank 1 was killed by signal 9")
    said = shmrun("verdict", "my logs")
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines()[-1].startswith("Rank 1 was killed by signal 9 (SIGKILL).")
    assert "job.py kill" in said.stdout


def is_waiting(shmrun, pid: int) -> bool:
    jobs = json.loads(shmrun("ps", "--json").stdout)["jobs"]
    return any(job["pid"] == pid and job["state"] == "waits" for job in jobs)


@pytest.mark.parametrize("by", ["time", pytest.param("interrupt", marks=pytest.mark.slow)])
def test_a_job_that_hangs(shmrun, by):
    shmrun.write(JOB)
    if by == "time":
        shmrun("-n", 2, "--dump", "kept", "--timeout", "1.5", "job.py", "absent")
    else:
        job = shmrun.start("-n", 2, "--dump", "kept", "--grace", "0.1", "job.py", "absent")
        until(lambda: is_waiting(shmrun, job.pid) and (shmrun.folder / "ready1").exists(), pause=0.2)
        job.send_signal(signal.SIGINT)
        shmrun.finish(job)
    document = kept(shmrun.folder / "kept")
    assert document["cause"]["kind"] == {"time": "time limit", "interrupt": "interrupt"}[by]
    assert "Rank 1 keeps rank 0 waiting" in document["verdict"]
    assert document["ranks"][1]["stack"][:1] == ["job.py:8 in absent"]


@pytest.mark.slow
def test_a_job_that_ends_well_or_before_it_joins_keeps_nothing(shmrun):
    shmrun.write(JOB)
    assert shmrun("-n", 2, "--log-dir", "logs", "job.py", "").returncode == 0
    assert shmrun("-n", 2, "--log-dir", "logs", "-c", "raise ValueError").returncode == 1
    assert not (shmrun.folder / "logs" / "dump").exists()


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_of_a_job_that_works_keeps_nothing(shmrun, signum):
    """Ranks are interrupted in their calls, or killed."""
    shmrun.write("""
        import numpy as np
        import shmcoll

        comm = shmcoll.init()
        while True:
            comm.all_reduce(np.ones(3))
            open(f"ready{comm.rank}", "w").close()
    """)
    job = shmrun.start("-n", 2, "--log-dir", "logs", "job.py")
    until(lambda: (shmrun.folder / "ready1").exists())
    job.send_signal(signum)
    assert shmrun.finish(job).returncode == 128 + signum
    assert not (shmrun.folder / "logs" / "dump").exists()


@pytest.mark.slow
def test_off(shmrun):
    shmrun.write(JOB)
    options = {"env": {"SHMCOLL_DUMP": "kept"}}
    told = shmrun("-n", 2, "--log-dir", "logs", "--dump", "off", "job.py", "kill", **options)
    assert "verdict" not in told.stderr
    assert sorted(one.name for one in shmrun.folder.iterdir()) == ["job.py", "logs"]
    assert not (shmrun.folder / "logs" / "dump").exists()


def test_a_folder_that_cannot_be_written_is_refused(shmrun):
    shmrun.write(JOB)
    told = shmrun("-n", 2, "--dump", "job.py", "job.py", "kill")
    assert told.returncode == 1
    assert told.stderr == "shmrun: cannot write into 'job.py' (--dump): File exists\n"


@pytest.mark.slow
def test_a_folder_that_is_lost_meanwhile(shmrun):
    """It is one line, and the failure is told as without."""
    shmrun.write("""
        import os, signal
        import shmcoll

        comm = shmcoll.init()
        comm.barrier()
        if comm.rank == 1:
            os.rmdir("kept")
            open("kept", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        comm.barrier()
    """)
    told = shmrun("-n", 2, "--dump", "kept", "job.py")
    assert told.returncode == 128 + signal.SIGKILL
    (line,) = [line for line in told.stderr.splitlines() if "cannot keep" in line]
    assert line.startswith("shmrun: cannot keep what the ranks did in ") and line.endswith(
        "(SHMCOLL_DUMP): File exists"
    )
    assert "verdict" not in told.stderr and "rank 1 was killed by signal 9" in told.stderr.splitlines()[-1]


@pytest.mark.slow
def test_another_program_is_kept_as_well(shmrun):
    """Its ranks have no stacks. The launcher has not loaded what reads the arena."""
    shmrun.write(f"#!/bin/sh\nexec {sys.executable} job.py kill\n", "job.sh")
    shmrun.write(JOB)
    shmrun("-n", 2, "--dump", "kept", "./job.sh")
    assert kept(shmrun.folder / "kept")["cause"]["text"] == "rank 1 was killed by signal 9 (SIGKILL)"
