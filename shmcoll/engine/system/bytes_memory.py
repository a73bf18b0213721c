"""The memory of `bytes`. CPython lets the maker of a `bytes` object fill it (`PyBytes_FromStringAndSize` without a
string), and pass it on only then.
"""

import ctypes
from collections.abc import Callable
from typing import cast

import numpy as np

_make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyBytes_FromStringAndSize", ctypes.pythonapi)
)
_view = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_ssize_t, ctypes.c_ssize_t, ctypes.c_int)(
    ("PyMemoryView_FromMemory", ctypes.pythonapi)
)
_WRITEABLE = 0x200  # PyBUF_WRITE

#: (bytes) -> the address of their memory
address_of_bytes: Callable[[bytes], int] = ctypes.PYFUNCTYPE(ctypes.c_ssize_t, ctypes.py_object)(
    ("PyBytes_AsString", ctypes.pythonapi)
)


def new_bytes(size: int) -> bytes:
    """Return `bytes` to be filled, of two bytes or more: CPython has only one object of each shorter value."""
    return cast(bytes, _make(None, size))


def to_fill(one: bytes) -> np.ndarray:
    """Return the memory of new `bytes` as an array, which does not keep it."""
    return np.frombuffer(_view(address_of_bytes(one), len(one), _WRITEABLE), np.uint8)
