"""Element-wise reduction and block copies. No synchronisation: a kernel sees addresses and counts.

A reduce kernel is one small function for a pair of dtype and reduction, compiled on its own and called by its address:

    kernel(mode, target, accumulator, source, count, ranks)

    START   target[i] = source[i]                                            widened to the accumulator's type
    STEP    accumulator[i] = accumulator[i] op source[i]                     target is not used
    FINISH  target[i] = narrowed(accumulator[i] op source[i])                avg: divided by `ranks` before
    STORE   target[i] = narrowed(accumulator[i])                             the same
    JOIN    FINISH of two arrays: accumulator[i] is an element as it is stored, and widened first

`target` may be exactly `source`, and in JOIN and in FINISH of equal types exactly `accumulator`; partial overlap is not
allowed. `accumulator` has the accumulator's type (float32 for half types, else the dtype itself), except in JOIN. A
kernel returns 0; one around a user's function may return 1 + the index of an element. The last step has a loop of its
own for each aliasing, because LLVM vectorises a loop over two names for one address only if it can see that they are
the same. One function called with the names exchanged does not do: LLVM merges its calls (reduce 256 KiB, 2 ranks:
32 us instead of 24). A step that changes no bit is a `copy`: LLVM would make a call of memcpy of the loop, which is
slow on some processors (`engine/compiler/intrinsics.py`).
Complex sums are sums of twice as many reals. Operators and conversions are in `operators.py`.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll.engine.atomics import copy
from shmcoll.engine.kernels.dtypes import DType, value_of_pair
from shmcoll.engine.kernels.operators import (
    bfloat_from_float,
    bool_from_byte,
    byte_from_bool,
    divide,
    divide_double,
    float_from_bfloat,
    float_from_half,
    half_from_float,
    is_logical,
    keep,
    operators_of,
    same,
    truth_as,
    truth_of_half,
    with_one_nan,
)

START, STEP, FINISH, STORE, JOIN = range(5)


def element(address, i, dtype):
    """Element i of an array of `dtype` (a numpy scalar type) at an address."""
    return _array(address, i, dtype)[0]


def set_element(address, i, dtype, value):
    with np.errstate(over="ignore"):
        _array(address, i, dtype)[0] = value


def _array(address, i, dtype):
    size = np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address + i * size), dtype)


def attempt(function, a, b):
    """Call a user's function: whether it raised, and its result if it did not."""
    try:
        return 0, function(a, b)
    except Exception:
        return 1, a


# --- kernels ----------------------------------------------------------------------------------------------------------


def has_kernel(dtype: DType, reduction: str) -> bool:
    """Return whether the reduction is defined for the dtype (avg of integers and bool is not)."""
    return reduction in operators_of(dtype)


