"""MPI's chapter on windows: when memory may be accessed. `objects/windows.py` has the protocol.

An access is complete when its call returns. So what waits for accesses has only to keep the order of loads and stores.
"""

from shmcoll.engine import atomics
from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.objects.communicators import PROC_NULL, Group
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.windows import Window

_LOCKS = {c["MPI_LOCK_EXCLUSIVE"]: False, c["MPI_LOCK_SHARED"]: True}


@mpi()
def Win_fence(assertion: int, win: Window) -> None:
    win.check_process("MPI_Win_fence")
    win.epochs.fence(assertion)


@mpi()
def Win_start(group: Group, _assertion: int, win: Window) -> None:
    win.check_process("MPI_Win_start")
    win.epochs.start(group)


@mpi()
def Win_complete(win: Window) -> None:
    win.check_process("MPI_Win_complete")
    win.epochs.complete()


@mpi()
def Win_post(group: Group, _assertion: int, win: Window) -> None:
    win.check_process("MPI_Win_post")
    win.epochs.post(group)


@mpi()
def Win_wait(win: Window) -> None:
    win.check_process("MPI_Win_wait")
    win.epochs.wait()


@mpi()
def Win_test(win: Window) -> bool:
    win.check_process("MPI_Win_test")
    return win.epochs.test()


@mpi()
def Win_lock(kind: int, rank: int, assertion: int, win: Window) -> None:
    win.check_process("MPI_Win_lock")
    if kind not in _LOCKS:
        raise MPIError("MPI_ERR_LOCKTYPE", f"{kind} is neither MPI_LOCK_EXCLUSIVE nor MPI_LOCK_SHARED")
    if rank != PROC_NULL:
        win.epochs.lock(rank, assertion, shared=_LOCKS[kind])


@mpi()
def Win_unlock(rank: int, win: Window) -> None:
    win.check_process("MPI_Win_unlock")
    if rank != PROC_NULL:
        win.epochs.unlock(rank)


@mpi()
def Win_lock_all(assertion: int, win: Window) -> None:
    win.check_process("MPI_Win_lock_all")
    win.epochs.lock_all(assertion)


@mpi()
def Win_unlock_all(win: Window) -> None:
    win.check_process("MPI_Win_unlock_all")
    win.epochs.unlock_all()


def _flushes(name: str) -> None:
    """Register a flush of the accesses at one rank, and at all."""

    @mpi(name=name)
    def flush(rank: int, win: Window) -> None:
        if rank != PROC_NULL:
            win.check_rank(rank)
            win.epochs.check_locked(rank, f"MPI_{name}")
            atomics.fence()

    @mpi(name=f"{name}_all")
    def flush_all(win: Window) -> None:
        win.epochs.check_locked(None, f"MPI_{name}_all")
        atomics.fence()


for _name in ("Win_flush", "Win_flush_local"):
    _flushes(_name)


@mpi()
def Win_sync(_win: Window) -> None:
    atomics.fence()
