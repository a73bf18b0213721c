"""Joining a job: alone, or with what a launcher has put into the environment."""

import os
import re
import subprocess
import sys
import textwrap

import pytest

from shmcoll.diagnostics import late_settings
from shmcoll.diagnostics.describe_timeout import with_advice
from tests.support.patience import PATIENCE


def python(source: str, **environment: str) -> subprocess.CompletedProcess:
    """Run a program in a process that no launcher started."""
    clean = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "SHMCOLL_ARENA", "SHMCOLL_TIMEOUT")}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)],
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_a_process_that_nobody_started_is_a_job_of_its_own():
    done = python("""
        import numpy as np
        import shmcoll
        comm = shmcoll.init()
        assert shmcoll.init() is comm
        print(comm.rank, comm.size, comm.launcher, comm.timeout, comm.all_reduce(np.arange(3)).tolist())
    """)
    assert (done.stdout, done.stderr) == ("0 1 none 300.0 [0, 1, 2]\n", "")


def test_the_limit_of_a_wait_comes_from_the_environment():
    assert python("import shmcoll; print(shmcoll.init().timeout)", SHMCOLL_TIMEOUT="2.5").stdout == "2.5\n"


@pytest.mark.parametrize("value", ["0", "-1", "soon", "nan", "inf"])
def test_a_limit_that_is_none_is_refused(value):
    done = python("import shmcoll; shmcoll.init()", SHMCOLL_TIMEOUT=value)
    assert done.returncode == 1
    assert f"ValueError: SHMCOLL_TIMEOUT='{value}' is not a positive number of seconds" in done.stderr


LATE = """
import os, shmcoll
class Last:
    comm = shmcoll.init()
    def __del__(self):
        self.comm.all_reduce(7)
last = Last()
os.environ["SHMCOLL_TIMEOUT"] = "5"
last.comm.barrier()  # line 9
last.comm.broadcast(1)
print(last.comm.timeout)
"""


def test_what_comes_too_late_is_told():
    """A limit that is set after joining, once; and a first call when the interpreter ends."""
    done = python(LATE)
    assert (done.returncode, done.stdout) == (0, "300.0\n")
    assert re.findall(r"line (\d+)|<string>:(\d+): (RuntimeWarning: .*)", done.stderr) == [
        (
            *("", "9"),
            "RuntimeWarning: SHMCOLL_TIMEOUT=5 was set after shmcoll.init(), which reads it, so it has no effect: set "
            "comm.timeout",
        ),
        ("6", "", ""),
    ]
    assert (
        "CallNotAllowed: all_reduce on rank 0: the interpreter is ending, and nothing like it has been "
        "called before; make the call in the program or in an atexit function, not in a __del__\n"
    ) in done.stderr


def test_a_timeout_tells_of_a_limit_that_was_set_too_late(monkeypatch):
    monkeypatch.setattr(late_settings, "_read", {})
    usual = with_advice("why")
    late_settings.note()
    assert with_advice("why") == usual
    monkeypatch.setenv("SHMCOLL_TIMEOUT", "7")
    assert with_advice("why") == f"{usual}. {late_settings.too_late()}"


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"SHMCOLL_ARENA": "x"}, "ArenaError: SHMCOLL_ARENA='x' is not 'descriptor:nonce:process'"),
        ({"SHMCOLL_ARENA": "999:00:1"}, "ArenaError: the arena's descriptor 999 is not open in this process"),
        ({"SHMCOLL_ARENA": "2:00:1"}, "ArenaError: the arena "),
    ],
)
def test_an_environment_that_is_not_ours(environment, words):
    done = python("import shmcoll; shmcoll.init()", **environment)
    assert done.returncode == 1
    assert words in done.stderr


def test_a_number_that_is_no_rank(ranks):
    def join_as(comm, number: str) -> str:
        import shmcoll.startup.join as job

        job._joined = None
        os.environ["SHMCOLL_ARENA"] = f"{comm._local_rank.arena.fd}:{comm._local_rank.arena.nonce}:{os.getppid()}"
        os.environ["RANK"] = number
        try:
            job.init()
        except job.ArenaError as error:
            return str(error)
        return "no error"

    wanted = {
        "2": "RANK=2 is not a rank of this job of 2",
        "-1": "RANK=-1 is not a rank of this job of 2",
        "one": "RANK is 'one', expected the number that shmrun sets",
    }
    for number, text in wanted.items():
        assert ranks(2, join_as, number) == [text] * 2


def test_a_forked_process_is_no_rank(ranks):
    def fork(comm) -> str:
        import shmcoll

        read, write = os.pipe()
        if os.fork() == 0:
            try:
                shmcoll.init()
            except RuntimeError as error:
                os.write(write, str(error).encode())
            os._exit(0)
        os.close(write)
        with open(read, "rb") as answer:
            text = answer.read().decode()
        os.wait()
        return text

    for rank, text in enumerate(ranks(2, fork)):
        assert text.startswith(f"this process was forked by rank {rank} and is not a rank itself")


CHILD = """
    import os, shmcoll
    from pathlib import Path

    def inode(fd):
        try:
            return os.fstat(fd).st_ino
        except OSError:
            return None

    comm = shmcoll.init()
    ours = inode(comm._local_rank.arena.fd)
    pid = os.fork()
    if pid == 0:
        mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if f" {ours} " in line]
        held = [fd for fd in Path("/proc/self/fd").iterdir() if inode(int(fd.name)) == ours]
        try:
            comm.barrier()
        except RuntimeError as e:
            assert "is not a rank itself" in str(e)
        os._exit(int(bool(mapped or held)))
    status = os.waitpid(pid, 0)[1]
    comm.barrier()
    print("child keeps the arena" if status else "child keeps nothing")
"""


@pytest.mark.parametrize("launcher", [[], ["-m", "shmrun", "-n", "1"], ["-m", "shmrun", "-n", "1", "--fresh"]])
def test_a_child_of_a_rank_keeps_nothing_of_the_arena(launcher, tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(textwrap.dedent(CHILD))
    done = subprocess.run([sys.executable, *launcher, str(script)], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr) == ("child keeps nothing\n", "")


def test_what_a_rank_starts_is_no_rank(ranks):
    """A child program finds nothing in its environment that would make it join."""

    def spawn(comm) -> str:
        source = "import os; print(os.environ.get('SHMCOLL_ARENA'))"
        return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True).stdout

    assert ranks(2, spawn) == ["None\n"] * 2


def test_names():
    done = python("""
        import shmcoll
        assert set(shmcoll.__all__) <= set(dir(shmcoll))
        for name in shmcoll.__all__:
            getattr(shmcoll, name)
        try:
            shmcoll.nothing
        except AttributeError as e:
            print(e)
    """)
    assert done.stdout == "shmcoll has no attribute 'nothing'\n", done.stderr
