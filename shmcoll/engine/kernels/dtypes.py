"""The element types: code, numpy dtype, and the type that sums are kept in.

Codes travel in headers, in 8 bits, and index the kernel table. Half types are summed in float32 and rounded once.
bfloat16 comes from `ml_dtypes`, which is imported here because its numpy type number exists only after that.

Beside the plain types there are pairs of a value and an index, which argmin and argmax reduce: `pair_dtype`.
"""

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from shmcoll.engine.layout import MOST_CODES
from shmcoll.engine.system.text import shown

PAIR_CODES = 32  # the code of a pair is this + the code of its value


class DType(NamedTuple):
    code: int
    name: str
    numpy: np.dtype
    accumulator: np.dtype

    @property
    def is_pair(self) -> bool:
        return self.code >= PAIR_CODES

    @property
    def title(self) -> str:
        """The name in messages."""
        return self.name.replace("_", " ")


def _table() -> tuple[DType, ...]:
    names = (
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128"
    )
    table = []
    for code, name in enumerate(names.split(), start=1):
        numpy = np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)
        table.append(DType(code, name, numpy, np.dtype(np.float32) if name in ("float16", "bfloat16") else numpy))
    return tuple(table)


def _pair(value: DType) -> DType:
    both = np.dtype([("value", value.numpy), ("index", np.int64)], align=True)
    return DType(PAIR_CODES + value.code, f"pair_of_{value.name}", both, both)


DTYPES = _table()
PAIRS = tuple(_pair(d) for d in DTYPES if d.numpy.kind in "iu" or d.accumulator.kind == "f")
BY_NUMPY = {d.numpy: d for d in (*DTYPES, *PAIRS)}
BY_CODE = {d.code: d for d in (*DTYPES, *PAIRS)}
BY_NAME = {d.name: d for d in DTYPES}

#: reductions by name; codes travel in headers
REDUCTIONS = {
    name: code
    for code, name in enumerate(
        ["sum", "prod", "min", "max", "avg", "band", "bor", "bxor", "land", "lor", "lxor", "argmin", "argmax"],
        start=1,
    )
}
#: operators that are objects: `shmcoll.premul_sum`, `shmcoll.op`
PREMUL_SUM, USER = len(REDUCTIONS) + 1, len(REDUCTIONS) + 2
#: a table with a row for each dtype code and a place for each reduction that has a kernel has so many of either
DTYPE_CODES, REDUCTION_CODES = (1 << max(codes).bit_length() for codes in (BY_CODE, REDUCTIONS.values()))
REDUCTION_NAMES = {code: name for name, code in REDUCTIONS.items()} | {PREMUL_SUM: "premul_sum"}

if len(DTYPES) >= PAIR_CODES or DTYPE_CODES >= MOST_CODES or USER >= MOST_CODES:
    raise ImportError("there are more dtypes or operators than codes for them")


def pair_dtype(value: Any) -> np.dtype:
    """Return the structured dtype for the operators argmin and argmax.

    Args:
        value: the dtype of the values, an integer or a real floating dtype.

    Returns:
        An aligned dtype with the fields "value" and "index", which is int64.

    Raises:
        TypeError: there are no pairs of this dtype.

    Example:
        >>> pair = np.array((10.0 - comm.rank, comm.rank), shmcoll.pair_dtype("float64"))
        >>> int(comm.all_reduce(pair, "argmin")["index"]) == comm.size - 1
        True
    """
    try:
        dtype = np.dtype(value)
    except TypeError as error:
        raise TypeError(f"pair_dtype: {shown(value)} is not a dtype: {error}") from None
    known = BY_NUMPY.get(dtype)
    if known is None or known.code + PAIR_CODES not in BY_CODE:
        values = ", ".join(value_of_pair(p).name for p in PAIRS)
        raise TypeError(f"pair_dtype: there are no pairs of {dtype}; use one of {values}")
    return BY_CODE[known.code + PAIR_CODES].numpy


def value_of_pair(pair: DType) -> DType:
    return BY_CODE[pair.code - PAIR_CODES]
