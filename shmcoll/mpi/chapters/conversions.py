"""MPI's chapter on languages: handles as integers of C and of Fortran. Here they are the same numbers."""

import ctypes

from shmcoll.mpi.abi.facts import FUNCTIONS
from shmcoll.mpi.abi.memory import number_type
from shmcoll.mpi.objects.functions import CALLBACKS

_SUFFIXES = ("_toint", "_fromint", "_c2f", "_f2c")


def _same(handle: int) -> int:
    return handle


for _name, (_result, *_arguments) in FUNCTIONS.items():
    if _name.endswith(_SUFFIXES) and len(_arguments) == 1:
        _taken = number_type(_arguments[0].split()[0])
        CALLBACKS[_name] = ctypes.CFUNCTYPE(number_type(_result), _taken)(_same)
