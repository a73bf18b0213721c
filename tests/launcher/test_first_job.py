"""A first job compiles what it calls and nothing else, once, and says so; its ranks wait for that without a limit."""

import pytest

from shmcoll.startup import warm

pytestmark = pytest.mark.slow

#: each rank tells whether it has compiled
JOB = """
    import sys, shmcoll
    comm = shmcoll.init()
    comm.barrier()
    print("numba" in sys.modules)
"""


@pytest.fixture
def cache(shmrun):
    folder = shmrun.folder / "cache"
    folder.mkdir(mode=0o700)
    return folder


def test_one_rank_compiles_what_is_called_and_no_limit_passes_meanwhile(shmrun, cache):
    """Compiling takes longer than a wait may."""
    path, env = shmrun.write(JOB), {"SHMCOLL_CACHE_DIR": str(cache)}
    told = shmrun("-n", 3, "--wait-timeout", "1.5", path, env=env)
    assert (told.returncode, sorted(told.stdout.split())) == (0, ["False", "False", "True"]), told.stderr
    assert told.stderr.splitlines() == [
        "shmcoll: compiling barrier (once per machine; shmrun warm compiles everything ahead)"
    ]
    assert [path.name.split("-")[0] for path in cache.glob("*.o")] == ["barrier"]
    assert shmrun("-n", 3, path, env=env).stdout.split() == ["False"] * 3


@pytest.mark.parametrize(
    ("done", "missing", "elapsed", "text"),
    [
        (["barrier"], ["barrier"], 9.0, "1 of 1"),
        (["barrier"], ["barrier", "gather", "scan"], 9.0, "1 of 3, about 18 s left"),
        (["sum_int8"], ["sum_int8", "barrier"], 2.0, "1 of 2, about 20 s left"),
        (["barrier", "sum_int8"], ["barrier", "sum_int8", "max_int8"], 1.4, "2 of 3, about 1 s left"),
    ],
)
def test_the_estimate_is_what_the_machine_has_shown(done, missing, elapsed, text):
    assert warm._progress(done, missing, elapsed) == text
