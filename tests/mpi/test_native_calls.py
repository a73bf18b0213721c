"""Native functions of MPI tell what the Python functions of the same names tell."""

from pathlib import Path

import pytest

from tests.support.launched import Shmrun

pytest.importorskip("mpi4py")

PROGRAM = Path(__file__).with_name("programs") / "native_calls.py"


@pytest.mark.parametrize("ranks", [2, 3])
def test_native_calls(shmrun: Shmrun, ranks: int) -> None:
    done = shmrun("-n", ranks, "--mpi", PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("all right") == ranks, done.stdout + done.stderr
