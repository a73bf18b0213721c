"""Packing: the bytes of elements one behind the other. The copies are native, by `engine/kernels/runs.py`."""

import ctypes
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.engine.compiler.compile import load_functions
from shmcoll.engine.kernels import runs as native
from shmcoll.startup.warm import fill_cache

if TYPE_CHECKING:
    from shmcoll.mpi.objects.buffers import Buffer

_WORD = ctypes.c_int64


def pack(buffer: "Buffer") -> np.ndarray:
    """Return the bytes of the elements, packed."""
    packed = np.empty(buffer.bytes, np.uint8)
    _move(_native()[0], buffer.datatype.rows, buffer.address, buffer.datatype.extent, buffer.count, packed)
    return packed


def unpack(buffer: "Buffer", data: np.ndarray) -> None:
    """Put packed bytes where the elements belong. There may be fewer than the elements have."""
    datatype = buffer.datatype
    if not len(data):
        return
    data = np.ascontiguousarray(data)
    whole, rest = divmod(len(data), datatype.size)
    _move(_native()[1], datatype.rows, buffer.address, datatype.extent, whole, data)
    if rest:
        part = datatype.runs.begin(rest).rows()
        _move(_native()[1], part, buffer.address + whole * datatype.extent, 0, 1, data[whole * datatype.size :])


def _move(move: Any, rows: np.ndarray, address: int, extent: int, count: int, packed: np.ndarray) -> None:
    move(rows.ctypes.data, len(rows), address, extent, count, packed.ctypes.data)


@cache
def _native() -> tuple[Any, Any]:
    """Return the functions that pack and unpack. A process of its own compiles them, once for each machine, because the
    program may hide numba."""
    fill_cache([native.NAME])
    pack_at, unpack_at = load_functions(native.NAME, native.functions)
    kind = ctypes.CFUNCTYPE(_WORD, *[_WORD] * 6)
    return kind(pack_at), kind(unpack_at)
