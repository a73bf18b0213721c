"""A program that goes on when a rank has died, by MPICH's functions, which mpi4py does not name. Run with 3 ranks."""

import ctypes
import os
import signal

from mpi4py import MPI

library = ctypes.CDLL(os.environ["MPI4PY_LIBMPI"])
world = MPI.COMM_WORLD
comm = world.Dup()


def handle(obj):
    return ctypes.c_int.from_address(MPI._addressof(obj))


def called(name, make, *arguments):
    """Return what a function that makes a handle has made."""
    made = make()
    assert library[f"MPIX_Comm_{name}"](*arguments, ctypes.byref(handle(made))) == MPI.SUCCESS, name
    return made


def dead():
    group = called("get_failed", MPI.Group, handle(comm))
    return MPI.Group.Translate_ranks(group, range(group.size), world.group) if group.size else []


assert dead() == []
comm.Barrier()
if comm.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    comm.Barrier()
except MPI.Exception as error:
    assert error.Get_error_class() == MPI.ERR_PROC_ABORTED and "rank 1" in str(error), error
while dead() != [1]:
    pass
assert called("failure_get_acked", MPI.Group, handle(comm)).size == 0
assert library.MPIX_Comm_failure_ack(handle(comm)) == 0
assert called("failure_get_acked", MPI.Group, handle(comm)).size == 1
left = called("shrink", MPI.Intracomm, handle(comm))
assert left.size == 2 and left.allreduce(left.rank) == 1
assert left.group.Translate_ranks([0, 1], world.group) == [0, 2]
last = left.Dup()
if last.rank == 0:
    assert library.MPIX_Comm_revoke(handle(last)) == 0
for wait in (lambda: last.recv(source=1 - last.rank), last.Barrier):
    try:
        while True:
            wait()
    except MPI.Exception as error:
        assert "MPIX_Comm_revoke" in str(error), error
assert called("shrink", MPI.Intracomm, handle(last)).size == 2
left.Barrier()
print("all right", flush=True)
