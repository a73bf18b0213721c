"""Windows under `shmrun --mpi`: what a program gets, and what it is told when a rank dies in an epoch."""

from pathlib import Path

import pytest

from tests.support.launched import Shmrun

pytest.importorskip("mpi4py")

PROGRAM = Path(__file__).with_name("programs") / "windows.py"

DYING = """
    import os, signal, sys
    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    memory = np.zeros(1, np.int64)
    win = MPI.Win.Create(memory, 8, comm=comm)
    group = win.Get_group()
    if comm.rank == 1:
        {dying}
        comm.send(None, 0)
        comm.recv(source=0)
        os.kill(os.getpid(), signal.SIGKILL)
    {before}
    comm.recv(source=1)
    comm.send(None, 1)
    try:
        {waiting}
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_PROC_ABORTED, error
        print(error)
"""

EPOCHS = {
    "lock": ("win.Lock(0)", "pass", "win.Lock(0)"),
    "lock_all": ("win.Lock_all()", "pass", "win.Lock(1)"),
    "wait": ("win.Start(group.Incl([0]))", "win.Post(group.Incl([1]))", "win.Wait()"),
    "complete": ("pass", "win.Start(group.Incl([1]))", "win.Complete()"),
    "fence": ("win.Fence()", "win.Fence()", "win.Fence()"),
}


def test_windows(shmrun: Shmrun) -> None:
    done = shmrun("-n", 3, "--mpi", PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["all right"] * 3 + [""]


@pytest.mark.parametrize("epoch", EPOCHS)
def test_a_rank_that_dies_in_an_epoch_is_told(shmrun: Shmrun, epoch: str) -> None:
    dying, before, waiting = EPOCHS[epoch]
    done = shmrun("-n", 2, "--mpi", shmrun.write(DYING.format(dying=dying, before=before, waiting=waiting)))
    operation = "barrier" if epoch == "fence" else "MPI_Win_"
    assert operation in done.stdout and "rank 1 " in done.stdout and "SIGKILL" in done.stdout, done.stdout + done.stderr
