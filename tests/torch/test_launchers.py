"""The backend under its launchers: a program that joins again and again, and the examples, in one job for each."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: make test-torch")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from tests.torch import joining
from tests.torch.test_examples import EXAMPLES, PRINTED, check

pytestmark = pytest.mark.slow  # each process imports torch

COMMANDS = {
    "shmrun": ["-m", "shmrun", "-n", "2"],
    "torchrun": ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"],
}
RUN_ALL = "import runpy, sys\nfor path in sys.argv[1:]:\n    runpy.run_path(path, run_name='__main__')\n"


@pytest.mark.parametrize("launcher", COMMANDS)
def test_ranks_join_and_examples_run(launcher: str, tmp_path: Path) -> None:
    script = tmp_path / "all.py"
    script.write_text(RUN_ALL)
    programs = [joining.__file__, *(str(EXAMPLES / name) for name in PRINTED)]
    names = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, *COMMANDS[launcher], str(script), *programs],
        env=environment | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    joined = {f"rank {rank} of 2 by {launcher}" for rank in range(2)}
    assert joined <= set(lines)
    check([line for line in lines if line not in joined])
