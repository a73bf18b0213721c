"""What users pass, made into what routines read: exact, contiguous, aligned ndarrays; or an error that says why not.

Bad input is refused here, before anything is published.
"""

import operator
from typing import Any

import numpy as np

from shmcoll.dtypes import BY_NUMPY, REDUCTIONS, DType, dtype_of
from shmcoll.engine.kernels import has_kernel


def as_array(x: Any, operation: str, rank: int) -> np.ndarray:
    """`x` as a C-contiguous, aligned ndarray in native byte order: itself where it is one, else a copy.

    Accepts arrays, anything with the buffer protocol, `__array__` or DLPack on the CPU, numbers and nested lists.
    Raises `TypeError` for what is no array of a supported dtype.
    """
    if not isinstance(x, np.ndarray) and hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
        x = np.from_dlpack(x)
    try:
        array = np.asarray(x)
    except (TypeError, ValueError) as e:
        raise TypeError(f"{operation} on rank {rank}: x is no array: {type(x).__name__} ({e})") from e
    if array.dtype == object:
        raise TypeError(f"{operation} on rank {rank}: x is no array: {type(x).__name__}")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    dtype_of(array, operation, rank)
    return np.require(array, requirements=["C", "A"])


def as_output(out: Any, shape: tuple[int, ...], dtype: np.dtype, operation: str, rank: int) -> np.ndarray:
    """`out` after checking that it can take the result: `TypeError` or `ValueError` where it cannot."""
    if not isinstance(out, np.ndarray):
        raise TypeError(f"{operation} on rank {rank}: out must be a numpy array, got {type(out).__name__}")
    if out.dtype != dtype:
        raise TypeError(f"{operation} on rank {rank}: out has dtype {out.dtype}, the result has {dtype}")
    if out.shape != shape:
        raise ValueError(f"{operation} on rank {rank}: out has shape {out.shape}, the result has {shape}")
    if not out.flags.writeable:
        raise ValueError(f"{operation} on rank {rank}: out is read-only")
    return out


def is_plain(array: np.ndarray) -> bool:
    """Whether routines can work on the array as it is."""
    flags = array.flags
    return type(array) is np.ndarray and flags.c_contiguous and flags.aligned and array.dtype in BY_NUMPY


def same_memory(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are the same elements in the same order."""
    return a.__array_interface__["data"] == b.__array_interface__["data"] and (a.shape, a.strides) == (
        b.shape,
        b.strides,
    )


def overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays share memory. The exact question is hard for odd strides; then a common range counts."""
    try:
        return np.shares_memory(a, b, max_work=1000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def check_overlap(x: np.ndarray, out: np.ndarray, operation: str, rank: int) -> None:
    """`ValueError` when `out` shares memory with `x` without being the same elements."""
    if overlap(x, out) and not same_memory(x, out):
        raise ValueError(
            f"{operation} on rank {rank}: out overlaps x without being x; "
            f"pass out=x to work in place, or a separate array"
        )


def as_reduction(op: Any, dtype: DType, operation: str, rank: int) -> int:
    """The code of a reduction; `TypeError` for one that the dtype does not have, `ValueError` for an unknown one."""
    if not isinstance(op, str):
        raise TypeError(f"{operation} on rank {rank}: op must be a string, got {type(op).__name__}")
    if op not in REDUCTIONS:
        raise ValueError(f"{operation} on rank {rank}: unknown op {op!r}; use one of {', '.join(REDUCTIONS)}")
    if not has_kernel(dtype, op):
        raise TypeError(f"{operation} on rank {rank}: {op} of {dtype.name} is not defined; convert to a floating dtype")
    return REDUCTIONS[op]


def as_index(value: Any, name: str, operation: str, rank: int) -> int:
    """An integer argument; `TypeError` for anything else, bool included."""
    if isinstance(value, bool):
        raise TypeError(f"{operation} on rank {rank}: {name} must be an integer, got bool")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{operation} on rank {rank}: {name} must be an integer, got {type(value).__name__}") from None


def as_root(value: Any, size: int, operation: str, rank: int) -> int:
    root = as_index(value, "root", operation, rank)
    if not 0 <= root < size:
        raise ValueError(f"{operation} on rank {rank}: root {root} is no rank of this group of {size}")
    return root


def as_axis(value: Any, name: str, ndim: int, operation: str, rank: int) -> int:
    axis = as_index(value, name, operation, rank)
    if not -ndim <= axis < ndim:
        raise IndexError(f"{operation} on rank {rank}: {name} {axis} is out of range for {ndim} dimensions")
    return axis % ndim


def as_counts(values: Any, size: int, name: str, operation: str, rank: int) -> np.ndarray:
    """n counts or displacements, none negative, as int64."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{operation} on rank {rank}: {name} must be integers, got {array.dtype}")
    if array.shape != (size,):
        raise ValueError(
            f"{operation} on rank {rank}: {name} must have one entry for each of {size} ranks, got shape {array.shape}"
        )
    wide = array.astype(np.int64)
    if (wide < 0).any() or (wide > 1 << 48).any():
        raise ValueError(f"{operation} on rank {rank}: {name} has an entry out of range: {array.tolist()}")
    return wide
