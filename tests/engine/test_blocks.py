"""The copies of blocks against numpy's indexing: rows of runs, any part of a block, either end longer."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from shmcoll.engine.kernels import kernels


@st.composite
def rows(draw: st.DrawFn) -> tuple[int, int, int]:
    """Run, stride and number of runs of a block, in bytes."""
    run = draw(st.sampled_from([1, 2, 3, 4, 8, 12, 16, 24]))
    gap = draw(st.integers(0, 3)) * run
    return run, run + gap, draw(st.integers(1, 6))


def positions(run: int, stride: int, length: int) -> np.ndarray:
    """Where linear byte p of a block lies."""
    p = np.arange(length)
    return p // run * stride + p % run


@settings(max_examples=60, deadline=None, derandomize=True)
@given(rows(), st.data())
def test_gather_and_scatter_runs(row: tuple[int, int, int], data: st.DataObject) -> None:
    run, stride, count = row
    length = run * count
    begin = data.draw(st.integers(0, length))
    end = data.draw(st.integers(begin, length))
    where = positions(run, stride, length)[begin:end]
    block = (np.arange(stride * count) * 7 % 251).astype(np.uint8)

    target = np.full(length + 1, 255, np.uint8)
    kernels.gather_runs(target.ctypes.data, block.ctypes.data, run, stride, begin, end)
    wanted = np.full(length + 1, 255, np.uint8)
    wanted[: end - begin] = block[where]
    np.testing.assert_array_equal(target, wanted)

    source = (np.arange(length + 1) * 11 % 241).astype(np.uint8)
    result = np.full(stride * count, 255, np.uint8)
    kernels.scatter_runs(result.ctypes.data, run, stride, source.ctypes.data, begin, end)
    wanted = np.full(stride * count, 255, np.uint8)
    wanted[where] = source[: end - begin]
    np.testing.assert_array_equal(result, wanted)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(rows(), st.integers(1, 4), st.integers(0, 3), st.booleans())
def test_move_runs(row: tuple[int, int, int], factor: int, gap: int, gathers: bool) -> None:
    """One run divides the other, at either end."""
    run, stride, count = row
    long_run = run * factor
    short, long = (run, stride), (long_run, long_run + gap * run)
    (source_run, source_stride), (target_run, target_stride) = (short, long) if gathers else (long, short)
    length = long_run * count
    here = positions(source_run, source_stride, length)
    there = positions(target_run, target_stride, length)
    source = (np.arange(int(here.max()) + 1) * 7 % 251).astype(np.uint8)
    target = np.full(int(there.max()) + 2, 255, np.uint8)
    wanted = target.copy()
    wanted[there] = source[here]
    kernels.move_runs(
        target.ctypes.data, target_run, target_stride, source.ctypes.data, source_run, source_stride, length
    )
    np.testing.assert_array_equal(target, wanted)
