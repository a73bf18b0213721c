"""System calls that a container refuses: the job works without the call, or ends soon with a line that names it."""

import shlex
import sys
from pathlib import Path

import pytest

from tests.support import refuse, ways
from tests.support.ways import WAYS

#: calls that only advise, or that have another way
DISPENSABLE = {
    "close_range", "epoll_create1", "fallocate", "fchmod", "fstatfs", "getpgid", "getrandom", "getxattr", "kill",
    "madvise", "mbind", "mremap", "process_vm_readv", "sched_getaffinity", "sched_setaffinity", "sched_yield",
    "set_robust_list", "sigaltstack", "socket", "statfs", "sysinfo", "unlinkat",
}  # fmt: skip

#: one of each kind, for every run of the tests
SAMPLE = {("setsid", "shmrun"), ("recvmsg", "run"), ("linkat", "torchrun"), ("fchmod", "shmrun")}


def marks(name: str, error: str, way: str) -> tuple[pytest.MarkDecorator, ...]:
    """Return how seldom a case runs.

    A call that has another way is refused by itself in the long forms alone, because another test refuses all of them
    to one job. So are calls that do not exist, except for `clone`: they are handled as calls that are not permitted.
    """
    if error == "EPERM":
        if (name, way) in SAMPLE:
            return ()
        return (pytest.mark.stress,) if name in DISPENSABLE else (pytest.mark.slow,)
    return (pytest.mark.slow,) if (name, way) == ("clone", "shmrun") else (pytest.mark.stress,)


CASES = [
    pytest.param(name, error, way, marks=marks(name, error, way))
    for name in refuse.NUMBERS
    for error in ("EPERM", "ENOSYS")
    for way in WAYS
]


@pytest.mark.parametrize("name, error, way", CASES)
def test_a_job_works_or_names_the_call(tmp_path: Path, name: str, error: str, way: str) -> None:
    done = ways.start(tmp_path, way, within=refusing([name], error))
    if name in DISPENSABLE or done.returncode == 0:
        assert ways.works(done), done
    else:
        assert ways.says(done, "this machine refuses ", "a seccomp filter"), done


@pytest.mark.slow
@pytest.mark.parametrize("error", ["EPERM", "ENOSYS"])
@pytest.mark.parametrize("way", WAYS)
def test_a_job_works_without_all_calls_that_have_another_way(tmp_path: Path, error: str, way: str) -> None:
    done = ways.start(tmp_path, way, within=refusing(sorted(DISPENSABLE), error))
    assert ways.works(done), done


def refusing(names: list[str], error: str) -> str:
    """Return the command that refuses these calls to another one."""
    return shlex.join([sys.executable, refuse.__file__, ",".join(names), error])
