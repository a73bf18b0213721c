"""Every kernel against numpy, bit for bit: dtypes, reductions, special values, odd lengths and starts, aliases."""

import ctypes
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from shmcoll.engine.compiler import compile as code
from shmcoll.engine.kernels import kernels
from shmcoll.engine.kernels.dtypes import BY_NAME, DTYPES, PAIRS, REDUCTIONS, DType, value_of_pair
from shmcoll.engine.kernels.kernels import FINISH, JOIN, START, STEP, STORE

ALL = code.all_kernels()

#: every dtype and every reduction at least once; the others are compiled under `stress`
SAMPLE = {
    "bool": ("sum", "prod", "bxor", "lxor"),
    "int8": ("sum", "max", "band"),
    "int16": ("min", "lor"),
    "int32": ("sum", "prod", "bxor"),
    "int64": ("sum", "land"),
    "uint8": ("max", "bor"),
    "uint16": ("prod", "lxor"),
    "uint32": ("min",),
    "uint64": ("max", "bxor"),
    "float16": ("sum", "avg", "land"),
    "bfloat16": ("sum", "max", "lxor"),
    "float32": ("sum", "min", "avg", "lor"),
    "float64": ("sum", "prod", "avg", "lxor"),
    "complex64": ("prod", "avg", "lxor"),
    "complex128": ("sum", "min", "land"),
    "pair_of_int8": ("argmax",),
    "pair_of_int16": ("argmin",),
    "pair_of_int32": ("argmin",),
    "pair_of_int64": ("argmax",),
    "pair_of_uint8": ("argmin",),
    "pair_of_uint16": ("argmax",),
    "pair_of_uint32": ("argmin",),
    "pair_of_uint64": ("argmax",),
    "pair_of_float16": ("argmin",),
    "pair_of_bfloat16": ("argmax",),
    "pair_of_float32": ("argmin", "argmax"),
    "pair_of_float64": ("argmin",),
}
CASES = [
    pytest.param(d, r, id=f"{r}-{d.name}", marks=[] if r in SAMPLE[d.name] else [pytest.mark.stress]) for d, r in ALL
]
COUNTS = (0, 1, 3, 64, 257)
RANKS = 3

Words = np.ndarray[Any, np.dtype[Any]]


@cache
def native(dtype: DType, reduction: str) -> Any:
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)(code.load_kernel(dtype, reduction))


def values(dtype: DType, count: int, chance: np.random.Generator) -> Words:
    """Ordinary values mixed with the ones that go wrong: extremes, signed zeros, infinities, NaN, ties."""
    kind = dtype.numpy.kind
    if dtype.is_pair:
        pairs = np.zeros(count, dtype.numpy)
        pairs["value"] = values(value_of_pair(dtype), count, chance)
        pairs["value"][chance.random(count) < 0.3] = 1
        if value_of_pair(dtype).accumulator.kind == "f":
            pairs["value"][chance.random(count) < 0.3] = np.nan
        pairs["index"] = chance.integers(-2, 3, count)
        return pairs
    if dtype.name == "bool":
        return np.array([0, 0, 1, 2, 128, 255], np.uint8)[chance.integers(0, 6, count)].view(bool)
    if kind in "iu":
        info = np.iinfo(dtype.numpy)
        found = chance.integers(info.min, info.max, count, dtype.numpy, endpoint=True)
        ends = np.array([info.min, info.max, 0], dtype.numpy)[chance.integers(0, 3, count)]
        return np.where(chance.random(count) < 0.3, ends, found)
    if kind == "c":
        return _floats(dtype.numpy.type(0).real.dtype, 2 * count, chance).view(dtype.numpy)
    return _floats(dtype.numpy, count, chance)


def _floats(dtype: Any, count: int, chance: np.random.Generator) -> Words:
    found = chance.standard_normal(count).astype(dtype)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 2.0**-8, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 60000.0])
    with np.errstate(over="ignore"):
        chosen = special[chance.integers(0, len(special), count)].astype(dtype)
    return np.where(chance.random(count) < 0.3, chosen, found).astype(dtype)


LOGICAL = {"land": np.logical_and, "lor": np.logical_or, "lxor": np.logical_xor}
FOLD = {
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}


def started(dtype: DType, reduction: str, x: Words) -> Words:
    """What the accumulator holds after the first array."""
    x = truth(dtype, x)
    return (x != 0 if reduction in LOGICAL else x).astype(dtype.accumulator)


