"""`mindspore.common.dtype`: element types. `str(float32)` is "Float32", its `repr` "mindspore.float32".

A `DType` equals the numpy dtype of the same name, and numpy takes it wherever it takes a dtype. Attributes that it does
not have itself (`kind`, `itemsize`, `type`, ...) are those of the numpy dtype.
"""

from typing import Any

import numpy as np

from shmcoll.engine.kernels.dtypes import BY_NAME


class DType:
    """One element type. `numpy`: the numpy dtype that it equals."""

    def __init__(self, name: str, printed: str):
        self.name = name
        self.numpy = BY_NAME[name].numpy
        self._printed = printed

    @property
    def dtype(self) -> np.dtype:
        return self.numpy

    @property
    def __numpy_dtype__(self) -> np.dtype:
        """The numpy dtype; numpy >= 2.4 reads this attribute in place of `dtype`."""
        return self.numpy

    def __str__(self) -> str:
        return self._printed

    def __repr__(self) -> str:
        return f"mindspore.{self.name}"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self.numpy == other.numpy
        return bool(self.numpy == other)

    def __hash__(self) -> int:
        return hash(self.numpy)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "numpy":
            raise AttributeError(name)
        return getattr(self.numpy, name)


bool_ = DType("bool", "Bool")
int8 = DType("int8", "Int8")
int16 = DType("int16", "Int16")
int32 = DType("int32", "Int32")
int64 = DType("int64", "Int64")
uint8 = DType("uint8", "UInt8")
uint16 = DType("uint16", "UInt16")
uint32 = DType("uint32", "UInt32")
uint64 = DType("uint64", "UInt64")
float16 = DType("float16", "Float16")
bfloat16 = DType("bfloat16", "BFloat16")
float32 = DType("float32", "Float32")
float64 = DType("float64", "Float64")
complex64 = DType("complex64", "Complex64")
complex128 = DType("complex128", "Complex128")

int_, uint, float_ = int64, uint64, float64
half, single, double = float16, float32, float64
int_type = (int8, int16, int32, int64)
uint_type = (uint8, uint16, uint32, uint64)
float_type = (float16, float32, float64, bfloat16)
complex_type = (complex64, complex128)
number_type = (*int_type, *uint_type, *float_type, *complex_type)

ALL = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float16, bfloat16, float32, float64, complex64, complex128,
)  # fmt: skip
BY_NUMPY = {one.numpy: one for one in ALL}
BY_PRINTED = {str(one): one for one in ALL}


def as_numpy_dtype(dtype: Any) -> np.dtype:
    """Return the numpy dtype of a `DType`, of one of MindSpore's own types, or of anything that numpy takes as a dtype.
    Raises `TypeError` for other values."""
    named = BY_PRINTED.get(str(dtype))
    return named.numpy if named else np.dtype(dtype)


def dtype_to_nptype(type_: Any) -> type[np.generic]:
    """Return numpy's scalar type of an element type.

    Args:
        type_: such as `mindspore.float32`.

    Raises:
        TypeError: it is not an element type.
    """
    return as_numpy_dtype(type_).type
