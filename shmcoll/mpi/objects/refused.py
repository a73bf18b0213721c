"""Functions of MPI that are not there: each says so in words when it is called."""

from functools import partial
from typing import Any

from shmcoll.mpi.abi.facts import FUNCTIONS, NAMES
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import MAKERS, callback


def refuse_the_rest() -> None:
    """Register a function that raises for each name that has none."""
    for name in NAMES:
        MAKERS.setdefault(name, partial(callback, name, _raise if FUNCTIONS[name][0] == "int" else _nothing))


def _nothing(*_: Any) -> int:
    return 0


def _raise(*_: Any) -> None:
    raise MPIError("MPI_ERR_UNSUPPORTED_OPERATION", "shmcoll does not have this function")
