"""MPI's chapter on datatypes."""

from shmcoll.mpi.objects.datatypes import Datatype
from shmcoll.mpi.objects.functions import mpi


@mpi()
def Type_size(datatype: Datatype) -> int:
    return datatype.size


@mpi()
def Type_size_x(datatype: Datatype) -> int:
    return datatype.size


@mpi()
def Type_get_extent(datatype: Datatype) -> tuple[int, int]:
    return datatype.lb, datatype.extent


@mpi()
def Type_get_true_extent(datatype: Datatype) -> tuple[int, int]:
    return datatype.true_lb, datatype.true_ub - datatype.true_lb
