"""The mpi4py that is installed: one whose module is for the MPICH family can use this library."""

from importlib.util import find_spec
from pathlib import Path

from shmcoll.engine.system.text import to_bytes
from shmcoll.errors import ShmcollError
from shmcoll.mpi.abi.library import SONAME

_INSTALL = "pip install 'shmcoll[mpi4py]'"


def check() -> None:
    """Raise `ShmcollError` if mpi4py is not installed, or is built for another MPI only."""
    try:
        package = find_spec("mpi4py")
    except ValueError:  # a program has put something into sys.modules
        package = None
    if package is None or not package.submodule_search_locations:
        raise ShmcollError(f"mpi4py is not installed; install it: {_INSTALL}")
    folder = Path(package.submodule_search_locations[0])
    modules = list(folder.glob("MPI.*.so"))
    if not any(to_bytes(SONAME) in module.read_bytes() for module in modules):
        raise ShmcollError(
            f"the mpi4py in {folder} is built for another MPI than the MPICH family; take the one of the index: "
            f"pip uninstall mpi4py, then {_INSTALL}"
        )
