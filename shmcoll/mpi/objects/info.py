"""Info: keys and values, in the order in which they were set."""

from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.abi.memory import text_at
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.handles import INFO

LONGEST_KEY, LONGEST_VALUE = c["MPI_MAX_INFO_KEY"], c["MPI_MAX_INFO_VAL"]


class Info(dict[str, str]):
    """An info object."""

    handle = INFO.null


def key_at(address: int) -> str:
    """Return the key at an address.

    Raises:
        MPIError: it is empty, or longer than MPI allows.
    """
    key = text_at(address).strip()
    if not 0 < len(key) <= LONGEST_KEY:
        raise MPIError("MPI_ERR_INFO_KEY", f"key {key!r} must have 1 to {LONGEST_KEY} characters")
    return key


def made(items: dict[str, str]) -> Info:
    """Return a new info object of these items."""
    info = Info(items)
    INFO.add(info)
    return info