def truth(dtype: DType, x: Words) -> Words:
    """A bool array whose bytes are 0 or 1; any other array as it is."""
    return x.view(np.uint8) != 0 if dtype.name == "bool" else x


def combined(dtype: DType, reduction: str, kept: Words, x: Words) -> Words:
    """numpy's `kept op x`, in the accumulator's type.

    Of two equal values, which may be zeros of different sign, min and max keep the accumulator's; numpy does not say.
    """
    if dtype.is_pair:
        return preceding(reduction, kept, x)
    x = truth(dtype, x).astype(dtype.accumulator)
    with np.errstate(all="ignore"):
        if reduction in LOGICAL:
            return LOGICAL[reduction](kept, x).astype(dtype.accumulator)
        if dtype.name == "bool" and reduction in ("sum", "prod", "min", "max"):
            return kept | x if reduction in ("sum", "max") else kept & x
        if dtype.numpy.kind == "c" and reduction == "prod":
            real = kept.real * x.real - kept.imag * x.imag
            imaginary = kept.real * x.imag + kept.imag * x.real
            return np.stack([real, imaginary], -1).view(dtype.accumulator)[..., 0]
        result = FOLD.get(reduction, np.add)(kept, x).astype(dtype.accumulator)
        return np.where(kept == x, kept, result) if reduction in ("min", "max") else result


def preceding(reduction: str, a: Words, b: Words) -> Words:
    """What numpy.argmin or argmax finds of two pairs that stand in the order of their indices."""
    swap = b["index"] < a["index"]
    pairs = np.stack([np.where(swap, b, a), np.where(swap, a, b)])
    seen = pairs["value"].astype(np.float32) if pairs["value"].dtype.itemsize == 2 else pairs["value"]
    found = (np.argmin if reduction == "argmin" else np.argmax)(seen, axis=0)
    return np.take_along_axis(pairs, found[None], 0)[0]


def finished(dtype: DType, reduction: str, total: Words) -> Words:
    with np.errstate(all="ignore"):
        if reduction == "avg":
            real = np.float32 if dtype.accumulator in (np.float32, np.complex64) else np.float64
            if dtype.numpy.kind == "c":
                parts = np.stack([total.real, total.imag], -1) / real(RANKS)
                return parts.astype(real).view(dtype.numpy)[..., 0]
            total = total / real(RANKS)
        return total.astype(dtype.numpy)


def same(got: Words, wanted: Words) -> None:
    """The same bits; any NaN stands for any other, as the sign and payload of one are nobody's promise."""
    assert got.dtype == wanted.dtype
    if got.dtype.names:
        for field in ("value", "index"):
            same(np.ascontiguousarray(got[field]), np.ascontiguousarray(wanted[field]))
        return
    if got.dtype.kind == "c":
        got, wanted = (a.view(a.real.dtype) for a in (np.ascontiguousarray(got), np.ascontiguousarray(wanted)))
    bits = np.dtype(f"u{got.itemsize}")
    differ = got.view(bits) != wanted.view(bits)
    if got.dtype.kind not in "biu":
        differ &= ~(np.isnan(got) & np.isnan(wanted))
    assert not differ.any(), f"element {np.flatnonzero(differ)[0]}: {got[differ][0]!r}, not {wanted[differ][0]!r}"


def placed(array: Words, offset: int) -> Words:
    """A copy that starts `offset` elements behind a cache line, with untouched elements around it."""
    item = array.itemsize
    memory = np.full((len(array) + offset + 1) * item + 64, 0xA5, np.uint8)
    begin = -memory.ctypes.data % 64 + offset * item
    view = memory[begin : begin + array.nbytes].view(array.dtype)
    view[...] = array
    return view


@pytest.mark.parametrize(("dtype", "reduction"), CASES)
def test_kernel(dtype: DType, reduction: str, seed: int) -> None:
    """A whole reduction of three arrays: START, STEP, FINISH; STORE after two; JOIN of two."""
    chance = np.random.default_rng(seed)
    kernel = native(dtype, reduction)
    for count in COUNTS:
        for offset in (0, 1):
            a, b, x = (placed(values(dtype, count, chance), offset) for _ in range(3))
            kept = placed(np.zeros(count, dtype.accumulator), offset)
            kernel(START, kept.ctypes.data, 0, a.ctypes.data, count, RANKS)
            total = started(dtype, reduction, a)
            same(kept, total)
            kernel(STEP, 0, kept.ctypes.data, b.ctypes.data, count, RANKS)
            total = combined(dtype, reduction, total, b)
            same(kept, total)
            out = placed(np.zeros(count, dtype.numpy), offset)
            kernel(FINISH, out.ctypes.data, kept.ctypes.data, x.ctypes.data, count, RANKS)
            wanted = finished(dtype, reduction, combined(dtype, reduction, total, x))
            same(out, wanted)
            same(kept, total)
            kernel(STORE, out.ctypes.data, kept.ctypes.data, 0, count, RANKS)
            same(out, finished(dtype, reduction, total))
            kernel(JOIN, out.ctypes.data, a.ctypes.data, b.ctypes.data, count, RANKS)
            same(out, finished(dtype, reduction, total))


