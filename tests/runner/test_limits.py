"""`shmcoll.run` under limits of the calling process (`ulimit`): it works, or says which is too small."""

import contextlib
import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import shmcoll


@pytest.fixture
def limit() -> Iterator:
    """`limit(which, value)`: lower a limit of this process until the end of the test."""
    before = {}

    def lower(which: int, value: int) -> None:
        before[which] = resource.getrlimit(which)
        resource.setrlimit(which, (value, before[which][1]))

    yield lower
    for which, values in before.items():
        resource.setrlimit(which, values)


def ones(n: int) -> np.ndarray:
    return shmcoll.init().all_reduce(np.ones(n))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_results_under_a_limit_on_the_size_of_files(limit, method):
    limit(resource.RLIMIT_FSIZE, 64 << 20)
    n = 2 << 20  # 16 MiB for each of three
    results = shmcoll.run(ones, 3, n, method=method)
    assert [np.array_equal(result, np.full(n, 3.0)) for result in results] == [True] * 3


def test_a_result_that_does_not_fit_spoils_no_other(limit):
    def uneven(n: int) -> np.ndarray:
        comm = shmcoll.init()
        return np.full(n if comm.rank == 0 else 1000, comm.rank)

    limit(resource.RLIMIT_FSIZE, 64 << 20)
    results = shmcoll.run(uneven, 2, 6 << 20, on_failure="continue")
    assert isinstance(results[0], OSError)
    assert results[0].errno == errno.EFBIG
    text = "the result of rank 0 takes more than 32.0 MiB, which the limit on the size of files leaves for it"
    assert text in str(results[0])
    assert "(ulimit -f)" in str(results[0])
    assert results[1].tolist() == [1] * 1000


def test_an_argument_that_does_not_fit(limit):
    limit(resource.RLIMIT_FSIZE, 64 << 20)
    with pytest.raises(OSError, match=r"the function with its arguments takes more than 64.0 MiB.*\(ulimit -f\)"):
        shmcoll.run(len, 2, bytes(65 << 20))


def test_a_limit_that_is_too_small_for_the_arena(limit):
    limit(resource.RLIMIT_FSIZE, 1 << 20)
    with pytest.raises(shmcoll.ArenaError, match=r"cannot size the arena, of .*\(ulimit -f\)"):
        shmcoll.run(int, 2)


def test_a_limit_that_changes_between_calls(limit):
    def own() -> tuple[int, int]:
        return resource.getrlimit(resource.RLIMIT_FSIZE)

    first = shmcoll.run(own, 1)
    limit(resource.RLIMIT_FSIZE, 64 << 20)
    assert shmcoll.run(own, 1) == [(64 << 20, first[0][1])]


def test_too_few_descriptors(limit):
    limit(resource.RLIMIT_NOFILE, 200)
    taken = []
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    try:
        for _ in range(4):  # none left, then three more each time: the server has not been started by any of these
            with pytest.raises(shmcoll.ShmcollError, match=r"run of 2 ranks: Too many open files. .*\(ulimit -n\)"):
                shmcoll.run(int, 2)
            for _ in range(3):
                os.close(taken.pop())
    finally:
        for fd in taken:
            os.close(fd)


MANY_ARRAYS = """
import resource, numpy, shmcoll
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
arrays = [shmcoll.shared(numpy.ones(1)) for _ in range(30)]
with shmcoll.ranks(8) as r:
    print(r.run(lambda *arrays: sum(int(one[0]) for one in arrays), *arrays, timeout=120))
"""


def test_more_descriptors_on_their_way_than_a_user_may_have() -> None:
    """The kernel limits them, except for a user with one of two capabilities."""
    without = ["setpriv", "--bounding-set=-sys_admin,-sys_resource"] if os.geteuid() == 0 else []
    done = subprocess.run([*without, sys.executable, "-c", MANY_ARRAYS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{[30] * 8}\n"), done.stderr
