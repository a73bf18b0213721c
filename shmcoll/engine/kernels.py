"""Element-wise reduction and block copies. No synchronisation: a kernel sees addresses and counts.

A reduce kernel is one small function for a pair of dtype and reduction, compiled on its own and called by its address:

    kernel(mode, target, accumulator, source, count, ranks)

    START   target[i] = source[i]                                            widened to the accumulator's type
    STEP    accumulator[i] = accumulator[i] op source[i]                     target is not used
    FINISH  target[i] = narrowed(accumulator[i] op source[i])                avg: divided by `ranks` before

`target` may be exactly `source`, and in FINISH of equal types exactly `accumulator`; partial overlap is not allowed.
`accumulator` has the accumulator's type (float32 for half types, else the dtype itself). Loops count from zero
with a branch for each aliasing, because LLVM vectorises a loop over two names for one address only if it can
see that they are the same. Complex sums are sums of twice as many reals.
"""

import ctypes
import struct
from collections.abc import Callable

import numpy as np

from shmcoll.dtypes import DType
from shmcoll.engine.atomics import copy

START, STEP, FINISH = range(3)


def element(address, i, dtype):
    """Element i of an array of `dtype` (a numpy scalar type) at an address."""
    return _array(address, i, dtype)[0]


def set_element(address, i, dtype, value):
    with np.errstate(over="ignore"):
        _array(address, i, dtype)[0] = value


def _array(address, i, dtype):
    size = np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address + i * size), dtype)


def float_from_bits(bits):
    return np.float32(struct.unpack("<f", struct.pack("<I", bits))[0])


def bits_from_float(value):
    return np.uint32(struct.unpack("<I", struct.pack("<f", value))[0])


def float_from_half(bits):
    return np.float32(np.uint16(bits).view(np.float16))


def half_from_float(value):
    return np.float32(value).astype(np.float16).view(np.uint16)


# --- operators --------------------------------------------------------------------------------------------------------


def add(a, b):
    return a + b


def multiply(a, b):
    return a * b


def either(a, b):
    return a | b


def both(a, b):
    return a & b


def least(a, b):
    """numpy's minimum: a NaN in either operand is the result."""
    return a if a <= b or a != a else b


def greatest(a, b):
    return a if a >= b or a != a else b


def least_integer(a, b):
    return a if a <= b else b


def greatest_integer(a, b):
    return a if a >= b else b


def least_complex(a, b):
    """numpy's order of complex numbers: by real part, then by imaginary part; a NaN anywhere wins."""
    if a.real != a.real or a.imag != a.imag or b.real != b.real or b.imag != b.imag:
        return a if a.real != a.real or a.imag != a.imag else b
    return a if a.real < b.real or (a.real == b.real and a.imag <= b.imag) else b


def greatest_complex(a, b):
    if a.real != a.real or a.imag != a.imag or b.real != b.real or b.imag != b.imag:
        return a if a.real != a.real or a.imag != a.imag else b
    return a if a.real > b.real or (a.real == b.real and a.imag >= b.imag) else b


# --- conversions ------------------------------------------------------------------------------------------------------


def same(value):
    return value


def float_from_bfloat(bits):
    return float_from_bits(np.uint32(bits) << np.uint32(16))


def bfloat_from_float(value):
    """Round to nearest, ties to even; a NaN stays one."""
    bits = bits_from_float(value)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.uint16(quiet if value != value else rounded)


def keep(value, ranks):
    return value


def divide(value, ranks):
    return value / np.float32(ranks)


def divide_double(value, ranks):
    return value / np.float64(ranks)


_OPERATORS: dict[str, dict[str, Callable]] = {
    "b": {"sum": either, "prod": both, "min": both, "max": either},
    "iu": {"sum": add, "prod": multiply, "min": least_integer, "max": greatest_integer},
    "f": {"sum": add, "prod": multiply, "min": least, "max": greatest, "avg": add},
    "c": {"sum": add, "prod": multiply, "min": least_complex, "max": greatest_complex, "avg": add},
}


def has_kernel(dtype: DType, reduction: str) -> bool:
    """Whether the reduction is defined for the dtype (avg of integers and bool is not)."""
    return reduction in _operators(dtype)


def _operators(dtype: DType) -> dict[str, Callable]:
    kind = "f" if dtype.accumulator.kind == "f" else dtype.numpy.kind
    return next(operators for kinds, operators in _OPERATORS.items() if kind in kinds)


