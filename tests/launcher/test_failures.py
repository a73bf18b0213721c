"""After the first failure: what the survivors get, what stands last on the screen, what the exit code is."""

import sys

import pytest

JOB = """
    import os, signal, sys, time
    import shmcoll

    def stumble():
        raise ValueError("bad thing")

    comm = shmcoll.init()
    comm.barrier()
    if comm.rank == 2:
        {failure}
    comm.barrier()
"""


@pytest.mark.parametrize("way", [(), pytest.param(("--fresh",), marks=pytest.mark.slow)], ids=["fork", "fresh"])
def test_an_exception_is_the_cause_and_stands_last(shmrun, way):
    told = shmrun("-n", 4, *way, shmrun.write(JOB.format(failure="stumble()")))
    assert told.returncode == 1
    lines = told.stderr.splitlines()
    for rank, line in zip((0, 1, 3), lines[:3], strict=True):
        assert line.startswith(f"rank {rank}: RankFailed: ")
        assert line.endswith("rank 2 raised ValueError: bad thing")
    assert lines[3:5] == ["shmrun: rank 2 failed first, with exit code 1:", "Traceback (most recent call last):"]
    assert lines[-1] == "ValueError: bad thing"
    files = [line for line in lines if line.startswith("  File ")]
    assert len(files) == 2
    assert all(f'"{shmrun.folder}/job.py"' in line for line in files)


def test_the_exit_code_of_the_first_failing_rank_counts(shmrun):
    told = shmrun("-n", 4, shmrun.write(JOB.format(failure="sys.exit(42)")))
    assert told.returncode == 42
    lines = told.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["rank 0", "rank 1", "rank 3", "shmrun"]
    assert all("RankFailed: barrier #2" in line and "rank 2 " in line for line in lines[:3])
    assert lines[3] == "shmrun: rank 2 failed first, with exit code 42"


@pytest.mark.parametrize(
    ("signum", "name", "hint"),
    [(9, "SIGKILL", "lack of memory"), (7, "SIGBUS", "full"), (11, "SIGSEGV", "to see where")],
)
def test_a_killed_rank(shmrun, signum, name, hint):
    told = shmrun("-n", 4, shmrun.write(JOB.format(failure=f"os.kill(os.getpid(), {signum})")))
    assert told.returncode == 128 + signum
    lines = told.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["rank 0", "rank 1", "rank 3", "shmrun"]
    for line in lines[:3]:
        assert f"rank 2 was killed by signal {signum} ({name})" in line
    assert lines[3].startswith(f"shmrun: rank 2 was killed by signal {signum} ({name}); ")
    assert hint in lines[3]


@pytest.mark.parametrize("ending", ["sys.exit(0)", "os._exit(0)"])
def test_a_rank_that_leaves_with_0_is_no_failure(shmrun, ending):
    script = shmrun.write(f"""
        import os, sys
        import shmcoll
        if shmcoll.init().rank == 1:
            {ending}
    """)
    told = shmrun("-n", 3, script)
    assert (told.returncode, told.stderr) == (0, "")


def test_who_needs_a_rank_that_left_with_0_fails(shmrun):
    told = shmrun("-n", 3, shmrun.write(JOB.format(failure="sys.exit(0)")))
    assert told.returncode == 1
    assert told.stderr.count("RankFailed: barrier #2") == 2
    assert told.stderr.splitlines()[1].startswith("shmrun: rank ")
    assert "rank 2 left the job" in told.stderr.splitlines()[-1]


def test_a_consequence_that_ends_sooner_is_not_the_cause(shmrun):
    """Rank 2 raises, but its end waits for ever: the others have long ended with RankFailed when shmrun ends it."""
    failure = "import atexit; atexit.register(signal.pause); stumble()"
    told = shmrun("-n", 4, "--grace", "0.2", shmrun.write(JOB.format(failure=failure)))
    assert told.returncode == 1
    lines = told.stderr.splitlines()
    assert [line.partition(": ")[0] for line in lines[:3]] == ["rank 0", "rank 1", "rank 3"]
    assert lines[3] == "shmrun: rank 2 failed first, with exit code 1:"
    assert lines[-1] == "ValueError: bad thing"


def test_an_error_behind_which_stands_a_failed_rank_is_a_consequence(shmrun):
    script = shmrun.write("""
        import os, shmcoll
        comm = shmcoll.init()
        comm.barrier()
        if comm.rank == 0:
            os.kill(os.getpid(), 9)
        try:
            comm.barrier()
        except shmcoll.RankFailed as e:
            raise KeyError("what a library makes of it") from e
    """)
    told = shmrun("-n", 2, script)
    assert told.returncode == 137
    assert told.stderr.splitlines()[0] == "rank 1: KeyError: 'what a library makes of it'"