def make_kernel(dtype: DType, reduction: str) -> Callable[..., int]:
    """Return the kernel of a pair as a Python function, ready to be compiled (or to be run as it is, slowly)."""
    operator = operators_of(dtype)[reduction]
    if dtype.is_pair:
        return _make_pair_kernel(dtype, operator)
    stored, kept, widen, narrow = _formats(dtype)
    parts = 1
    if dtype.numpy.kind == "i" and reduction in ("sum", "prod"):
        stored = kept = np.dtype(f"u{dtype.numpy.itemsize}").type  # wraps; numba's signed overflow is undefined
    elif dtype.numpy.kind == "c" and reduction in ("sum", "avg"):
        stored = kept = np.float32 if dtype.name == "complex64" else np.float64
        narrow = with_one_nan(kept)
        parts = 2
    if is_logical(reduction):
        widen = truth_as(kept) if stored is kept else truth_of_half
    scale = keep if reduction != "avg" else divide_double if kept is np.float64 else divide

    def wide(accumulator, i):
        return element(accumulator, i, kept)

    def as_stored(accumulator, i):
        return widen(element(accumulator, i, stored))

    def last_step(first):
        def last(target, accumulator, source, n, ranks):
            if target == source:
                for i in range(n):
                    total = operator(first(accumulator, i), widen(element(source, i, stored)))
                    set_element(source, i, stored, narrow(scale(total, ranks)))
            elif target == accumulator:
                for i in range(n):
                    total = operator(first(accumulator, i), widen(element(source, i, stored)))
                    set_element(accumulator, i, stored, narrow(scale(total, ranks)))
            else:
                for i in range(n):
                    total = operator(first(accumulator, i), widen(element(source, i, stored)))
                    set_element(target, i, stored, narrow(scale(total, ranks)))

        return last

    finish = last_step(wide)
    join = finish if widen is same else last_step(as_stored)
    item = np.dtype(kept).itemsize
    starts_with_copy = stored is kept and widen is same
    stores_copy = starts_with_copy and narrow is same and scale is keep

    def kernel(mode, target, accumulator, source, count, ranks):
        n = count * parts
        if mode == START and starts_with_copy:
            copy(target, source, n * item)
        elif mode == START:
            for i in range(n):
                set_element(target, i, kept, widen(element(source, i, stored)))
        elif mode == STEP:
            for i in range(n):
                total = operator(element(accumulator, i, kept), widen(element(source, i, stored)))
                set_element(accumulator, i, kept, total)
        elif mode == STORE and stores_copy:
            copy(target, accumulator, n * item)
        elif mode == STORE:
            for i in range(n):
                set_element(target, i, stored, narrow(scale(element(accumulator, i, kept), ranks)))
        elif mode == JOIN:
            join(target, accumulator, source, n, ranks)
        else:
            finish(target, accumulator, source, n, ranks)
        return 0

    return kernel


def _formats(dtype: DType) -> tuple[Any, Any, Callable, Callable]:
    """Return how elements are read: the types of stored elements and of the accumulator, and the conversions both
    ways."""
    kind = dtype.numpy.type
    if dtype.name == "bool":
        return np.uint8, np.uint8, truth_as(np.uint8), same
    if dtype.name == "float16":
        return np.uint16, np.float32, float_from_half, half_from_float
    if dtype.name == "bfloat16":
        return np.uint16, np.float32, float_from_bfloat, bfloat_from_float
    return kind, kind, same, with_one_nan(kind) if dtype.numpy.kind in "fc" else same


def _make_pair_kernel(dtype: DType, precedes: Callable) -> Callable[..., int]:
    """Return the kernel for pairs of value and index. The pair that precedes is kept as it is."""
    stored, _, widen, _ = _formats(value_of_pair(dtype))
    item, index = dtype.numpy.itemsize, dtype.numpy.fields["index"][1]  # type: ignore[index]

    def kernel(mode, target, accumulator, source, count, ranks):
        if mode == START:
            copy(target, source, count * item)
            return 0
        if mode == STORE:
            copy(target, accumulator, count * item)
            return 0
        if mode == STEP:
            target = accumulator
        for i in range(count):
            a, b = accumulator + i * item, source + i * item
            kept, new = widen(element(a, 0, stored)), widen(element(b, 0, stored))
            first = precedes(kept, element(a + index, 0, np.int64), new, element(b + index, 0, np.int64))
            chosen = a if first else b
            # all 16 bytes, those between the fields too
            value, place = element(chosen, 0, np.int64), element(chosen, 1, np.int64)
            set_element(target, 2 * i, np.int64, value)
            set_element(target, 2 * i + 1, np.int64, place)
        return 0

    return kernel


