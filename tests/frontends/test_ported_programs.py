"""Programs that use MindSpore's names as public programs do, with our package in its place."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE

PROGRAMS = Path(__file__).parent / "programs"
RANKS = 4
MSRUN = f"--worker_num={RANKS} --local_worker_num={RANKS} --master_port=8118 --join=True --log_dir=logs".split()

pytestmark = pytest.mark.slow


def shmrun(folder: Path, *arguments: object) -> list[str]:
    command = [sys.executable, "-m", "shmrun", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(done.stdout.splitlines())


@pytest.mark.parametrize("name", ["mindspore_data_parallel", "mindspore_tensor_parallel"])
def test_a_program_runs_unchanged(name, tmp_path):
    told = shmrun(tmp_path, "-n", RANKS, "--mindspore", PROGRAMS / f"{name}.py")
    assert told == [f"rank {rank}: right" for rank in range(RANKS)]


def test_a_command_line_of_msrun(tmp_path):
    shmrun(tmp_path, "--mindspore", *MSRUN, PROGRAMS / "mindspore_pipeline.py")
    logs = [(tmp_path / "logs" / f"worker_{rank}.log").read_text() for rank in range(RANKS)]
    assert logs == [f"rank {rank}: right\n" for rank in range(RANKS)]