@pytest.mark.parametrize(("dtype", "reduction"), CASES)
def test_kernel_in_place(dtype: DType, reduction: str, seed: int) -> None:
    """FINISH into the source, and into the accumulator where the types are equal; JOIN into either."""
    chance = np.random.default_rng(seed)
    kernel = native(dtype, reduction)
    for count in COUNTS:
        a, x = (values(dtype, count, chance) for _ in range(2))
        first = started(dtype, reduction, a)
        wanted = finished(dtype, reduction, combined(dtype, reduction, first, x))
        kept, source = placed(first, 1), placed(x, 1)
        kernel(FINISH, source.ctypes.data, kept.ctypes.data, source.ctypes.data, count, RANKS)
        same(source, wanted)
        if dtype.accumulator == dtype.numpy:
            source = placed(x, 1)
            kernel(FINISH, kept.ctypes.data, kept.ctypes.data, source.ctypes.data, count, RANKS)
            same(kept, wanted)
            same(source, x)
        for into in range(2):
            pair = placed(a, 1), placed(x, 1)
            kernel(JOIN, pair[into].ctypes.data, pair[0].ctypes.data, pair[1].ctypes.data, count, RANKS)
            same(pair[into], wanted)
            same(pair[1 - into], (x, a)[into])


@pytest.mark.parametrize(("dtype", "reduction"), CASES)
def test_nothing_around_is_touched(dtype: DType, reduction: str) -> None:
    count, item = 13, dtype.numpy.itemsize
    a, x = (np.ones(count, dtype.numpy) for _ in range(2))
    kept = a.astype(dtype.accumulator)
    memory = np.full((count + 2) * item, 0xA5, np.uint8)
    for mode, first in ((FINISH, kept), (JOIN, a)):
        native(dtype, reduction)(mode, memory.ctypes.data + item, first.ctypes.data, x.ctypes.data, count, RANKS)
        assert (memory[:item] == 0xA5).all()
        assert (memory[-item:] == 0xA5).all()


@pytest.mark.parametrize("dtype", [BY_NAME["float16"], BY_NAME["bfloat16"]], ids=lambda d: d.name)
def test_half_types_round_to_even_once(dtype: DType) -> None:
    """All 65,536 values plus half of a last place: the sum in float32 is exact, its rounding is numpy's."""
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    with np.errstate(all="ignore"):
        halves = (np.spacing(every) / dtype.numpy.type(2)).astype(np.float32)
    halves[~np.isfinite(halves)] = 0
    kept = halves
    out = np.zeros_like(every)
    native(dtype, "sum")(FINISH, out.ctypes.data, kept.ctypes.data, every.ctypes.data, len(every), 1)
    with np.errstate(all="ignore"):
        same(out, (kept + every.astype(np.float32)).astype(dtype.numpy))


@pytest.mark.parametrize("dtype", [BY_NAME["float16"], BY_NAME["bfloat16"]], ids=lambda d: d.name)
def test_all_half_values_and_some_others(dtype: DType) -> None:
    """Each of the 65,536 patterns of bits with zeros, the least subnormal and normal numbers, the largest, infinities
    and NaN that are quiet and not; the other way round too."""
    info = ml_dtypes.finfo(dtype.numpy)
    special = [0.0, info.smallest_subnormal, info.smallest_normal, 1.0, 1 + float(info.eps), info.max, np.inf, np.nan]
    others = np.array([sign * float(value) for value in special for sign in (1, -1)], dtype.numpy)
    signalling = others[np.isinf(others)].view(np.uint16) + np.uint16(1)
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
    kernel, out = native(dtype, "sum"), np.zeros_like(every)
    for other in (*others, *signalling.view(dtype.numpy)):
        x = np.full_like(every, other)
        with np.errstate(all="ignore"):
            wanted = (every.astype(np.float32) + x.astype(np.float32)).astype(dtype.numpy)
        for a, b in ((every, x), (x, every)):
            with np.errstate(invalid="ignore"):  # aarch64 says so of signalling NaN
                kept = a.astype(np.float32)
            for mode, first in ((FINISH, kept), (JOIN, a)):
                kernel(mode, out.ctypes.data, first.ctypes.data, b.ctypes.data, len(out), RANKS)
                same(out, wanted)


