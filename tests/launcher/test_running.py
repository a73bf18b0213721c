"""How a job runs: `--on-failure`, `--stdin`, `--env`, `--report`; and that what cannot be is said before all else."""

import os
import signal
import sys

import pytest
from shmrun.start.program import Kind, Refused, find

from tests.support.small_memory import with_little_memory

# Rank 2 fails; the others outlive the grace, which is over at once, by far.
SURVIVE = """
    import sys, time
    import shmcoll
    comm = shmcoll.init()
    comm.barrier()
    if comm.rank == 2:
        sys.exit(5)
    try:
        comm.barrier()
    except shmcoll.RankFailed:
        time.sleep(0.4)
        open(f"saved{{comm.rank}}", "w").close()
        {ending}
"""


@pytest.mark.parametrize("ending", ["pass", "raise"])
def test_survivors_may_continue(shmrun, ending):
    told = shmrun("-n", 4, "--grace", 0, "--on-failure", "continue", shmrun.write(SURVIVE.format(ending=ending)))
    assert told.returncode == 5
    assert sorted(path.name for path in shmrun.folder.glob("saved*")) == ["saved0", "saved1", "saved3"]
    lines = told.stderr.splitlines()
    assert [line.partition(" on rank")[0] for line in lines[:-1]] == [
        f"rank {rank}: RankFailed: barrier #2" for rank in (0, 1, 3) if ending == "raise"
    ]
    assert lines[-1] == "shmrun: rank 2 failed first, with exit code 5"


def test_survivors_are_stopped_otherwise(shmrun):
    told = shmrun("-n", 4, "--grace", 0, "--on-failure", "stop", shmrun.write(SURVIVE.format(ending="pass")))
    assert told.returncode == 5
    assert list(shmrun.folder.glob("saved*")) == []


def test_the_time_limit_holds_for_those_who_continue(shmrun):
    script = shmrun.write("#!/bin/sh\n[ $RANK = 0 ] && exit 5\nexec sleep 60\n", "job")
    told = shmrun("-n", 2, "--on-failure", "continue", "--timeout", "1", f"./{script}")
    assert told.returncode == 124
    assert told.stderr.splitlines() == [
        "shmrun: the limit of 1 s (--timeout) is over; still running: rank 1",
    ]


@pytest.mark.parametrize(("options", "words"), [((), "some words"), (("--stdin", "none"), "")])
def test_standard_input(shmrun, options, words):
    told = shmrun("-n", 2, *options, "sh", "-c", 'echo "$RANK $(cat)"', given="some words")
    assert sorted(told.stdout.splitlines()) == [f"0 {words}", "1 "]


def test_variables_are_set_before_anything_is_loaded(shmrun):
    """A fork of the launcher would come too late for PYTHONHASHSEED, which is read when an interpreter starts."""
    script = shmrun.write(
        "import os, sys; print(os.environ['WORD'], 'numpy' in sys.modules, sys.flags.hash_randomization)"
    )
    told = shmrun("-n", 1, "--env", "WORD=a b", script)
    assert told.stdout == "a b True 1\n"
    told = shmrun("-n", 1, "--env", "WORD=c", "--env", "PYTHONHASHSEED=0", script)
    assert told.stdout == "c False 0\n"


def test_report(shmrun):
    script = shmrun.write("""
        import os
        import numpy as np
        import shmcoll
        from shmcoll.diagnostics.rank_status import standings
        comm = shmcoll.init()
        x = np.ones((1 + 127 * (comm.rank == 1)) << 17)
        for _ in range(8):
            comm.barrier()
        comm.all_reduce(np.ones(1 << 18, np.float32))
        if comm.rank == 2:
            while [one.operation for one in standings(comm._dispatcher.group.arena)[:2]] != ["barrier() #10"] * 2:
                os.sched_yield()
            os.kill(os.getpid(), 9)
        comm.barrier()
    """)
    told = shmrun("-n", 3, "--grace", 60, "--report", script)
    assert told.returncode == 137
    titles, *rows = [line.split() for line in told.stderr.splitlines()[:4]]
    assert titles == ["rank", "exit", "time", "memory", "collectives", "moved", "asleep"]
    assert [(row[0], row[1], row[3], row[5], row[6], row[7]) for row in rows] == [
        ("0", "1", "s", "MiB", "10", "1.0"),
        ("1", "1", "s", "MiB", "10", "1.0"),
        ("2", "SIGKILL", "s", "MiB", "9", "-"),
    ]
    assert [row[-1][-1] for row in rows] == ["%", "%", "-"]
    assert all(float(row[2]) > 0 for row in rows)
    memory = [float(row[4]) for row in rows]
    assert 100 < memory[1] - memory[0] < 150
    assert told.stderr.splitlines()[-1].startswith("shmrun: rank 2 was killed by signal 9")


def test_report_of_ranks_that_never_join(shmrun):
    told = shmrun("-n", 2, "--report", "sh", "-c", "exit 0")
    assert told.returncode == 0
    assert [line.split()[-3:] for line in told.stderr.splitlines()] == [
        ["collectives", "moved", "asleep"],
        ["-", "-", "-"],
        ["-", "-", "-"],
    ]


def test_report_after_an_interrupt(shmrun):
    (shmrun.folder / "ready").write_text("ready\n")
    job = shmrun.start("-n", 1, "--report", "tail", "-f", "ready")  # a shell may lose a signal as it makes way
    assert job.stdout.readline() == "ready\n"
    job.send_signal(signal.SIGINT)
    lines = shmrun.finish(job).stderr.splitlines()
    assert [line.split()[1] for line in lines] == ["exit", "SIGINT", "interrupted"]


def test_too_little_memory_is_said_before_anything_is_compiled(shmrun, tmp_path):
    environment = with_little_memory(tmp_path, SHMCOLL_CACHE_DIR=str(tmp_path / "empty"))
    told = shmrun("-n", 4, shmrun.write(""), env=environment)
    assert told.returncode == 1
    assert told.stderr.startswith("shmrun: too little shared memory for the arena of 4 ranks: ")
    assert told.stderr.count("\n") == 1


@pytest.mark.slow
def test_the_launchers_own_interpreter_before_a_script_is_no_program(shmrun, tmp_path):
    """The ranks are forks that have numpy; another interpreter, or one with options, is executed."""
    shmrun.write("import sys; print('numpy' in sys.modules, *sys.argv)\n", "plain")
    shmrun.write("import sys; print('numpy' in sys.modules, *sys.argv[1:])\n", "module.py")
    assert shmrun("-n", 1, sys.executable, "plain", "-m", "3").stdout == "True plain -m 3\n"
    assert shmrun("-n", 1, sys.executable, "-m", "module", "3").stdout == "True 3\n"
    assert shmrun("-n", 1, sys.executable, "-s", "plain").stdout == "False plain\n"
    (tmp_path / "python").symlink_to(sys.executable)
    assert find((str(tmp_path / "python"), "plain"), module=False).kind is Kind.EXECUTABLE
    missing = shmrun("-n", 1, sys.executable, "missing")
    assert (missing.returncode, missing.stderr.partition(";")[0]) == (127, "shmrun: no such script: 'missing'")


def test_a_script_that_may_not_be_read(shmrun, monkeypatch):
    script = shmrun.folder / shmrun.write("")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may read everything
    with pytest.raises(Refused, match=r"the script '.*job.py' cannot be read; see its permissions") as refused:
        find((str(script),), module=False)
    assert refused.value.code == 126
