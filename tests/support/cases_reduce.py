"""Cases of reduce: every pair of dtype and op, any root."""

from collections.abc import Iterator

import numpy as np

from tests.support import layouts, models
from tests.support.cases_all_reduce import LARGE, SHAPES
from tests.support.dtypes import BY_NAME, DType, all_kernels
from tests.support.suite import Case, in_turn


def case(seed: int, n: int, dtype: DType, op: str, shape: tuple, root: int, layout: str, out: str, later: bool) -> Case:
    name = f"reduce {dtype.name} {op} {shape=} {root=} x={layout} out={out}{' async' if later else ''} {seed=}"

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        inputs = [layouts.values(rng, dtype.numpy, shape, op) for _ in range(n)]
        x = layouts.INPUTS[layout](inputs[comm.rank])
        target = layouts.output(out, x, shape, dtype.numpy) if comm.rank == root else None
        got = comm.reduce(x, root, op, out=target, async_op=later)
        if later:
            got = got.wait()
        if comm.rank != root:
            return f"got {got!r}, not None" if got is not None else layouts.changed(x, inputs[comm.rank], "none")
        if target is not None and got is not target:
            return "out was not returned"
        return layouts.same(got, models.all_reduce(inputs, op)) or layouts.changed(x, inputs[comm.rank], out)

    return name, check


def sample(seed: int, n: int, factor: int) -> Iterator[Case]:
    """Every pair of dtype and op, with roots, shapes, layouts and outputs drawn at random."""
    rng = np.random.default_rng(seed)

    def one(dtype: DType, op: str, shape: tuple) -> Case:
        layout = layouts.draw_input(rng, dtype.numpy)
        out = layouts.draw_output(rng, layout)
        root = int(rng.integers(n))
        return case(int(rng.integers(1 << 32)), n, dtype, op, shape, root, layout, out, rng.random() < 0.1)

    for dtype, op in all_kernels():
        for shape in in_turn(rng, SHAPES, factor):
            yield one(dtype, op, shape)
        if rng.random() < 0.05 * factor:
            yield one(dtype, op, LARGE[rng.integers(len(LARGE))])
    for root in range(n):
        shape = LARGE[root % 2]
        yield case(seed, n, BY_NAME["float32"], "sum", shape, root, "contiguous", "none", False)
    for out in ("in place", "strided"):
        yield case(seed, n, BY_NAME["float16"], "sum", LARGE[0], n - 1, "contiguous", out, False)
