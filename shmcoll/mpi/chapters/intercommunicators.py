"""MPI's chapter on intercommunicators."""

from shmcoll.mpi.chapters import groups
from shmcoll.mpi.objects.communicators import Comm, Group
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi


@mpi()
def Comm_test_inter(comm: Comm) -> bool:
    return comm.is_inter


@mpi()
def Comm_remote_size(comm: Comm) -> int:
    return _remote(comm).size


@mpi()
def Comm_remote_group(comm: Comm) -> Group:
    return groups.made(_remote(comm).ranks)


def _remote(comm: Comm) -> Group:
    if comm.remote is None:
        raise MPIError("MPI_ERR_COMM", f"{comm.in_words} is not an intercommunicator")
    return comm.remote
