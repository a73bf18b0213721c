"""Whole programs of NKI, as their users write them, with the results that numpy has: the files of `programs/`.

A program imports `nki`, compares all that it computes with numpy, and prints a line. Here ranks are forks of the test
process; a slow test starts the programs by `shmrun --nki`.
"""

import contextlib
import io
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from shmcoll.startup import module_aliases
from tests.support.patience import PATIENCE

FOLDER = Path(__file__).parent / "programs"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py"))


def run(comm, name: str) -> str:
    """Run a program on this rank, and return what it prints."""
    os.environ["WORLD_SIZE"] = str(comm.size)  # as launchers do
    module_aliases.install(["nki"])
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    return printed.getvalue()


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_the_results_of_numpy(ranks, name, n):
    assert ranks(n, run, name) == [f"rank {rank}: right\n" for rank in range(n)]


def test_a_layer_on_eight_ranks(ranks):
    assert ranks(8, run, "moe_layer") == [f"rank {rank}: right\n" for rank in range(8)]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_unchanged(name, tmp_path):
    command = [sys.executable, "-m", "shmrun", "-n", "4", "--nki", str(FOLDER / f"{name}.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {rank}: right" for rank in range(4)]
