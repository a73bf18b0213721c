"""Memory that a program for MPI passes by its address: numbers, arrays of numbers, text."""

import ctypes
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from shmcoll.engine.system.text import exact_bytes, exact_text

#: integers of the ABI, by their types in C. Handles are integers; a file's is a pointer
NUMBERS: dict[str, Any] = {
    "int": ctypes.c_int,
    "MPI_Fint": ctypes.c_int,
    "MPI_Aint": ctypes.c_ssize_t,
    "MPI_Count": ctypes.c_longlong,
    "MPI_Offset": ctypes.c_longlong,
    "double": ctypes.c_double,
    "char": ctypes.c_char,
}
IN_PLACE = (1 << 64) - 1  # MPI_IN_PLACE, as an address
_POINTER = ctypes.c_size_t
_HANDLE = ctypes.c_int


def number_type(name: str) -> Any:
    """Return the type of ctypes for the type of a number or a handle in C."""
    if name in NUMBERS:
        return NUMBERS[name]
    return _POINTER if name == "MPI_File" or not name.startswith("MPI") else _HANDLE


class WrongMemory(ValueError):
    """What a program passes is not memory that can be used as it says."""


class Numbers:
    """An array of numbers, or one number, at an address. It is false if the address is 0. name: of the argument in C.

    Raises:
        WrongMemory: it is read or written, and the address is 0, or the count is negative.
    """

    __slots__ = ("_name", "_type", "address")

    def __init__(self, kind: Any, address: int, name: str = "an argument"):
        self._type, self.address, self._name = kind, address, name

    def __bool__(self) -> bool:
        return self.address != 0

    def read(self, count: int) -> list[int]:
        """Return the first `count` numbers."""
        return list(self._memory(count)) if count else []

    def array(self, count: int) -> np.ndarray:
        """Return the first `count` numbers as an array of its own."""
        return np.array(self._memory(count) if count else (), np.int64)

    def write(self, numbers: Iterable[int]) -> None:
        values = list(numbers)
        if values:
            self._memory(len(values))[:] = values

    def _memory(self, count: int) -> Any:
        if count < 0:
            raise WrongMemory(f"{self._name} cannot have {count} elements")
        return (self._type * count).from_address(self._place(0))

    def _place(self, i: int) -> int:
        """Return the address of a number."""
        if not self.address:
            raise WrongMemory(f"{self._name} is a null pointer")
        return int(self.address + i * ctypes.sizeof(self._type))

    @property
    def value(self) -> Any:
        """The first number."""
        return self[0]

    @value.setter
    def value(self, number: Any) -> None:
        self[0] = number

    def __getitem__(self, i: int) -> Any:
        return self._type.from_address(self._place(i)).value

    def __setitem__(self, i: int, number: Any) -> None:
        self._type.from_address(self._place(i)).value = number


def text_at(address: int) -> str:
    """Return the text of a string that ends with 0."""
    return exact_text(ctypes.string_at(address))


def put_text(address: int, text: str, room: int) -> int:
    """Store text with a 0 behind it, cut to what fits into `room` bytes. Return its length without the 0."""
    data = exact_bytes(text)[: max(room - 1, 0)]
    ctypes.memmove(address, data + b"\0", len(data) + 1)
    return len(data)


def pointers_at(address: int, count: int) -> Iterator[int]:
    """Yield pointers of an array."""
    yield from Numbers(_POINTER, address, "an array").read(count)
