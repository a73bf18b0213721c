"""Cases of reduce: every pair of dtype and op, any root."""

from collections.abc import Iterator

import numpy as np

from tests.support import layouts
from tests.support.cases_all_reduce import LARGE, SHAPES, case
from tests.support.dtypes import BY_NAME, DType, all_kernels
from tests.support.suite import Case, in_turn


def sample(seed: int, n: int, factor: int) -> Iterator[Case]:
    """Every pair of dtype and op, with roots, shapes, layouts and outputs drawn at random."""
    rng = np.random.default_rng(seed)

    def one(dtype: DType, op: str, shape: tuple) -> Case:
        layout = layouts.draw_input(rng, dtype.numpy)
        out = layouts.draw_output(rng, layout)
        root = int(rng.integers(n))
        return case(int(rng.integers(1 << 32)), n, "reduce", dtype, op, shape, layout, out, rng.random() < 0.1, root)

    for dtype, op in all_kernels():
        for shape in in_turn(rng, SHAPES, factor):
            yield one(dtype, op, shape)
        if rng.random() < 0.05 * factor:
            yield one(dtype, op, LARGE[rng.integers(len(LARGE))])
    for root in range(n):
        shape = LARGE[root % 2]
        yield case(seed, n, "reduce", BY_NAME["float32"], "sum", shape, "contiguous", "none", False, root)
    for out in ("in place", "strided"):
        yield case(seed, n, "reduce", BY_NAME["float16"], "sum", LARGE[0], "contiguous", out, False, n - 1)
