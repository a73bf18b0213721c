"""The designs in bench/alternatives still run."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "bench" / "alternatives"
RANKS = [sys.executable, "-m", "shmrun", "-n", "2"]
COMMANDS = {"cells.py": RANKS, "semaphores.py": RANKS, "sessions.py": [sys.executable]}
NO_POSIX_IPC = "posix_ipc is not installed: pip install 'shmcoll[alternatives]'"


def test_each_of_them_is_tried_and_told():
    scripts = {path.name for path in FOLDER.glob("*.py")}
    assert scripts == set(COMMANDS)
    assert all(name in (FOLDER / "README.md").read_text() for name in scripts)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("semaphores.py", marks=pytest.mark.skipif(not find_spec("posix_ipc"), reason=NO_POSIX_IPC)),
        "sessions.py",
        "cells.py",
    ],
)
def test_it_runs(name):
    options = ["-n", "4"] if name == "sessions.py" else []
    command = [*COMMANDS[name], str(FOLDER / name), *options, "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 1
