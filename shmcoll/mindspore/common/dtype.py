"""`mindspore.common.dtype`: the element types under the path that MindSpore has."""

from typing import Any

import numpy as np

from shmcoll.mindspore.dtypes import (
    as_numpy_dtype,
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

int_, uint, float_ = int64, uint64, float64
half, single, double = float16, float32, float64
int_type = (int8, int16, int32, int64)
uint_type = (uint8, uint16, uint32, uint64)
float_type = (float16, float32, float64, bfloat16)
complex_type = (complex64, complex128)
number_type = (*int_type, *uint_type, *float_type, *complex_type)


def dtype_to_nptype(type_: Any) -> type[np.generic]:
    """Return numpy's scalar type of an element type.

    Args:
        type_: such as `mindspore.float32`.

    Raises:
        TypeError: it is not an element type.
    """
    return as_numpy_dtype(type_).type
