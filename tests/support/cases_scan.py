"""Cases of scan and exscan: every pair of dtype and op that has a running form."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from tests.support import layouts
from tests.support.cases_all_reduce import LARGE, SHAPES, case
from tests.support.dtypes import BY_NAME, DType, all_kernels
from tests.support.suite import Case, in_turn


def sample(seed: int, n: int, factor: int) -> Iterator[Case]:
    """Each with shapes, layouts and outputs drawn at random."""
    rng = np.random.default_rng(seed)

    def one(operation: str, dtype: DType, op: str, shape: tuple) -> Case:
        layout = layouts.draw_input(rng, dtype.numpy)
        out = layouts.draw_output(rng, layout)
        return case(int(rng.integers(1 << 32)), n, operation, dtype, op, shape, layout, out, rng.random() < 0.1)

    operations = ("scan", "exscan")
    for i, (dtype, op) in enumerate(all_kernels()):
        if op == "avg":
            continue
        for operation, shape in in_turn(rng, list(product(operations, SHAPES)), factor):
            yield one(operation, dtype, op, shape)
        if rng.random() < 0.05 * factor:
            yield one(operations[(seed + i) % 2], dtype, op, LARGE[rng.integers(len(LARGE))])
    for operation in operations:
        for out in ("none", "in place", "strided"):
            yield case(seed, n, operation, BY_NAME["float32"], "sum", (500_001,), "contiguous", out, False)
        yield case(seed, n, operation, BY_NAME["bfloat16"], "sum", LARGE[0], "contiguous", "in place", False)
