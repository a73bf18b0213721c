"""A module that somebody has put into the current directory is not taken for one that we import."""

import os
import subprocess
import sys

import pytest

from shmcoll.engine.system.cache_dir import cache_folder

pytestmark = pytest.mark.slow

#: what our processes import early; Python itself has these loaded, or frozen, by then
NAMES = ("json", "subprocess", "ctypes", "numpy", "llvmlite", "numba", "shmcoll", "shmrun", "tomllib")

JOB = "import os; print(os.environ['RANK'])\n"


@pytest.fixture
def planted(shmrun):
    """The current directory has all of them; the program is elsewhere."""
    shmrun.write(JOB, "program/job.py")
    here = shmrun.folder / "here"
    here.mkdir()
    for name in NAMES:
        (here / f"{name}.py").write_text(f"open({str(here / 'ran')!r}, 'a').write({name!r} + ' ')\n")
    shmrun.folder = here
    return here


def run(shmrun, *command, **variables):
    """With `shmrun` as people start it: its script has a directory of its own first on the path."""
    launcher = [sys.executable, "-P", "-c", "import sys; from shmrun.__main__ import main; sys.exit(main())"]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"} | variables
    return shmrun.finish(shmrun.start_process([*launcher, *command], environment))


def test_a_rank_with_an_interpreter_of_its_own(shmrun, planted):
    told = run(shmrun, "-n", 1, "--fresh", "../program/job.py")
    assert (told.returncode, told.stdout, told.stderr) == (0, "0\n", "")
    assert not (planted / "ran").exists()


@pytest.mark.stress
@pytest.mark.parametrize(
    "code",
    [
        "from shmcoll.startup.warm import fill_cache; fill_cache(['barrier'])",
        "from shmcoll.startup.warm import fill_cache; fill_cache(['sum_int8'])",
    ],
    ids=["routines", "reductions"],
)
def test_processes_that_compile_ahead(shmrun, planted, code):
    (planted / "cache").mkdir(mode=0o700)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    environment["SHMCOLL_CACHE_DIR"] = str(planted / "cache")
    # As in a script elsewhere: its path does not have the current directory
    started = shmrun.start_process([sys.executable, "-c", f"import sys; del sys.path[0]; {code}"], environment)
    told = shmrun.finish(started)
    assert told.returncode == 0, told.stderr
    assert not (planted / "ran").exists()
    assert list((planted / "cache").glob("*.o"))


def test_the_trap_works(planted):
    """A plain `-m` does take them."""
    command = [sys.executable, "-m", "shmcoll.startup.warm"]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    done = subprocess.run(command, cwd=planted, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and (planted / "ran").read_text() == "shmcoll "
    assert cache_folder()
