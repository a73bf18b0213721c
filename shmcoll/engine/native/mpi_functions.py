"""The native functions of MPI for the compiler: all are in one object file, which has a table of its own."""

from typing import Any

from shmcoll.engine.native import mpi_collectives, mpi_counted, mpi_getters, mpi_messages, mpi_requests, mpi_windows
from shmcoll.engine.native.mpi_entry import install

NAME = "mpi_functions"
INSTALL = "install"

#: by the name in C: what makes the function from the codes of its operations, its number, and whether it is the form
#: for large counts; the names of the operations; and the number of arguments in C
_MAKERS: dict[str, tuple[Any, str, int]] = (
    mpi_collectives.FUNCTIONS
    | mpi_counted.FUNCTIONS
    | mpi_messages.FUNCTIONS
    | mpi_requests.FUNCTIONS
    | mpi_windows.FUNCTIONS
    | mpi_getters.FUNCTIONS
)
_WITHOUT_LARGE = {"Barrier"} | mpi_requests.WITHOUT_LARGE | mpi_windows.WITHOUT_LARGE | mpi_getters.WITHOUT_LARGE

#: the names in C, by number
NAMES = tuple(f"MPI_{name}{form}" for name in _MAKERS for form in (("",) if name in _WITHOUT_LARGE else ("", "_c")))


def functions(codes):
    """Return all for the compiler. codes: of operations, by name."""
    made = {INSTALL: (install, 1)}
    for number, name in enumerate(NAMES):
        is_large = name.endswith("_c")
        make, operations, arguments = _MAKERS[name.removeprefix("MPI_").removesuffix("_c")]
        made[name] = make(*(codes[one] for one in operations.split()), number, is_large), arguments
    return made
