"""Inputs with one exact result in any correct library, and the comparison with that result.

A buffer is a short pattern repeated. The pattern depends on rank and sequence number, so that data of another rank, of
an earlier call or at a wrong place is found. Its length is prime, so that slices, cells and pages are never aligned
with it. The values are small enough that every dtype represents them and all their partial sums and products exactly,
in any order of reduction.
"""

from dataclasses import dataclass

import numpy as np

PERIOD = 4099  # elements, prime
_MASK = (1 << 64) - 1
_EXACT = {"float16": 1 << 11, "bfloat16": 1 << 8}  # integers up to here are exact


@dataclass(frozen=True)
class Segment:
    """Elements `start` to `stop` of an output must be `pattern`, repeated."""

    start: int
    stop: int
    pattern: np.ndarray


def dtype_of(name: str) -> np.dtype:
    """Return the numpy dtype called `name`; bfloat16 comes from ml_dtypes."""
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def pattern(dtype: np.dtype, op: str, ranks: int, rank: int, seq: int, start: int = 0) -> np.ndarray:
    """Return what `rank` of `ranks` sends in call `seq`, from element `start` on, in `PERIOD` elements of `dtype`."""
    place = (np.arange(PERIOD, dtype=np.uint64) + np.uint64(start % PERIOD)) % np.uint64(PERIOD)
    bits = _mix(place, rank, seq)
    if dtype == np.bool_:
        return bits % np.uint64(2) == 1
    spread = max(2, min(_EXACT.get(dtype.name, 1 << 12), 1 << 12) // ranks)
    if op == "prod":
        # Powers of two, and few enough of them that no dtype overflows.
        values = np.uint64(1) + (bits % np.uint64(2) if rank < 7 else np.uint64(0) * bits)
    elif op == "avg":
        # Of each pair of ranks one is above and one below a common value: the sum is a multiple of the number of ranks.
        common = np.uint64(1) + _mix(place, 0, seq) % np.uint64(spread - 1)
        values = common if rank == ranks - 1 and ranks % 2 else common + np.uint64(1) - np.uint64(2 * (rank % 2))
    else:
        values = bits % np.uint64(spread)
    if dtype.kind == "c":
        imaginary = values if op == "avg" else values % np.uint64(2)
        return (values + 1j * imaginary).astype(dtype)
    return values.astype(dtype)


def _mix(place: np.ndarray, rank: int, seq: int) -> np.ndarray:
    """Return 24 well-mixed bits for each place."""
    salt = (rank * 0x9E3779B97F4A7C15 + seq * 0xC2B2AE3D27D4EB4F) & _MASK
    bits = (place + np.uint64(1)) * np.uint64(0xD6E8FEB86659FD93) ^ np.uint64(salt)
    bits = (bits ^ (bits >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return bits >> np.uint64(40)


def fill(array: np.ndarray, pattern: np.ndarray) -> None:
    """Repeat `pattern` over the 1-D `array`."""
    whole, rest = divmod(array.size, pattern.size)
    array[: array.size - rest].reshape(whole, pattern.size)[...] = pattern
    array[array.size - rest :] = pattern[:rest]


def spoil(array: np.ndarray, segments: list[Segment]) -> None:
    """Write a wrong value into every element, so that an element that is right afterwards has been written since."""
    for s in segments:
        wrong = ~s.pattern if s.pattern.dtype == np.bool_ else (~s.pattern.view(np.uint8)).view(s.pattern.dtype)
        fill(array[s.start : s.stop], wrong)


def wrong(array: np.ndarray, segments: list[Segment]) -> int:
    """Return how many elements differ from what they must be; NaN always does."""
    return sum(_differing(array[s.start : s.stop], s.pattern) for s in segments)


def _differing(array: np.ndarray, pattern: np.ndarray) -> int:
    whole, rest = divmod(array.size, pattern.size)
    rows = array[: array.size - rest].reshape(whole, pattern.size)
    tail = array[array.size - rest :]
    return int(np.count_nonzero(rows != pattern)) + int(np.count_nonzero(tail != pattern[:rest]))
