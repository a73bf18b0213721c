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
    """Return how seldom a case runs. A call that does not exist is handled as one that is not permitted, so only the
    long forms try that in every way."""
    if error == "EPERM":
        return () if (name, way) in SAMPLE else (pytest.mark.slow,)
    return (pytest.mark.slow,) if way == "shmrun" else (pytest.mark.stress,)


CASES = [
    pytest.param(name, error, way, marks=marks(name, error, way))
    for name in refuse.NUMBERS
    for error in ("EPERM", "ENOSYS")
    for way in WAYS
]


@pytest.mark.parametrize("name, error, way", CASES)
def test_a_job_works_or_names_the_call(tmp_path: Path, name: str, error: str, way: str) -> None:
    within = shlex.join([sys.executable, refuse.__file__, name, error])
    done = ways.start(tmp_path, way, within=within)
    if name in DISPENSABLE or done.returncode == 0:
        assert ways.works(done), done
    else:
        assert ways.says(done, "this machine refuses ", "a seccomp filter"), done
