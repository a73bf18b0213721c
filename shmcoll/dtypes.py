"""The element types: code, numpy dtype, and the type that sums are kept in.

Codes travel in headers and index the kernel table. Half types are summed in float32 and rounded once. bfloat16 comes
from `ml_dtypes`, which is imported here because its numpy type number exists only after that.
"""

from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class DType:
    code: int
    name: str
    numpy: np.dtype
    accumulator: np.dtype


def _table() -> tuple[DType, ...]:
    names = (
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128"
    )
    table = []
    for code, name in enumerate(names.split(), start=1):
        numpy = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
        table.append(DType(code, name, numpy, np.dtype(np.float32) if name in ("float16", "bfloat16") else numpy))
    return tuple(table)


DTYPES = _table()
BY_NUMPY = {d.numpy: d for d in DTYPES}
BY_CODE = {d.code: d for d in DTYPES}
BY_NAME = {d.name: d for d in DTYPES}

#: reductions by name; codes travel in headers
REDUCTIONS = {"sum": 1, "prod": 2, "min": 3, "max": 4, "avg": 5}
REDUCTION_NAMES = {code: name for name, code in REDUCTIONS.items()}


def dtype_of(array: np.ndarray, operation: str, rank: int) -> DType:
    """The `DType` of an array; `TypeError` for one that shmcoll cannot move (strings, objects, dates, ...)."""
    try:
        return BY_NUMPY[array.dtype]
    except KeyError:
        raise TypeError(
            f"{operation} on rank {rank}: dtype {array.dtype} is not supported; "
            f"use one of {', '.join(BY_NAME)} (or view the bytes as uint8)"
        ) from None
