"""Jobs really started by other launchers. `make test-launchers` installs them; those that are not there are skipped.

SHMCOLL_LAUNCHERS    folder with one environment a launcher (.launchers)
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE

pytestmark = pytest.mark.slow

LAUNCHERS = Path(os.environ.get("SHMCOLL_LAUNCHERS") or Path(__file__).parents[2] / ".launchers")

COMMANDS = {
    "openmpi": ("openmpi", ["mpiexec", "--allow-run-as-root", "--oversubscribe", "-n", "3", sys.executable]),
    "mpich": ("hydra", ["mpiexec", "-n", "3", sys.executable]),
    "torch": ("torchrun", ["torchrun", "--standalone", "--nproc-per-node", "3", "--no-python", sys.executable]),
}


def command(launcher: str) -> list[str]:
    first, *rest = COMMANDS[launcher][1]
    found = shutil.which(first, path=str(LAUNCHERS / launcher / "bin"))
    if found is None:
        pytest.skip(f"{launcher} is not installed; make test-launchers does it")
    return [found, *rest]


@pytest.mark.parametrize("launcher", COMMANDS)
def test_ranks_join(launcher: str, script: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [*command(launcher), str(script)], env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    name = COMMANDS[launcher][0]
    assert sorted(done.stdout.splitlines()) == [f"rank {r} of 3 by {name}" for r in range(3)]


@pytest.mark.parametrize("launcher", COMMANDS)
def test_a_rank_that_raises_ends_the_job(launcher: str, script: Path, environment: dict[str, str]) -> None:
    script.write_text(
        "import shmcoll\n"
        "comm = shmcoll.init()\n"
        "comm.barrier()\n"
        "if comm.rank == 1: raise ValueError('bad sample 41')\n"
        "try:\n"
        "    comm.barrier()\n"
        "except shmcoll.RankFailed as e:\n"
        "    print(f'{e}\\n', end='', flush=True)\n"
    )
    done = subprocess.run(
        [*command(launcher), str(script)], env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode != 0
    assert "ValueError: bad sample 41" in done.stdout + done.stderr


def test_multiprocessing(script: Path, environment: dict[str, str]) -> None:
    """Plain processes that are told their place by torch's variables."""
    script.write_text(
        "import multiprocessing, os\n"
        "def rank(r):\n"
        "    os.environ.update(RANK=str(r), WORLD_SIZE='2')\n"
        "    import numpy, shmcoll\n"
        "    comm = shmcoll.init()\n"
        "    assert comm.all_reduce(numpy.ones(2)).tolist() == [2, 2]\n"
        "if __name__ == '__main__':\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    started = [context.Process(target=rank, args=(r,)) for r in (0, 1)]\n"
        "    for p in started: p.start()\n"
        "    for p in started: p.join()\n"
        "    print([p.exitcode for p in started])\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.stdout == "[0, 0]\n", done.stderr
