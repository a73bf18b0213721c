"""What all ranks must have alike and no routine reads: a dtype that routines do not know, and the shape of a row.

Routines know the dtypes that have kernels (`engine/kernels/dtypes.py`). Arrays of any other dtype of fixed size travel
as bytes: an array of uint8 with one more dimension. The calls that count rows count elements when they reach the
routine. In both cases the arrays of two ranks may look alike to the routine, and be unlike to the user. So such a call
has a mark, a number that all ranks must share:

    0          the dtype is known, and nothing counts rows
    else       a hash of the dtype, a hash of the shape of a row, and the flags ROWS and FOREIGN

A call passes the mark as ARGUMENT_2, so that the fingerprint covers it; all_to_all passes it above its axis, from
MARK_SHIFT on. A rank that passes no array does not know the mark. For those the mark is above the dtype code instead:
in the table of counts (ELEMENT_TYPE), and in the shape that scatter and broadcast return. There a rank learns from the
mark that the dtype is foreign, and all ranks broadcast it next, in words (`spelled`).
"""

import ast
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import ml_dtypes
import numpy as np

from shmcoll.engine.kernels.dtypes import BY_NUMPY
from shmcoll.engine.system.text import to_bytes

DTYPE_BITS, ROW_BITS = 24, 28
AGREEING = 1 << (DTYPE_BITS + ROW_BITS + 2)  # in place of all this: an operation of `calls/common_dtype.py`
ROWS, FOREIGN = 1 << (DTYPE_BITS + ROW_BITS), 1 << (DTYPE_BITS + ROW_BITS + 1)
MARK_SHIFT = 8  # a mark and a dtype code, or an axis, share a word

_USER_TYPES = "ml_dtypes."


@lru_cache(maxsize=256)
def element_mark(dtype: np.dtype, row: tuple[int, ...] | None = None) -> int:
    """Return the mark of arrays of a dtype, in native byte order; `row`: the shape of a row, if rows are counted."""
    is_known = dtype in BY_NUMPY
    if is_known and row is None:
        return 0
    mark = _hash(spelled(dtype), DTYPE_BITS)
    if row is not None:
        mark |= ROWS | _hash(repr(row), ROW_BITS) << DTYPE_BITS
    return mark if is_known else mark | FOREIGN


def exact(array: np.ndarray) -> np.ndarray:
    """Return the array as routines read it, on the same memory: a plain ndarray, since the native entry does not read
    subclasses, and bytes with one more dimension if routines do not know the dtype."""
    plain = array if type(array) is np.ndarray else array.view(np.ndarray)
    if plain.dtype in BY_NUMPY:
        return plain
    if plain.nbytes == 0:  # nothing of it is read or written
        return np.empty((*plain.shape, plain.itemsize), np.uint8)
    return plain.reshape((*plain.shape, 1)).view(np.uint8)


def in_words(mark: int) -> str:
    """Return what messages say of a mark, behind the array."""
    told = f", of dtype {_title(mark & ((1 << DTYPE_BITS) - 1))}" if mark & FOREIGN else ""
    return told + (", axis=0" if mark & ROWS else "")


def is_movable(dtype: np.dtype) -> bool:
    """Return whether arrays of a dtype can be moved: each element is so many bytes, and has no reference in it."""
    if dtype.names is not None:
        return all(is_movable(dtype[name]) for name in dtype.names)
    if dtype.subdtype is not None:
        return is_movable(dtype.subdtype[0])
    if dtype.isbuiltin == 2:
        return getattr(ml_dtypes, dtype.type.__name__, None) is dtype.type
    return not dtype.hasobject and dtype.kind in "biufcmMSUV"


def spelled(dtype: np.dtype) -> str:
    """Return a dtype in words, the same for equal dtypes; `dtype_in_words` is the way back."""
    return repr(_literal(dtype))


def dtype_in_words(words: str) -> np.dtype:
    """Return the dtype that `spelled` has put into words."""
    return _built(ast.literal_eval(words))


def _literal(dtype: np.dtype) -> Any:
    if dtype.names is not None:
        assert dtype.fields is not None
        fields = [dtype.fields[name] for name in dtype.names]
        formats = [_literal(field[0]) for field in fields]
        titles = [field[2] if len(field) > 2 else None for field in fields]
        return list(dtype.names), formats, [field[1] for field in fields], titles, dtype.itemsize
    if dtype.subdtype is not None:
        return _literal(dtype.subdtype[0]), dtype.subdtype[1]
    return _USER_TYPES + dtype.type.__name__ if dtype.isbuiltin == 2 else dtype.str


def _built(literal: Any) -> np.dtype:
    if isinstance(literal, str):
        if literal.startswith(_USER_TYPES):
            return np.dtype(getattr(ml_dtypes, literal.removeprefix(_USER_TYPES)))
        return np.dtype(literal)
    if len(literal) == 2:
        return np.dtype((_built(literal[0]), literal[1]))
    names, formats, offsets, titles, itemsize = literal
    fields = {"names": names, "formats": [_built(one) for one in formats], "offsets": offsets, "itemsize": itemsize}
    if any(title is not None for title in titles):
        fields["titles"] = titles
    return np.dtype(fields)  # type: ignore[call-overload]


def _hash(text: str, bits: int) -> int:
    return int.from_bytes(blake2b(to_bytes(text), digest_size=8).digest(), "little") & ((1 << bits) - 1)


def _title(hashed: int) -> str:
    """Return the name of the dtype with this hash, as far as it is a usual one; else the hash."""
    units = ("", *(f"[{unit}]" for unit in ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")))
    usual = [np.dtype(f"{kind}8{unit}") for kind in "mM" for unit in units]
    usual += [np.dtype(f"{kind}{length}") for kind in "SUV" for length in range(1, 65)]
    usual += [np.dtype("g"), np.dtype("G")]
    types = (getattr(ml_dtypes, name) for name in ml_dtypes.__all__)
    usual += [np.dtype(one) for one in types if isinstance(one, type) and issubclass(one, np.generic)]
    return next((str(one) for one in usual if _hash(spelled(one), DTYPE_BITS) == hashed), f"of hash {hashed:x}")
