"""Functions of MPI that are not there: each says so in words when it is called."""

import re
from functools import partial
from typing import Any

from shmcoll.mpi.abi.facts import FUNCTIONS, NAMES
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import MAKERS, callback

#: why, by a pattern of the name without MPI_ or MPIX_
REASONS = {
    r"Abi_set_fortran_\w+": "there is no Fortran here",
    r"Comm_agree": "ranks agree in spite of failures by MPIX_Comm_shrink and a reduction",
    r".*_enqueue(_c)?|(Stream|Threadcomm|Async)_\w+|(Start|Stop)_progress_thread|Comm_(get_stream|test_threadcomm)": (
        "it belongs to streams and threads of MPICH, not to MPI"
    ),
    r".*": "it is an extension of MPICH, not of MPI",
}


#: the names in C
REFUSED: list[str] = []


def refuse_the_rest() -> None:
    """Register a function that raises for each name that has none."""
    for name in NAMES:
        if name not in MAKERS:
            REFUSED.append(name)
            MAKERS[name] = partial(callback, name, partial(_raise, name) if FUNCTIONS[name][0] == "int" else _nothing)


def reason(name: str) -> str:
    """Return why a function is not there."""
    short = name.split("_", 1)[1]
    return next(text for pattern, text in REASONS.items() if re.fullmatch(pattern, short))


def _nothing(*_: Any) -> int:
    return 0


def _raise(name: str, *_: Any) -> None:
    raise MPIError("MPI_ERR_UNSUPPORTED_OPERATION", f"shmcoll does not have this function: {reason(name)}")
