"""MPI's chapter on languages: handles as integers of C and of Fortran, which are the same numbers here; sizes."""

import ctypes
from functools import partial
from typing import Any

from shmcoll.mpi.abi.facts import FUNCTIONS
from shmcoll.mpi.abi.memory import WrongMemory, number_type
from shmcoll.mpi.objects.datatypes import BY_NAME
from shmcoll.mpi.objects.functions import MAKERS, mpi
from shmcoll.mpi.objects.info import Info, made
from shmcoll.mpi.objects.status import BYTES

_SUFFIXES = ("_toint", "_fromint", "_c2f", "_f2c")


def _same(handle: int) -> int:
    return handle


for _name, (_result, *_arguments) in FUNCTIONS.items():
    if _name.endswith(_SUFFIXES) and len(_arguments) == 1:
        _taken = number_type(_arguments[0].split()[0])
        MAKERS[_name] = partial(ctypes.CFUNCTYPE(number_type(_result), _taken), _same)


for _name in ("c2f", "f2c", "c2f08", "f082c", "f2f08", "f082f"):  # a status has one form here

    @mpi(name=f"Status_{_name}", inout=("f_status",))
    def copy(source: Any, target: Any) -> None:
        into, out_of = (getattr(one, "address", one) for one in (target, source))
        if not into or not out_of:
            raise WrongMemory("a status is a null pointer")
        ctypes.memmove(into, out_of, BYTES)


@mpi()
def Abi_get_version() -> tuple[int, int]:
    """Say that this is the ABI of MPICH, not the one of the standard."""
    return -1, -1


@mpi()
def Abi_get_info() -> Info:
    return made({f"mpi_{name.lower()}_size": str(BY_NAME[name].size) for name in ("AINT", "COUNT", "OFFSET")})


@mpi()
def Abi_get_fortran_info() -> None:
    """There are no functions for Fortran."""


@mpi(name="Abi_get_fortran_booleans")
def get_booleans(_size: int, _true: int, _false: int) -> bool:
    return False
