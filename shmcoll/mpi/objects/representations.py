"""How data are stored in files: as in memory, as external32, or as functions of the program convert them."""

import ctypes
from dataclasses import dataclass

import numpy as np

from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.objects import external32
from shmcoll.mpi.objects.buffers import Buffer
from shmcoll.mpi.objects.datatypes import Datatype
from shmcoll.mpi.objects.errors import MPIError

_INT, _AINT, _POINTER = ctypes.c_int, ctypes.c_ssize_t, ctypes.c_size_t
_CONVERT = ctypes.CFUNCTYPE(_INT, _POINTER, _INT, _INT, _POINTER, ctypes.c_longlong, _POINTER)
_LARGE_CONVERT = ctypes.CFUNCTYPE(_INT, _POINTER, _INT, ctypes.c_longlong, _POINTER, ctypes.c_longlong, _POINTER)
_EXTENT = ctypes.CFUNCTYPE(_INT, _INT, ctypes.POINTER(_AINT), _POINTER)


class Native:
    """As in memory."""

    def size(self, datatype: Datatype) -> int:
        """Return how many bytes an element takes in a file."""
        return datatype.size

    def stored(self, buffer: Buffer) -> np.ndarray:
        """Return the bytes that a file gets for elements."""
        return buffer.packed()

    def load(self, buffer: Buffer, data: np.ndarray) -> int:
        """Put elements into memory from bytes of a file, which may be fewer. Return how many bytes of them came."""
        buffer.fill_from(data)
        return len(data)


class External32(Native):
    """The representation of the standard that is the same on all machines."""

    def size(self, datatype: Datatype) -> int:
        return external32.size_of(datatype)

    def stored(self, buffer: Buffer) -> np.ndarray:
        return external32.to_external(buffer.datatype, buffer.packed())

    def load(self, buffer: Buffer, data: np.ndarray) -> int:
        unit = max(self.size(buffer.datatype), 1)
        converted = external32.from_external(buffer.datatype, data[: len(data) - len(data) % unit])
        buffer.fill_from(converted)
        return len(converted)


@dataclass(frozen=True)
class OfProgram(Native):
    """One that a program has registered. read, write, extent: addresses of its functions in C; the first two may be 0:
    then data are as in memory. is_large: whether they take large counts."""

    read: int
    write: int
    extent: int
    extra: int
    is_large: bool

    def size(self, datatype: Datatype) -> int:
        if not (self.read or self.write):
            return datatype.size
        extent = _AINT()
        _check(_EXTENT(self.extent)(datatype.handle, ctypes.byref(extent), self.extra))
        return extent.value

    def stored(self, buffer: Buffer) -> np.ndarray:
        if not self.write:
            return buffer.packed()
        data = np.zeros(buffer.count * self.size(buffer.datatype), np.uint8)
        self._convert(self.write, buffer, buffer.count, data)
        return data

    def load(self, buffer: Buffer, data: np.ndarray) -> int:
        if not self.read:
            return super().load(buffer, data)
        count = len(data) // max(self.size(buffer.datatype), 1)
        self._convert(self.read, buffer, count, data)
        return count * buffer.datatype.size

    def _convert(self, function: int, buffer: Buffer, count: int, data: np.ndarray) -> None:
        kind = _LARGE_CONVERT if self.is_large else _CONVERT
        status = kind(function)(buffer.address, buffer.datatype.handle, count, data.ctypes.data, 0, self.extra)
        _check(status)


_known: dict[str, Native] = {"native": Native(), "internal": Native(), "external32": External32()}


def find(name: str) -> Native:
    """Return the representation of a name.

    Raises:
        MPIError: there is none.
    """
    if name not in _known:
        raise MPIError("MPI_ERR_UNSUPPORTED_DATAREP", f"there is no data representation {name!r}")
    return _known[name]


def register(name: str, representation: Native) -> None:
    """Give a representation a name.

    Raises:
        MPIError: there is one of this name, or the name is too long.
    """
    if len(name) >= c["MPI_MAX_DATAREP_STRING"]:
        raise MPIError("MPI_ERR_ARG", f"the name of a data representation has {len(name)} characters")
    if name in _known:
        raise MPIError("MPI_ERR_DUP_DATAREP", f"there is a data representation {name!r} already")
    _known[name] = representation


def _check(status: int) -> None:
    if status != c["MPI_SUCCESS"]:
        raise MPIError(status, f"a function of a data representation has returned {status}")
