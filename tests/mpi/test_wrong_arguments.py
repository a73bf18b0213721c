"""Functions of MPI that are called with wrong handles, null pointers and wrong numbers: an error in words, no crash."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE

PROGRAM = Path(__file__).with_name("programs") / "wrong_arguments.py"


def call(folder: Path, *options: object) -> None:
    note = folder / "note"
    command = [sys.executable, "-X", "faulthandler", PROGRAM, note, *options]
    environment = {**os.environ, "SHMCOLL_TIMEOUT": "0.3"}
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=environment, timeout=PATIENCE, check=False
    )
    last = note.read_text().strip() if note.exists() else ""
    told = [line for line in done.stdout.splitlines() if not line.endswith(" calls")]
    said = [line for line in done.stderr.splitlines() if not line.startswith("shmcoll: at the end of MPI")]
    assert (done.returncode, told, said) == (0, [], []), f"the last call: {last}"
    assert int(done.stdout.split()[0]) > 1000


def test_each_argument_of_each_function_may_be_wrong(tmp_path: Path) -> None:
    call(tmp_path, "each", "(?<!_c)$")


@pytest.mark.slow
def test_each_argument_of_the_forms_for_large_counts_may_be_wrong(tmp_path: Path) -> None:
    call(tmp_path, "each", "_c$")


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.stress if seed else pytest.mark.slow) for seed in range(8)]
)
def test_several_arguments_may_be_wrong_at_once(tmp_path: Path, seed: int) -> None:
    call(tmp_path, "random", seed, 20000)