def make_kernel(dtype: DType, reduction: str) -> Callable[..., int]:
    """The kernel of a pair as a Python function, ready to be compiled (or to be run as it is, slowly)."""
    operator = _operators(dtype)[reduction]
    stored, kept = dtype.numpy.type, dtype.accumulator.type
    widen, narrow, parts = same, same, 1
    if dtype.name == "bool":
        stored = kept = np.uint8
    elif dtype.name == "float16":
        stored, widen, narrow = np.uint16, float_from_half, half_from_float
    elif dtype.name == "bfloat16":
        stored, widen, narrow = np.uint16, float_from_bfloat, bfloat_from_float
    elif dtype.numpy.kind == "i" and reduction in ("sum", "prod"):
        stored = kept = np.dtype(f"u{dtype.numpy.itemsize}").type  # wraps; numba's signed overflow is undefined
    elif dtype.numpy.kind == "c" and reduction in ("sum", "avg"):
        stored = kept = np.float32 if dtype.name == "complex64" else np.float64
        parts = 2
    scale = keep if reduction != "avg" else divide_double if kept is np.float64 else divide

    def kernel(mode, target, accumulator, source, count, ranks):
        n = count * parts
        if mode == START:
            for i in range(n):
                set_element(target, i, kept, widen(element(source, i, stored)))
        elif mode == STEP:
            for i in range(n):
                total = operator(element(accumulator, i, kept), widen(element(source, i, stored)))
                set_element(accumulator, i, kept, total)
        elif target == source:
            for i in range(n):
                total = operator(element(accumulator, i, kept), widen(element(source, i, stored)))
                set_element(source, i, stored, narrow(scale(total, ranks)))
        elif target == accumulator:
            for i in range(n):
                total = operator(element(accumulator, i, kept), widen(element(source, i, stored)))
                set_element(accumulator, i, stored, narrow(scale(total, ranks)))
        else:
            for i in range(n):
                total = operator(element(accumulator, i, kept), widen(element(source, i, stored)))
                set_element(target, i, stored, narrow(scale(total, ranks)))
        return 0

    return kernel


# --- blocks -----------------------------------------------------------------------------------------------------------
#
# A block is the part of an array that goes from one rank to another, in C order. In memory it is a row of runs: `run`
# contiguous bytes, `stride` bytes from one run to the next. Linear position p of the block lies at
# (p // run) * stride + p % run. Both ends of an all_to_all see the same linear order, whatever their axes.


def gather_runs(target, base, run, stride, begin, end):
    """Copy linear bytes [begin, end) of the block at `base` to contiguous memory at `target`."""
    if run == stride:
        copy(target, base + begin, end - begin)
        return
    source = base + begin // run * stride + begin % run
    head = min(-begin % run, end - begin)
    if head > 0:
        copy(target, source, head)
        target += head
        source += head + stride - run
    rows = (end - begin - head) // run
    copy_rows(target, run, source, stride, run, rows)
    copy(target + rows * run, source + rows * stride, end - begin - head - rows * run)


def scatter_runs(base, run, stride, source, begin, end):
    """Copy contiguous memory at `source` to linear bytes [begin, end) of the block at `base`."""
    if run == stride:
        copy(base + begin, source, end - begin)
        return
    target = base + begin // run * stride + begin % run
    head = min(-begin % run, end - begin)
    if head > 0:
        copy(target, source, head)
        source += head
        target += head + stride - run
    rows = (end - begin - head) // run
    copy_rows(target, stride, source, run, run, rows)
    copy(target + rows * stride, source + rows * run, end - begin - head - rows * run)


def move_runs(target, target_run, target_stride, source, source_run, source_stride, length):
    """Copy a block of `length` bytes from one row of runs to another. One run divides the other: both are products of
    the last extents of the same block."""
    if target_run <= source_run:
        each = source_run // max(target_run, 1)
        for i in range(length // max(source_run, 1)):
            copy_rows(
                target + i * each * target_stride,
                target_stride,
                source + i * source_stride,
                target_run,
                target_run,
                each,
            )
    else:
        each = target_run // max(source_run, 1)
        for i in range(length // max(target_run, 1)):
            copy_rows(
                target + i * target_stride,
                source_run,
                source + i * each * source_stride,
                source_stride,
                source_run,
                each,
            )


def copy_rows(target, target_step, source, source_step, length, rows):
    """Copy `rows` times `length` bytes. Rows of a single element are moved without a call of memcpy for each."""
    if length == 8:
        for i in range(rows):
            set_element(target + i * target_step, 0, np.int64, element(source + i * source_step, 0, np.int64))
    elif length == 4:
        for i in range(rows):
            set_element(target + i * target_step, 0, np.int32, element(source + i * source_step, 0, np.int32))
    elif length == 2:
        for i in range(rows):
            set_element(target + i * target_step, 0, np.int16, element(source + i * source_step, 0, np.int16))
    elif length == 1:
        for i in range(rows):
            set_element(target + i * target_step, 0, np.int8, element(source + i * source_step, 0, np.int8))
    else:
        for i in range(rows):
            copy(target + i * target_step, source + i * source_step, length)