def test_survivors_may_clean_up_within_the_grace(shmrun):
    script = shmrun.write("""
        import os
        import shmcoll
        comm = shmcoll.init()
        comm.barrier()
        if comm.rank == 2:
            os.kill(os.getpid(), 9)
        try:
            comm.barrier()
        except shmcoll.RankFailed:
            open(f"saved{comm.rank}", "w").close()
    """)
    told = shmrun("-n", 4, "--grace", "30", script)
    assert told.returncode == 137
    assert told.stderr.startswith("shmrun: rank 2 was killed by signal 9 (SIGKILL)")
    assert sorted(p.name for p in shmrun.folder.glob("saved*")) == ["saved0", "saved1", "saved3"]


def test_ranks_without_collectives_are_ended_after_the_grace(shmrun):
    """Rank 0 ends at SIGTERM, rank 1 ignores it and gets SIGKILL, rank 2 is the cause."""
    script = shmrun.write(
        """#!/bin/sh
        [ $RANK = 2 ] && { while [ ! -e ready ]; do sleep 0.01; done; exit 5; }
        [ $RANK = 1 ] && { trap '' TERM; : > ready; }
        sleep 60
        """,
        "job",
    )
    told = shmrun("-n", 3, "--grace", "0.2", f"./{script}")
    assert told.returncode == 5
    lines = sorted(told.stderr.splitlines())
    assert lines[0] == "rank 0: did not end within 0.2 s (--grace), ended by SIGTERM"
    assert lines[1].startswith("rank 1: ")
    assert lines[2] == "shmrun: rank 2 failed first, with exit code 5"


def test_what_a_failed_rank_left_behind_is_ended(shmrun):
    """No orphan: the process that rank 0 started ends with the job, which the leak check sees."""
    told = shmrun("-n", 1, "sh", "-c", "sleep 60 & exit 3")
    assert told.returncode == 3


def test_wait_timeout_limits_a_wait(shmrun):
    script = shmrun.write("""
        import shmcoll, time
        comm = shmcoll.init()
        assert comm.timeout == 0.25
        if comm.rank == 0:
            comm.barrier()
        else:
            time.sleep(60)
    """)
    told = shmrun("-n", 2, "--wait-timeout", "0.25", "--grace", "0.1", script)
    assert told.returncode == 1
    assert "CollectiveTimeout: barrier #1 on rank 0 at job.py:6: timed out after 0.25 s; rank 1 did not" in told.stderr
    assert told.stderr.splitlines()[-1].startswith("Rank 1 keeps rank 0 waiting, for ")
    assert "shmrun: rank 0 failed first" in told.stderr


def test_ranks_that_disagree_are_told_where_in_a_few_lines(shmrun):
    script = shmrun.write("""
        import shmcoll

        def step(comm):
            if comm.rank == 2:
                comm.barrier()
            else:
                comm.all_reduce([1.0, 2.0])

        step(shmcoll.init())
    """)
    told = shmrun("-n", 4, script)
    assert told.returncode == 1
    lines = told.stderr.splitlines()
    calls = (
        "ranks 0, 1, 3 called all_reduce(float64[2], sum) at job.py:8; rank 2 called barrier() at job.py:6. "
        "All ranks must make the same calls in the same order."
    )
    assert lines[0].endswith(f": CollectiveMismatch: the ranks disagree in operation #1: {calls}")
    assert lines[-1] == f"shmcoll.errors.CollectiveMismatch: the ranks disagree in operation #1: {calls}"
    frames = [line.rpartition("/")[2] for line in lines if line.startswith("  File ")]
    assert frames[0] == 'job.py", line 10, in <module>'
    assert frames[1:] in (['job.py", line 6, in step'], ['job.py", line 8, in step'])
    assert len(lines) < 10


def test_an_empty_standard_input_is_named(shmrun):
    """Only rank 0 has one: `input` and `breakpoint` fail on the others."""
    for call, error in (("input()", "EOFError: EOF when reading a line"), ("breakpoint()", "bdb.BdbQuit")):
        program = f"import shmcoll\nif shmcoll.init().rank == 1: {call}\nelse: shmcoll.init().barrier()"
        told = shmrun("-n", 2, "-c", program)
        what = "The standard input of this rank is empty; under shmrun, rank 0 has that of the terminal"
        assert told.stderr.splitlines()[-2:] == [error, what]


def test_another_python_is_named(shmrun):
    other = shmrun.folder / "python3"
    other.symlink_to(sys.executable)
    told = shmrun("-n", 1, "./python3", "-c", "raise SystemExit(3)")
    said = f"it is ./python3, and the Python of this shmrun is {sys.executable}"
    assert (told.returncode, told.stderr) == (3, f"shmrun: rank 0 failed first, with exit code 3; {said}\n")
