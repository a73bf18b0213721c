"""MPI_Status: source, tag, error and length of a message, in memory of the program, with MPICH's layout."""

import ctypes
from dataclasses import dataclass

from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.objects.errors import MPIError

IGNORE = c["MPI_STATUS_IGNORE"]
BYTES = 20


@dataclass
class Status:
    """What became of a message or of a request. bytes: how many came. The defaults are those of an empty status."""

    source: int = c["MPI_ANY_SOURCE"]
    tag: int = c["MPI_ANY_TAG"]
    error: int = 0
    bytes: int = 0
    is_cancelled: bool = False

    def store(self, address: int, *, with_error: bool = False) -> None:
        """Write this into a status of the program. with_error: whether the call is one that sets MPI_ERROR."""
        if address in (0, IGNORE):
            return
        words = (ctypes.c_int32 * 5).from_address(address)
        words[0] = ctypes.c_int32(self.bytes & 0xFFFFFFFF).value
        words[1] = (self.bytes >> 32) << 1 | self.is_cancelled
        words[2], words[3] = self.source, self.tag
        if with_error or self is EMPTY:
            words[4] = self.error


def at(address: int) -> Status:
    """Return a status of the program."""
    if address in (0, IGNORE):
        raise MPIError("MPI_ERR_ARG", "the status is a null pointer or MPI_STATUS_IGNORE")
    words = (ctypes.c_int32 * 5).from_address(address)
    length = (words[0] & 0xFFFFFFFF) | words[1] >> 1 << 32
    return Status(words[2], words[3], words[4], length, bool(words[1] & 1))


EMPTY = Status()
