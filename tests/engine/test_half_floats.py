"""A processor without F16C converts float16 by code that the object brings along, to the same bits."""

import ctypes

import llvmlite.binding as llvm
import numpy as np
import pytest

from shmcoll.engine.compiler import compile as code
from shmcoll.engine.compiler import half_floats, levels
from shmcoll.engine.kernels.dtypes import BY_NAME
from shmcoll.engine.kernels.kernels import JOIN
from tests.engine.test_golden_ir import undefined_symbols

V2 = levels._LEVELS["x86_64"][-1]

pytestmark = pytest.mark.skipif(V2 not in levels.supported(), reason="this is not an x86-64-v2 processor")

#: call the two conversions for arrays
LOOPS = """
define i64 @widen(ptr %target, ptr %source, i64 %count) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr half, ptr %source, i64 %i
  %value = load half, ptr %from
  %wide = call float @__extendhfsf2(half %value)
  %to = getelementptr float, ptr %target, i64 %i
  store float %wide, ptr %to
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %end
end:
  ret i64 0
}
define i64 @narrow(ptr %target, ptr %source, i64 %count) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr float, ptr %source, i64 %i
  %value = load float, ptr %from
  %short = call half @__truncsfhf2(float %value)
  %to = getelementptr half, ptr %target, i64 %i
  store half %short, ptr %to
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %end
end:
  ret i64 0
}
"""
HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


@pytest.fixture(scope="module")
def conversions():
    """The two loops, compiled for a processor without F16C."""
    module = llvm.parse_assembly(half_floats.DEFINITIONS + LOOPS)
    addresses = code._place(code._target_machine(V2).emit_object(module), ("widen", "narrow"))
    return [ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(address) for address in addresses]


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are equal, signs of zeros included, with NaN where the other has one."""
    integers = f"u{a.itemsize}"
    return bool(((a.view(integers) == b.view(integers)) | (np.isnan(a) & np.isnan(b))).all())


def test_every_half_is_widened_exactly(conversions):
    widen, _ = conversions
    wide = np.empty(HALVES.size, np.float32)
    widen(wide.ctypes.data, HALVES.ctypes.data, HALVES.size)
    assert same_bits(wide, HALVES.astype(np.float32))


def test_floats_around_every_half_are_rounded_to_even(conversions):
    """Each half, the values half way to the next one, and their neighbours."""
    _, narrow = conversions
    wide = HALVES[np.isfinite(HALVES)].astype(np.float32)
    middle = (wide + np.roll(wide, 1)) / 2
    values = np.concatenate([wide, middle, [65519.996, 65520, 65536, 1e38, 1e-38, 1e-45, np.inf, np.nan]])
    values = values.astype(np.float32)
    values = np.concatenate([values, np.nextafter(values, np.float32(np.inf)), np.nextafter(values, np.float32(0))])
    values = np.concatenate([values, -values])
    short = np.empty(values.size, np.float16)
    narrow(short.ctypes.data, values.ctypes.data, values.size)
    with np.errstate(over="ignore"):
        assert same_bits(short, values.astype(np.float16))


def test_a_kernel_without_f16c_needs_nothing_of_libgcc_and_has_the_same_bits():
    functions = code.kernel_functions(BY_NAME["float16"], "sum")
    data = code.emitted(functions, V2)
    assert undefined_symbols(data) == set()
    (address,) = code._place(data, tuple(functions))
    a, b = HALVES[np.isfinite(HALVES)], HALVES[np.isfinite(HALVES)][::-1].copy()
    found, usual = np.empty_like(a), np.empty_like(a)
    for kernel, out in ((address, found), (code.load_kernel(BY_NAME["float16"], "sum"), usual)):
        call = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)(kernel)
        call(JOIN, out.ctypes.data, a.ctypes.data, b.ctypes.data, a.size, 2)
    assert same_bits(found, usual)
    assert same_bits(usual, a + b)
