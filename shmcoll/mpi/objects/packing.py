"""Packing: the bytes of elements one behind the other. The copies are native, by `engine/kernels/runs.py`."""

import ctypes
from functools import cache
from typing import Any

import numpy as np

from shmcoll.engine.compiler.compile import load_functions
from shmcoll.engine.kernels import runs as native
from shmcoll.mpi.objects.datatypes import Datatype
from shmcoll.mpi.objects.scratch import scratch

_WORD = ctypes.c_int64


def pack(address: int, count: int, datatype: Datatype, out: np.ndarray | None = None) -> np.ndarray:
    """Return the bytes of elements, packed. out: where to put them."""
    packed = scratch(count * datatype.size) if out is None else out
    _move(_native()[0], datatype.rows, address, datatype.extent, count, packed)
    return packed


def unpack(address: int, datatype: Datatype, data: np.ndarray) -> None:
    """Put packed bytes where the elements belong. The last element may get only some of its bytes."""
    if not len(data):
        return
    data = np.ascontiguousarray(data)
    whole, rest = divmod(len(data), datatype.size)
    _move(_native()[1], datatype.rows, address, datatype.extent, whole, data)
    if rest:
        part = datatype.runs.begin(rest).rows()
        _move(_native()[1], part, address + whole * datatype.extent, 0, 1, data[whole * datatype.size :])


def _move(move: Any, rows: np.ndarray, address: int, extent: int, count: int, packed: np.ndarray) -> None:
    move(rows.ctypes.data, len(rows), address, extent, count, packed.ctypes.data)


@cache
def _native() -> tuple[Any, Any]:
    """Return the functions that pack and unpack."""
    pack_at, unpack_at = load_functions(native.NAME, native.functions)
    kind = ctypes.CFUNCTYPE(_WORD, *[_WORD] * 6)
    return kind(pack_at), kind(unpack_at)
