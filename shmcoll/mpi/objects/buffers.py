"""Elements in the memory of a program: an address, how many there are, and their datatype.

The bytes of a contiguous datatype are used where they are. Those of another one are packed into an array of its own,
and unpacked from one.
"""

import ctypes

import numpy as np

from shmcoll.mpi.abi.memory import IN_PLACE
from shmcoll.mpi.objects.datatypes import Datatype, element
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.packing import pack, unpack
from shmcoll.mpi.objects.scratch import scratch

#: addresses between which a program can have memory, and those that are none, in words
_FIRST, _LAST = 1 << 12, 1 << 56
_WORDS = {0: "a null pointer", IN_PLACE: "MPI_IN_PLACE"}


class Buffer:
    """Elements of a program.

    Raises:
        MPIError: the count is negative, the datatype is not committed, or there is no memory.
    """

    __slots__ = ("address", "count", "datatype")

    def __init__(self, address: int, count: int, datatype: Datatype):
        if count < 0:
            raise MPIError("MPI_ERR_COUNT", f"count {count} is negative")
        checked(datatype).check_committed()
        if count and datatype.size and not _FIRST <= address + datatype.true_lb < _LAST:  # from MPI_BOTTOM on as well
            raise MPIError("MPI_ERR_BUFFER", f"{_WORDS.get(address, f'{address:#x}')} is not an address of a buffer")
        self.address, self.count, self.datatype = address, count, datatype

    @property
    def bytes(self) -> int:
        return self.count * self.datatype.size

    def whole(self) -> np.ndarray:
        """Return the bytes of the program's memory, of a contiguous datatype."""
        return memory_at(self.address + self.datatype.true_lb, self.bytes)

    def packed(self) -> np.ndarray:
        """Return the bytes of the elements: the program's own, if the datatype is contiguous."""
        return self.whole() if self.datatype.is_contiguous else pack(self.address, self.count, self.datatype)

    def pack_into(self, out: np.ndarray) -> None:
        """Put the bytes of the elements into an array."""
        if self.datatype.is_contiguous:
            out[:] = self.whole()
        else:
            pack(self.address, self.count, self.datatype, out)

    def target(self) -> np.ndarray:
        """Return bytes to receive into: the program's own if the datatype is contiguous, else to be given to `fill`."""
        return self.whole() if self.datatype.is_contiguous else scratch(self.bytes)

    def fill(self, data: np.ndarray) -> None:
        """Put bytes where the elements belong. It does nothing if `target` has given the program's own."""
        if not self.datatype.is_contiguous:
            unpack(self.address, self.datatype, data)

    def fill_from(self, data: np.ndarray) -> None:
        """Put bytes where the elements belong. There may be fewer than the elements have."""
        if self.datatype.is_contiguous:
            self.whole()[: len(data)] = data
        else:
            self.fill(data)

    def typed(self, data: np.ndarray) -> np.ndarray:
        """Return packed bytes as an array of the basic type.

        Raises:
            MPIError: there is not one basic type, or numpy has none like it.
        """
        basic = self.datatype.basic
        dtype = element(basic) if basic else None
        if dtype is None:
            raise MPIError("MPI_ERR_TYPE", f"{self.datatype.in_words} has not one basic type that can be computed with")
        return data.view(dtype)


def checked(datatype: Datatype | None) -> Datatype:
    """Return a datatype that may be null where a buffer is not used, and is needed here."""
    if datatype is None:
        raise MPIError("MPI_ERR_TYPE", "MPI_DATATYPE_NULL is not a valid MPI_Datatype")
    return datatype


def check_apart(sent: Buffer, received: Buffer) -> None:
    """Raise if two buffers of a call share bytes, and are not the same one. Those with gaps may lie in each other."""
    if sent is received or not (sent.bytes and received.bytes):
        return
    if not (sent.datatype.is_contiguous and received.datatype.is_contiguous):
        return
    if sent.address < received.address + received.bytes and received.address < sent.address + sent.bytes:
        raise MPIError(
            "MPI_ERR_BUFFER", "what is sent and what is received overlap; pass MPI_IN_PLACE instead of the send buffer"
        )


class Elements(Buffer):
    """Elements in memory of our own, laid out as the datatype has it."""

    __slots__ = ("_memory",)

    def __init__(self, count: int, datatype: Datatype, data: np.ndarray | None = None):
        low, high = datatype.span(count) if count else (0, 0)
        self._memory = np.zeros(high - low, np.uint8)
        super().__init__(self._memory.ctypes.data - low, count, datatype)
        if data is not None:
            self.fill_from(data)


def memory_at(address: int, length: int) -> np.ndarray:
    """Return bytes at an address as an array."""
    if length == 0:
        return np.empty(0, np.uint8)
    return np.ndarray(length, np.uint8, (ctypes.c_uint8 * length).from_address(address))  # type: ignore[arg-type]
