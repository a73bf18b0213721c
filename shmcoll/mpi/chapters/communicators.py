"""MPI's chapter on communicators."""

from shmcoll.mpi.objects.functions import mpi


@mpi()
def Comm_rank(comm) -> int:
    return comm.rank


@mpi()
def Comm_size(comm) -> int:
    return comm.size


@mpi()
def Comm_test_inter(comm) -> bool:
    return comm.is_inter


@mpi()
def Barrier(comm) -> None:
    comm.native.barrier()


@mpi()
def Comm_set_errhandler(comm, errhandler) -> None:
    comm.errhandler = errhandler
