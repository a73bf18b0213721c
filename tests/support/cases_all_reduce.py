"""Cases of all_reduce: every pair of dtype and op, compared with numpy element by element.

`cases_reduce` and `cases_scan` draw theirs from the same `case`.
"""

from collections.abc import Iterator

import numpy as np

from tests.support import layouts, models
from tests.support.dtypes import BY_NAME, DType, all_kernels
from tests.support.suite import Case, in_turn

SHAPES = (
    (),
    (0,),
    (1,),
    (3,),
    (2, 0, 4),
    (5, 7),
    (12,),
    (13,),
    (64,),
    (3, 11, 5),
    (1023,),
    (4097,),
    (8193,),
    (33, 500),
)
#: about 700 KB and 1 MB in float32: more than a cell, several rounds of the ring
LARGE = ((179_001,), (2, 131_072))


def case(
    seed: int,
    n: int,
    operation: str,
    dtype: DType,
    op: str,
    shape: tuple,
    layout: str,
    out: str,
    later: bool,
    root: int | None = None,
) -> Case:
    """A case of all_reduce, reduce, scan, or exscan. root: the only rank that gets a result."""
    at = "" if root is None else f" {root=}"
    name = f"{operation} {dtype.name} {op} {shape=}{at} x={layout} {out=}{' async' if later else ''} {seed=}"

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        inputs = [layouts.values(rng, dtype.numpy, shape, op) for _ in range(n)]
        x = layouts.INPUTS[layout](inputs[comm.rank])
        gets = root in (None, comm.rank)
        target = layouts.output(out, x, shape, dtype.numpy) if gets else None
        before = None if target is None or out == "in place" else target.copy()
        got = getattr(comm, operation)(x, *([] if root is None else [root]), op, out=target, async_op=later)
        if later:
            got = got.wait()
        wanted = getattr(models, operation)(inputs, op, comm.rank) if gets else None
        if wanted is None:
            wrong = "" if before is None else layouts.changed(target, before, "none")
            return (
                f"got {got!r}, not None" if got is not None else wrong or layouts.changed(x, inputs[comm.rank], "none")
            )
        if target is not None and got is not target:
            return "out was not returned"
        return layouts.same(got, wanted) or layouts.changed(x, inputs[comm.rank], out)

    return name, check


def sample(seed: int, n: int, factor: int) -> Iterator[Case]:
    """Every pair of dtype and op, pairs of value and index too, with shapes, layouts and outputs drawn at random."""
    rng = np.random.default_rng(seed)
    for dtype, op in all_kernels():
        for shape in in_turn(rng, SHAPES, factor):
            layout = layouts.draw_input(rng, dtype.numpy)
            out = layouts.draw_output(rng, layout)
            yield case(int(rng.integers(1 << 32)), n, "all_reduce", dtype, op, shape, layout, out, rng.random() < 0.1)
        if rng.random() < 0.1 * factor:
            shape = LARGE[rng.integers(len(LARGE))]
            yield case(int(rng.integers(1 << 32)), n, "all_reduce", dtype, op, shape, "contiguous", "none", False)
    for shape in LARGE:
        for out in ("none", "in place", "strided"):
            yield case(seed, n, "all_reduce", BY_NAME["float32"], "sum", shape, "contiguous", out, False)
