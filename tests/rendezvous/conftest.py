"""Processes that nobody forked from pytest: each test starts its ranks as a user would, from the outside.

SHMCOLL_LAUNCHERS    folder with one environment a launcher (.launchers); `make test-launchers` fills it
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAUNCHERS = Path(os.environ.get("SHMCOLL_LAUNCHERS") or ROOT / ".launchers")
COMMANDS = {
    "openmpi": ["mpiexec", "--allow-run-as-root", "--oversubscribe", "-n", "3", sys.executable],
    "mpich": ["mpiexec", "-n", "3", sys.executable],
    "torch": ["torchrun", "--standalone", "--nproc-per-node", "3", "--no-python", sys.executable],
}

#: joins, makes sure that the data is right, and says who it is
RANK = """
import sys, numpy as np, shmcoll
arguments = dict(rank=int(sys.argv[1]), size=int(sys.argv[2]), job=sys.argv[3]) if len(sys.argv) > 1 else {}
comm = shmcoll.init(**arguments)
total = comm.all_reduce(np.full(3, comm.rank, np.float32))
assert (total == sum(range(comm.size))).all(), total
assert shmcoll.init() is comm
print(f"rank {comm.rank} of {comm.size} by {comm.launcher}\\n", end="", flush=True)
"""


@pytest.fixture
def environment() -> dict[str, str]:
    """Ours without what a launcher around pytest would have set, and with short patience."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "SHMCOLL_ARENA")
    kept = {k: v for k, v in os.environ.items() if k not in names and not k.startswith(("OMPI_", "PMI", "SLURM_"))}
    path = os.pathsep.join([str(ROOT), *filter(None, [kept.get("PYTHONPATH")])])
    return {**kept, "PYTHONPATH": path, "SHMCOLL_JOIN_TIMEOUT": "30"}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "rank.py"
    path.write_text(RANK)
    return path


@pytest.fixture
def start(script: Path, environment: dict[str, str]) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start one process of the script; whatever is still running at the end of the test is killed."""
    started: list[subprocess.Popen[str]] = []

    def start_one(*arguments: object, **variables: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(script), *map(str, arguments)],
            env={**environment, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start_one
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def launcher_command() -> Callable[[str], list[str]]:
    """`launcher_command(name)`: what starts 3 ranks of a script under it; skips the test where it is not installed."""

    def command(launcher: str) -> list[str]:
        first, *rest = COMMANDS[launcher]
        found = shutil.which(first, path=str(LAUNCHERS / launcher / "bin"))
        if found is None:
            pytest.skip(f"{launcher} is not installed; make test-launchers does it")
        return [found, *rest]

    return command