def make_function_kernel(dtype: DType, function: Callable) -> Callable[..., int]:
    """Return the kernel around a user's function of two values, which may raise.

    Returns 0, or 1 + the index of the first element on which the function raised; that one and those behind it are then
    as they were before.
    """
    stored, kept, widen, narrow = _formats(dtype)
    read, write = (bool_from_byte, byte_from_bool) if dtype.name == "bool" else (same, same)

    def wide(accumulator, i):
        return element(accumulator, i, kept)

    def as_stored(accumulator, i):
        return widen(element(accumulator, i, stored))

    def last_step(first):
        def last(target, accumulator, source, count):
            for i in range(count):
                a, b = read(first(accumulator, i)), read(widen(element(source, i, stored)))
                failed, total = attempt(function, a, b)
                if failed:
                    return i + 1
                set_element(target, i, stored, narrow(write(total)))
            return 0

        return last

    finish = last_step(wide)
    join = finish if widen is same else last_step(as_stored)

    def kernel(mode, target, accumulator, source, count, ranks):
        if mode == START:
            for i in range(count):
                set_element(target, i, kept, widen(element(source, i, stored)))
        elif mode == STEP:
            for i in range(count):
                a, b = read(element(accumulator, i, kept)), read(widen(element(source, i, stored)))
                failed, total = attempt(function, a, b)
                if failed:
                    return i + 1
                set_element(accumulator, i, kept, write(total))
        elif mode == STORE:
            for i in range(count):
                set_element(target, i, stored, narrow(element(accumulator, i, kept)))
        elif mode == JOIN:
            return join(target, accumulator, source, count)
        else:
            return finish(target, accumulator, source, count)
        return 0

    return kernel


def clear(target, length):
    """Make `length` bytes zero. The loop becomes a call of memset."""
    for i in range(length):
        set_element(target, i, np.uint8, 0)


# --- blocks -----------------------------------------------------------------------------------------------------------
#
# A block is the part of an array that goes from one rank to another, in C order. In memory it is a row of runs: `run`
# contiguous bytes, `stride` bytes from one run to the next. Linear position p of the block is at
# (p // run) * stride + p % run. Both ends of an all_to_all see the same linear order, whatever their axes.


def gather_runs(target, base, run, stride, begin, end):
    """Copy linear bytes [begin, end) of the block at `base` to contiguous memory at `target`."""
    if run == stride:
        copy(target, base + begin, end - begin)
        return
    copy_runs(target, run, base + begin // run * stride + begin % run, stride, run, begin, end)


def scatter_runs(base, run, stride, source, begin, end):
    """Copy contiguous memory at `source` to linear bytes [begin, end) of the block at `base`."""
    if run == stride:
        copy(base + begin, source, end - begin)
        return
    copy_runs(base + begin // run * stride + begin % run, stride, source, run, run, begin, end)


def copy_runs(target, target_stride, source, source_stride, run, begin, end):
    """Copy linear bytes [begin, end), which begin at `target` and `source`, between rows of equally long runs."""
    head = min(-begin % run, end - begin)
    if head > 0:
        copy(target, source, head)
        target += head + target_stride - run
        source += head + source_stride - run
    rows = (end - begin - head) // run
    copy_rows(target, target_stride, source, source_stride, run, rows)
    copy(target + rows * target_stride, source + rows * source_stride, end - begin - head - rows * run)


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


def _copying(kind):
    """Make the loop that copies rows of one element of a numpy scalar type."""

    def copy_elements(target, target_step, source, source_step, rows):
        for i in range(rows):
            set_element(target + i * target_step, 0, kind, element(source + i * source_step, 0, kind))

    return copy_elements


_copy_elements_of_8, _copy_elements_of_4 = _copying(np.int64), _copying(np.int32)
_copy_elements_of_2, _copy_elements_of_1 = _copying(np.int16), _copying(np.int8)


def copy_rows(target, target_step, source, source_step, length, rows):
    """Copy `rows` times `length` bytes. Rows of a single element are moved without a call of memcpy for each."""
    if length == 8:
        _copy_elements_of_8(target, target_step, source, source_step, rows)
    elif length == 4:
        _copy_elements_of_4(target, target_step, source, source_step, rows)
    elif length == 2:
        _copy_elements_of_2(target, target_step, source, source_step, rows)
    elif length == 1:
        _copy_elements_of_1(target, target_step, source, source_step, rows)
    else:
        for i in range(rows):
            copy(target + i * target_step, source + i * source_step, length)
