"""Attributes that a program attaches to communicators, windows and datatypes, with its functions in C.

A key has a function that says whether a copy of the object gets the attribute, and one that is called when the
attribute goes. Both may be null: then nothing is copied, and nothing is called.
"""

import ctypes
from dataclasses import dataclass
from typing import Any

from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.objects import native_table
from shmcoll.mpi.objects.errors import MPIError

_INT = ctypes.c_int
_POINTER = ctypes.c_size_t
_COPY = ctypes.CFUNCTYPE(_INT, _INT, _INT, _POINTER, _POINTER, ctypes.POINTER(_POINTER), ctypes.POINTER(_INT))
_DELETE = ctypes.CFUNCTYPE(_INT, _INT, _INT, _POINTER, _POINTER)
_FIRST_KEY = 1 << 10


@dataclass
class Key:
    """A key of a program. kind: of objects that have it: comm, win or type. copy, delete: addresses in C."""

    kind: str
    copy: int
    delete: int
    extra: int
    is_freed: bool = False


_keys: dict[int, Key] = {}


def new_key(key: Key) -> int:
    """Return the number of a new key."""
    number = _FIRST_KEY + len(_keys)
    _keys[number] = key
    return number


def find_key(number: int, kind: str) -> Key:
    """Return the key of a number.

    Raises:
        MPIError: there is no such key of objects of this kind, or it is freed.
    """
    key = _keys.get(number)
    if key is None or key.kind != kind or key.is_freed:
        raise MPIError("MPI_ERR_KEYVAL", f"{number} is no key of attributes of this kind of object")
    return key


class Attributes:
    """The attributes of one object, by key: addresses of the program."""

    def __init__(self) -> None:
        self._values: dict[int, int] = {}

    def get(self, number: int) -> int | None:
        return self._values.get(number)

    def set(self, owner: Any, number: int, key: Key, value: int) -> None:
        if number in self._values:
            self.delete(owner, number, key)
        native_table.forget_attributes()
        self._values[number] = value

    def delete(self, owner: Any, number: int, key: Key) -> None:
        """Remove an attribute, after its function has been called.

        Raises:
            MPIError: there is none, or the function has returned an error.
        """
        native_table.forget_attributes()
        if number not in self._values:
            raise MPIError("MPI_ERR_ARG", f"there is no attribute with key {number}")
        if key.delete:
            _check(_DELETE(key.delete)(owner.handle, number, self._values[number], key.extra), "delete")
        del self._values[number]

    def clear(self, owner: Any) -> None:
        """Remove all, the last one that was set first, because the object goes."""
        for number in reversed(list(self._values)):
            self.delete(owner, number, _keys[number])

    def copied(self, owner: Any) -> "Attributes":
        """Return the attributes of a copy of the object: those whose functions say so."""
        copy = Attributes()
        for number, value in self._values.items():
            key = _keys[number]
            if key.copy:
                new, flag = _POINTER(), _INT()
                status = _COPY(key.copy)(owner.handle, number, key.extra, value, ctypes.byref(new), ctypes.byref(flag))
                _check(status, "copy")
                if flag.value:
                    copy._values[number] = new.value
        return copy


def _check(status: int, what: str) -> None:
    if status != c["MPI_SUCCESS"]:
        raise MPIError(status, f"the function that shall {what} an attribute has returned {status}")
