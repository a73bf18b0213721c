"""Which element type the result of an arithmetic operation has: MindSpore's rules, which are not numpy's.

Types have an order: bool, integers, floating types, complex types. The operand of the highest kind decides, and among
tensors of that kind the wider one. A number only counts if its kind is higher than the tensor's: then it is an int64,
a float32 or a complex64. So float32 * numpy.float64(2) and int64 / 2 are float32. Integers divide as float32.
"""

from typing import Any

import numpy as np

from shmcoll.mindspore.common import dtype as dtypes

KINDS = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}  # "V": bfloat16, in some versions of ml_dtypes
OF_NUMBER = (dtypes.bool_.numpy, dtypes.int64.numpy, dtypes.float32.numpy, dtypes.complex64.numpy)
WIDE = {dtypes.float64.numpy: dtypes.float32.numpy, dtypes.complex128.numpy: dtypes.complex64.numpy}
WIDE_COMPLEX = (dtypes.complex128.numpy, dtypes.float64.numpy)


def common_type(x: Any, y: Any) -> np.dtype:
    """Return the element type in which two operands are computed. At least one is an array."""
    arrays = [one.dtype for one in (x, y) if isinstance(one, np.ndarray)]
    found = _join(*arrays) if len(arrays) == 2 else arrays[0]
    for one in (x, y):
        if not isinstance(one, np.ndarray) and _kind_of_number(one) > KINDS[found.kind]:
            found = _join(found, OF_NUMBER[_kind_of_number(one)])
    return found


def convert(ufunc: np.ufunc, operands: list[Any]) -> list[Any]:
    """Return the two operands of a function as arrays of their common type."""
    common = common_type(*operands)
    if ufunc is np.true_divide and KINDS[common.kind] < KINDS["f"]:
        common = dtypes.float32.numpy
    exact = KINDS[common.kind] < KINDS["f"]  # an integer number that does not fit is numpy's to refuse
    return [
        one.astype(common, copy=False)
        if isinstance(one, np.ndarray)
        else (one.item() if isinstance(one, np.generic) else one)
        if exact
        else np.asarray(one, common)
        for one in operands
    ]


def narrow(result: np.ndarray, operands: list[Any]) -> np.ndarray:
    """Return a result that numpy has widened to 64 bits as 32 bits, if no array had the wide type."""
    if result.dtype in WIDE and not any(getattr(one, "dtype", None) in WIDE_COMPLEX for one in operands):
        return result.astype(WIDE[result.dtype])
    return result


def _join(x: np.dtype, y: np.dtype) -> np.dtype:
    if KINDS[x.kind] == KINDS[y.kind]:
        return np.promote_types(x, y)
    low, high = sorted((x, y), key=lambda one: KINDS[one.kind])
    if high == dtypes.complex64.numpy and low == dtypes.float64.numpy:
        return dtypes.complex128.numpy
    return high


def _kind_of_number(value: Any) -> int:
    return KINDS[np.asarray(value).dtype.kind]
