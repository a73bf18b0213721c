"""How programs of mpi4py end: what a rank that waits is told when another one has come to its end."""

import pytest

from tests.support.launched import Shmrun

pytest.importorskip("mpi4py")

WAITS = """
    import sys
    from mpi4py import MPI
    if MPI.COMM_WORLD.rank == 0:
        {end}
    MPI.COMM_WORLD.Barrier()
"""


def test_a_barrier_does_not_agree_with_finalize(shmrun: Shmrun) -> None:
    done = shmrun("-n", 2, "--mpi", shmrun.write(WAITS.format(end="sys.exit()")))
    assert done.returncode == 1
    assert "rank 0 called MPI_Finalize(); rank 1 called barrier()" in done.stderr
    assert "Exception ignored" not in done.stderr


def test_mpi4py_run_ends_all_ranks_with_the_code_of_one(shmrun: Shmrun) -> None:
    """By MPI_Abort, over an MPI of the usual kind."""
    done = shmrun("-n", 2, "--mpi", "-m", "mpi4py.run", shmrun.write(WAITS.format(end="sys.exit(7)")))
    assert done.returncode == 7
    assert done.stderr.splitlines()[-1] == "shmrun: rank 0 failed first, with exit code 7 (as by MPI_Abort)"
    assert "Traceback" not in done.stderr
