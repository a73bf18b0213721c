"""A system that gives too little: one line with the cause and what to do, before any rank runs."""

import os
import resource
import subprocess
import sys

import pytest

CASES = {
    "files": (resource.RLIMIT_FSIZE, 100 << 10, "cannot size the arena, of ", "(ulimit -f)"),
    "descriptors": (
        resource.RLIMIT_NOFILE,
        14,
        "2 ranks need up to ",
        "or raise the limit (ulimit -n)",
    ),
    "address space": (resource.RLIMIT_AS, 150 << 20, "the limit on address space is 150 MiB", "(ulimit -v)"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_limit_that_is_too_small(shmrun, name):
    which, limit, cause, advice = CASES[name]
    told = shmrun("-n", 2, shmrun.write(""), preexec_fn=lambda: resource.setrlimit(which, (limit, limit)))
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.startswith(f"shmrun: {cause}"), told.stderr
    assert told.stderr.endswith(f"{advice}.\n")
    assert told.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("limit", [310, 400, 500, 710, 750])
def test_a_limit_on_address_space_that_may_do_or_not(shmrun, limit):
    """Python, numpy and LLVM fail in many ways when a library cannot be mapped; none of them is a traceback."""
    told = shmrun(
        "-n",
        1,
        shmrun.write("print('here')"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit << 20, limit << 20)),
    )
    if told.returncode:
        assert told.stderr.startswith("shmrun: cannot load what the ranks need: ")
        assert "(ulimit -v)" in told.stderr
        assert told.stderr.count("\n") == 1
    else:
        assert told.stdout == "here\n"


def without_proc(shmrun, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command where /proc is empty."""
    hide = "mount -t tmpfs none /proc && exec " + " ".join(command)
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", hide], cwd=shmrun.folder, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide /proc")
@pytest.mark.parametrize("words", [("-n", "2", "job.py"), ("-n", "2", "true"), ("ps",), ("inspect",)], ids=" ".join)
def test_without_proc(shmrun, words):
    shmrun.write("", "job.py")
    told = without_proc(shmrun, sys.executable, "-m", "shmrun", *words)
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.startswith("shmrun: /proc is not mounted, ")
    assert "mount -t proc proc /proc" in told.stderr
    assert told.stderr.count("\n") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide /proc")
def test_run_and_ranks_that_meet_without_proc(shmrun):
    shmrun.write(
        """
        import shmcoll
        for start in (lambda: shmcoll.run(int, 1), lambda: shmcoll.init(rank=0, size=2, job="j")):
            try:
                start()
            except shmcoll.ShmcollError as e:
                print(str(e).partition(",")[0])
        print(shmcoll.init().all_reduce(1))
        """,
        "job.py",
    )
    told = without_proc(shmrun, sys.executable, "job.py")
    assert told.stdout == "/proc is not mounted\n" * 2 + "1\n", told.stderr


@pytest.mark.parametrize("hard, signum", [(1, "SIGKILL"), (9, "SIGXCPU")])
def test_a_limit_on_processor_time(shmrun, hard, signum):
    """It is not taken for a lack of memory."""
    told = shmrun(
        "-n",
        1,
        shmrun.write("while True: pass"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (1, hard)),
    )
    last = told.stderr.splitlines()[-1]
    assert f"({signum}); its processor time has reached the limit" in last and last.endswith(" (ulimit -t)"), told
