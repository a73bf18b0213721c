"""Which NaN comes out of a reduction must not depend on the steps that lead there, so not on the algorithm."""

import ctypes
from typing import Any

import numpy as np
import pytest

from shmcoll.engine.compiler import compile as code
from shmcoll.engine.kernels.dtypes import BY_NAME, DType
from shmcoll.engine.kernels.kernels import FINISH, JOIN, START, STEP, STORE, has_kernel

COUNT = 257  # whole vectors, and a rest that is done one by one
RANKS = 3
SAMPLE = {
    "float16": ("sum", "min", "max"),
    "bfloat16": ("sum", "prod", "max"),
    "float32": ("sum", "min"),
    "float64": ("prod", "avg"),
    "complex64": ("sum", "prod"),
    "complex128": ("min",),
}
CASES = [
    pytest.param(
        BY_NAME[name], reduction, id=f"{reduction}-{name}", marks=[] if reduction in sample else [pytest.mark.stress]
    )
    for name, sample in SAMPLE.items()
    for reduction in ("sum", "prod", "min", "max", "avg")
    if has_kernel(BY_NAME[name], reduction)
]

Floats = np.ndarray[Any, np.dtype[Any]]


def nans(dtype: DType, chance: np.random.Generator) -> Floats:
    """Half of the numbers are NaN of any sign and payload, quiet or signalling; some others are infinite."""
    part = dtype.numpy.type(0).real.dtype
    bits, mantissa = np.dtype(f"u{part.itemsize}"), {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
    width = mantissa[part.name]
    count = COUNT * dtype.numpy.itemsize // part.itemsize
    sign = chance.integers(0, 2, count).astype(bits) << bits.type(8 * part.itemsize - 1)
    infinite = sign | bits.type((1 << 8 * part.itemsize - 1) - (1 << width))
    ordinary = chance.standard_normal(count).astype(part).view(bits)
    which = chance.random(count)
    payload = chance.integers(1, 1 << width, count).astype(bits)
    return np.where(which < 0.5, infinite | payload, np.where(which < 0.65, infinite, ordinary)).view(dtype.numpy)


class Steps:
    """The steps of a kernel, `several` elements at a time: so in vectors, or one by one."""

    def __init__(self, dtype: DType, reduction: str, several: int):
        self._kernel = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)(code.load_kernel(dtype, reduction))
        self._dtype = dtype
        self._several = several

    def call(self, mode: int, target: Any, accumulator: Any, source: Any) -> None:
        for i in range(0, COUNT, self._several):
            places = [0 if a is None else a.ctypes.data + i * a.itemsize for a in (target, accumulator, source)]
            self._kernel(mode, *places, min(self._several, COUNT - i), RANKS)

    def accumulated(self, first: Floats, *others: Floats) -> Floats:
        kept = np.zeros(COUNT, self._dtype.accumulator)
        self.call(START, kept, None, first)
        for other in others:
            self.call(STEP, None, kept, other)
        return kept

    def ways(self, arrays: list[Floats]) -> dict[str, Floats]:
        """What comes out by every way from the arrays to their reduction."""
        *before, last = arrays
        stored, finished, onto = np.zeros_like(last), np.zeros_like(last), last.copy()
        self.call(STORE, stored, self.accumulated(*arrays), None)
        self.call(FINISH, finished, self.accumulated(*before), last)
        self.call(FINISH, onto, self.accumulated(*before), onto)
        found = {"STORE": stored, "FINISH": finished, "FINISH into the source": onto}
        if self._dtype.accumulator == self._dtype.numpy:
            kept = self.accumulated(*before)
            self.call(FINISH, kept, kept, last)
            found["FINISH into the accumulator"] = kept
        if len(arrays) == 2:
            joined, onto_first, onto_last = np.zeros_like(last), before[0].copy(), last.copy()
            self.call(JOIN, joined, before[0], last)
            self.call(JOIN, onto_first, onto_first, last)
            self.call(JOIN, onto_last, before[0], onto_last)
            found |= {"JOIN": joined, "JOIN into the first": onto_first, "JOIN into the second": onto_last}
        return found


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize(("dtype", "reduction"), CASES)
def test_every_way_to_a_reduction_gives_the_same_bits(dtype: DType, reduction: str, ranks: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    arrays = [nans(dtype, chance) for _ in range(ranks)]
    wanted: bytes | None = None
    for several in (COUNT, 5, 1):
        for way, got in Steps(dtype, reduction, several).ways(arrays).items():
            wanted = wanted or got.tobytes()
            assert got.tobytes() == wanted, (way, several)
    assert np.isnan(np.frombuffer(wanted or b"", dtype.numpy)).sum() > COUNT // 2
