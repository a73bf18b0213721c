"""Programs for MPI, unchanged: this process is the library of MPI that mpi4py asks for.

    shmrun -n 4 --mpi script.py         a program of mpi4py
    import shmcoll.mpi                  in a notebook, before `from mpi4py import MPI`

mpi4py from the index contains no MPI. It loads a `libmpi.so.12`, which `abi/` writes, and whose functions this package
has. It is mpi4py itself that reads the program's arguments, pickles its objects and raises its exceptions.

    abi/         the facts of the ABI, the library, arguments in C
    objects/     handles and what they name: communicators, datatypes, requests ...; errors; functions that C calls
    chapters/    the functions of MPI, a file for each chapter of the standard
    process.py   this process, from MPI_Init to MPI_Finalize
"""

import atexit
import os

from shmcoll.mpi import chapters
from shmcoll.mpi.abi.loaded import Library
from shmcoll.mpi.objects import first_calls, native
from shmcoll.mpi.objects.functions import CALLBACKS

__all__ = ["use_native"]

chapters.load()
from shmcoll.mpi.chapters import topologies  # noqa: E402

_library = Library()
first_calls.make_in(_library)
_native = native.functions(CALLBACKS)
topologies.UNWEIGHTED.append(_library.variable("MPI_UNWEIGHTED"))
topologies.WEIGHTS_EMPTY.append(_library.variable("MPI_WEIGHTS_EMPTY"))
atexit.register(_library.close)  # Python can run no function for C any more
os.environ.pop("MPI4PY_MPIABI", None)  # mpi4py finds out, which lets a new process call us
if _library.path:
    os.environ["MPI4PY_LIBMPI"] = str(_library.path)


def use_native(is_on: bool) -> None:
    """Let native functions make the calls that they can make, or Python make all."""
    for name, address in _native.items():
        _library.put(name, address if is_on else CALLBACKS[name])


use_native(is_on=True)
