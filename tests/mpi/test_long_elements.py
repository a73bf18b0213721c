"""Long elements of MPI with gaps between them."""

from pathlib import Path

import pytest

from tests.support.launched import Shmrun

pytest.importorskip("mpi4py")

PROGRAM = Path(__file__).parent / "programs" / "long_elements.py"


@pytest.mark.parametrize("ranks", ["2", "3"])
def test_they_are_packed_into_memory_that_is_used_again(ranks: str, shmrun: Shmrun) -> None:
    done = shmrun("-n", ranks, "--mpi", PROGRAM)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
