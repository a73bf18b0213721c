"""numpy's handlers of the memory of arrays (NEP 49), through the table of its C API: no compiler is needed.

A handler is a structure with four functions, in a capsule. Each array refers to the handler that has allocated it, and
is freed by that one. A context variable has the handler for new arrays: threads and asyncio tasks have one each, and a
new thread begins with the default one. `swap` sets it. `replace_default` changes the structure of the default handler
in place, which reaches all threads, and the arrays that it has allocated before.

Source: NEP 49; numpy/_core/include/numpy/ndarraytypes.h and numpy/_core/code_generators/numpy_api.py.
"""

import ctypes
from importlib import import_module
from typing import Any

import numpy as np

from shmcoll.engine.system.text import to_bytes

SET_HANDLER, GET_HANDLER, DEFAULT_HANDLER = 304, 305, 306  # places in the table
VERSION = 1
_CAPSULE = b"mem_handler"


class Allocator(ctypes.Structure):
    """numpy's PyDataMemAllocator."""

    _fields_ = (
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


class Handler(ctypes.Structure):
    """numpy's PyDataMem_Handler."""

    _fields_ = (("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("allocator", Allocator))


def default() -> Handler:
    """Return the default handler itself, not a copy. Raises `NotImplementedError` if numpy's structure is not the one
    that this file knows."""
    capsule = ctypes.cast(_entry(DEFAULT_HANDLER), ctypes.POINTER(ctypes.py_object)).contents.value
    address = _pointer_in(capsule, _CAPSULE)
    handler = Handler.from_address(address)
    if handler.version != VERSION:
        raise NotImplementedError(
            f"numpy {np.__version__} has memory handlers of version {handler.version}, shmcoll knows version "
            f"{VERSION}: its arrays cannot be shared by --share-arrays, SHMCOLL_SHARE_ARRAYS or allocating()"
        )
    return handler


def replace_default(context: int, functions: tuple[int, ...]) -> None:
    """Let the default handler call other functions, in the order of `Allocator`, from now on."""
    allocator = default().allocator
    allocator.context = context  # first: numpy's own functions do not look at it
    allocator.free, allocator.realloc = functions[3], functions[2]  # before there is anything that they must know
    allocator.malloc, allocator.calloc = functions[0], functions[1]


def make(name: str, context: int, functions: tuple[int, ...]) -> Any:
    """Return the capsule of a new handler. The handler exists until the process ends."""
    handler = Handler(to_bytes(name), VERSION, Allocator(context, *functions))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(handler))
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(ctypes.addressof(handler), _CAPSULE, None)


def swap(capsule: Any) -> Any:
    """Set the handler for new arrays of this thread or task. Returns the one before."""
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(_entry(SET_HANDLER))(capsule)


def _entry(place: int) -> int:
    """Return an entry of the table of numpy's C API."""
    package = "numpy._core" if int(np.__version__.partition(".")[0]) >= 2 else "numpy.core"
    table = _pointer_in(import_module(f"{package}._multiarray_umath")._ARRAY_API, None)
    return int(ctypes.c_void_p.from_address(table + place * ctypes.sizeof(ctypes.c_void_p)).value or 0)


def _pointer_in(capsule: Any, name: bytes | None) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return int(get(capsule, name))
