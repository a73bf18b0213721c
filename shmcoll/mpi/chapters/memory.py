"""MPI's chapters on memory and addresses."""

import numpy as np

from shmcoll.mpi.abi.memory import Numbers
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.info import Info

#: arrays by address. numpy has long ones in the arena, where other ranks reach them
_arrays: dict[int, np.ndarray] = {}


@mpi(nullable=("info",))
def Alloc_mem(size: int, _info: Info | None, place: int) -> None:
    if size < 0:
        raise MPIError("MPI_ERR_ARG", f"size {size} is negative")
    array = np.empty(max(size, 1), np.uint8)
    address = array.ctypes.data
    pointer = Numbers(np.ctypeslib.as_ctypes_type(np.uintp), place)
    pointer.write([address])
    _arrays[address] = array


@mpi()
def Free_mem(address: int) -> None:
    if address and _arrays.pop(address, None) is None:
        raise MPIError("MPI_ERR_BASE", f"{address:#x} is no memory from MPI_Alloc_mem, or it is freed already")


@mpi()
def Get_address(location: int) -> int:
    return location


@mpi()
def Aint_add(base: int, displacement: int) -> int:
    return base + displacement


@mpi()
def Aint_diff(first: int, second: int) -> int:
    return first - second
