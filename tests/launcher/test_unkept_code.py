"""Where compiled code cannot be kept, one process of a job says so, with the cause and what to do."""

import shutil
import sys

import pytest

from shmcoll.engine.compiler import object_cache
from shmcoll.engine.system.cache_dir import cache_folder
from shmcoll.startup.join import USUAL
from shmcoll.startup.warm import fill_cache

pytestmark = pytest.mark.slow

SAYS = "compiled code cannot be kept, so every process compiles for itself: "
ADVICE = "; or set SHMCOLL_CACHE_DIR to a directory of yours that nobody else may write"

#: each rank needs a kernel that no fork of the launcher brings along
JOB = """
    import numpy as np, shmcoll
    assert shmcoll.init().all_reduce(np.ones(1, np.int32)) == 2
"""

CALL = """
    import numpy as np, shmcoll
    def call():
        return int(shmcoll.init().all_reduce(np.ones(1, np.int32))[0])
    if __name__ == "__main__":
        assert shmcoll.run(call, 2) == [2, 2]
"""


@pytest.fixture
def folder(shmrun, monkeypatch):
    """A cache of the job's own."""
    fill_cache(USUAL)
    have = cache_folder()
    folder = shmrun.folder / "cache"
    folder.mkdir(mode=0o700)
    for name in USUAL:
        shutil.copy(have / f"{name}-{object_cache._fingerprint(name)}.o", folder)
    monkeypatch.setenv("SHMCOLL_CACHE_DIR", str(folder))
    return folder


@pytest.fixture(params=["fork", *(pytest.param(way, marks=pytest.mark.stress) for way in ("fresh", "run"))])
def job(shmrun, request):
    """Two ranks, in each of the ways that we start them."""

    def start():
        if request.param == "run":
            return shmrun.finish(shmrun.start_process([sys.executable, shmrun.write(CALL)], None))
        return shmrun("-n", 2, *["--fresh"] * (request.param == "fresh"), shmrun.write(JOB))

    return start


def said(told):
    assert told.returncode == 0, told.stderr
    return [line for line in told.stderr.splitlines() if "cache" in line]


def test_one_object_that_cannot_be_kept(job, folder):
    """Only ranks find that out: rank 0 says it."""
    place = folder / f"sum_int32-{object_cache._fingerprint('sum_int32')}.o"
    place.mkdir()
    why = f"{place} is not a regular file; remove it"
    assert said(job()) == [
        f"shmcoll: ignored compiled code that somebody else may have put there: {why}; it is compiled anew",
        f"shmcoll: {SAYS}{folder} cannot be written: Is a directory{ADVICE}",
    ]


@pytest.mark.parametrize("job", [pytest.param(way, marks=pytest.mark.stress) for way in ("fork", "run")], indirect=True)
def test_a_folder_that_others_may_write(job, folder, request):
    """The launcher finds that out first, and its forks know that it has said so."""
    folder.chmod(0o777)
    teller = "shmrun" if "[fork" in request.node.name else "shmcoll"
    assert said(job()) == [f"{teller}: {SAYS}others may write {folder} (mode 777); chmod go-w it{ADVICE}"]
