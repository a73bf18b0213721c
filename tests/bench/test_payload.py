"""Inputs are exact in every dtype, differ where they must, and a wrong element is counted."""

import numpy as np
import pytest
from shmbench.cli.options import DTYPES, FLOATS, OPS
from shmbench.collectives.payload import PERIOD, Segment, dtype_of, fill, pattern, spoil, wrong

UFUNCS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


@pytest.mark.parametrize("ranks", [1, 2, 3, 8, 64])
@pytest.mark.parametrize("op", ["sum", "prod", "avg"])
@pytest.mark.parametrize("name", FLOATS)
def test_every_partial_result_is_exact(name, op, ranks):
    dtype = dtype_of(name)
    parts = [pattern(dtype, op, ranks, rank, seq=5) for rank in range(ranks)]
    wide = np.complex128 if dtype.kind == "c" else np.float64
    ufunc = np.multiply if op == "prod" else np.add
    for order in (parts, parts[::-1]):
        narrow, exact = order[0], order[0].astype(wide)
        for part in order[1:]:
            narrow, exact = ufunc(narrow, part), ufunc(exact, part.astype(wide))
            assert np.array_equal(narrow.astype(wide), exact)
    if op == "avg":
        assert np.array_equal((exact / ranks).astype(dtype).astype(wide) * ranks, exact)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", DTYPES)
def test_other_ranks_calls_and_places_send_something_else(name, op):
    dtype = dtype_of(name)
    first = pattern(dtype, op, 4, rank=0, seq=1)
    assert first.dtype == dtype and first.shape == (PERIOD,)
    others = [pattern(dtype, op, 4, 1, 1), pattern(dtype, op, 4, 0, 2), pattern(dtype, op, 4, 0, 1, start=64)]
    for other in others:
        assert np.count_nonzero(first != other) > PERIOD // 4


def test_start_is_a_place_in_the_repeated_pattern():
    whole = np.empty(3 * PERIOD + 5, np.int64)
    fill(whole, pattern(whole.dtype, "sum", 2, 1, 9))
    for start in (0, 1, PERIOD - 1, PERIOD, PERIOD + 17):
        part = np.empty(PERIOD + 3, np.int64)
        fill(part, pattern(whole.dtype, "sum", 2, 1, 9, start))
        assert np.array_equal(part, whole[start : start + part.size])


@pytest.mark.parametrize("size", [0, 1, PERIOD - 1, PERIOD, 2 * PERIOD + 3])
@pytest.mark.parametrize("name", DTYPES)
def test_spoiled_is_wrong_everywhere_and_filled_nowhere(name, size):
    dtype = dtype_of(name)
    array = np.zeros(size, dtype)
    right = pattern(dtype, "sum", 2, 0, 3)
    segments = [Segment(0, size // 2, right), Segment(size // 2, size, np.roll(right, 5))]
    spoil(array, segments)
    assert wrong(array, segments) == size
    for s in segments:
        fill(array[s.start : s.stop], s.pattern)
    assert wrong(array, segments) == 0


def test_single_wrong_elements_are_counted():
    right = pattern(np.dtype(np.float32), "sum", 2, 0, 3)
    array = np.empty(2 * PERIOD + 10, np.float32)
    fill(array, right)
    array[0] += 1
    array[PERIOD] = np.nan
    array[-1] = -1
    assert wrong(array, [Segment(0, array.size, right)]) == 3