@pytest.mark.parametrize("dtype", [BY_NAME["float16"], BY_NAME["bfloat16"]], ids=lambda d: d.name)
def test_any_float32_is_rounded_as_numpy_does(dtype: DType, seed: int) -> None:
    """STORE of patterns of 32 bits: subnormal numbers, ties, what overflows, NaN whose only bits are lost."""
    bits = np.random.default_rng(seed).integers(0, 1 << 32, 1 << 17, np.uint32)
    ends = np.array([0x7F80_0001, 0xFF80_0001, 0x7FFF_FFFF, 0x7F7F_FFFF, 0x0000_8000, 0x0001_8000, 0x477F_F000], "u4")
    kept = np.concatenate([bits, ends]).view(np.float32)
    out = np.zeros(len(kept), dtype.numpy)
    native(dtype, "sum")(STORE, out.ctypes.data, kept.ctypes.data, 0, len(kept), RANKS)
    with np.errstate(all="ignore"):
        same(out, kept.astype(dtype.numpy))


@pytest.mark.parametrize(("name", "reduction"), [("int8", "sum"), ("int32", "prod"), ("uint16", "prod")])
def test_integers_wrap(name: str, reduction: str) -> None:
    dtype = BY_NAME[name]
    info = np.iinfo(dtype.numpy)
    a, x = np.array([info.max], dtype.numpy), np.array([2], dtype.numpy)
    out = np.zeros_like(a)
    native(dtype, reduction)(FINISH, out.ctypes.data, a.ctypes.data, x.ctypes.data, 1, RANKS)
    exact = int(info.max) + 2 if reduction == "sum" else int(info.max) * 2
    assert int(out[0]) == (exact - info.min) % (1 << info.bits) + info.min


@pytest.mark.parametrize("dtype", (*DTYPES, *PAIRS), ids=lambda d: d.name)
def test_plain_python_gives_the_same(dtype: DType, seed: int) -> None:
    """The kernel's source run as Python, which the schedule explorer and readers rely on, against the machine code."""
    reduction = SAMPLE[dtype.name][0]
    chance = np.random.default_rng(seed)
    a, x = (values(dtype, 9, chance) for _ in range(2))
    results = []
    with np.errstate(all="ignore"):
        for kernel in (native(dtype, reduction), kernels.make_kernel(dtype, reduction)):
            kept, out, joined = np.zeros(9, dtype.accumulator), np.zeros(9, dtype.numpy), np.zeros(9, dtype.numpy)
            kernel(START, kept.ctypes.data, 0, a.ctypes.data, 9, RANKS)
            kernel(STEP, 0, kept.ctypes.data, x.ctypes.data, 9, RANKS)
            kernel(FINISH, out.ctypes.data, kept.ctypes.data, a.ctypes.data, 9, RANKS)
            kernel(JOIN, joined.ctypes.data, a.ctypes.data, x.ctypes.data, 9, RANKS)
            results.append(np.concatenate([out, joined]))
    same(results[0], results[1])


def test_pairs_bring_along_what_lies_between_their_fields() -> None:
    """So that a result is the same, byte for byte, on every rank."""
    (pair,) = (p for p in PAIRS if p.name == "pair_of_int8")
    a, x = (np.full(32, byte, np.uint8).view(pair.numpy) for byte in (1, 2))
    out = np.zeros(2, pair.numpy)
    native(pair, "argmax")(FINISH, out.ctypes.data, a.ctypes.data, x.ctypes.data, 2, RANKS)
    assert out.tobytes() == x.tobytes()


def test_the_sample_has_all() -> None:
    assert set(SAMPLE) == {d.name for d in (*DTYPES, *PAIRS)}
    assert {r for reductions in SAMPLE.values() for r in reductions} == set(REDUCTIONS)
    assert len(ALL) == 9 * 4 + 6 * 5 + 9 * 3 + 15 * 3 + 12 * 2
