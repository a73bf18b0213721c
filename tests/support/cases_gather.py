"""Cases of gather: any root, into nothing, an array, or a list of arrays."""

from collections.abc import Iterator

import numpy as np

from tests.support import layouts, models
from tests.support.dtypes import BY_NAME, DTYPES, DType
from tests.support.suite import Case

SHAPES = ((), (0,), (1,), (3,), (12,), (13,), (2, 0, 4), (5, 7), (3, 11, 5), (4097,))
#: in float32 elements: just a cell, one more, two cells, and three and a bit
LARGE = (65_536, 65_537, 131_072, 200_001)


def case(
    seed: int, n: int, dtype: DType, shape: tuple, root: int, layout: str, out: str, many: bool, later: bool
) -> Case:
    name = (
        f"gather {dtype.name}{list(shape)} root={root} x={layout} out={out} {'list ' if many else ''}"
        f"{'async ' if later else ''}{seed=}"
    )

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        inputs = [layouts.values(rng, dtype.numpy, shape) for _ in range(n)]
        wanted = models.gather(inputs)
        x = layouts.INPUTS[layout](inputs[comm.rank])
        if comm.rank != root:
            target = None
        elif many:
            target = [layouts.output("contiguous" if out == "none" else out, x, shape, dtype.numpy) for _ in range(n)]
        else:
            target = layouts.output(out, x, wanted.shape, dtype.numpy)
        got = comm.gather(x, root, out=target, async_op=later)
        if later:
            got = got.wait()
        if comm.rank != root:
            return "" if got is None else f"got {got!r}, not None"
        if target is not None and got is not target:
            return "out was not returned"
        if many:
            told = [layouts.same(g, np.asarray(w)) for g, w in zip(got, inputs, strict=True)]
            return "; ".join(t for t in told if t) or layouts.changed(x, inputs[comm.rank], out)
        return layouts.same(got, wanted) or layouts.changed(x, inputs[comm.rank], out)

    return name, check


def sample(seed: int, n: int, factor: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)

    def one(dtype: DType, shape: tuple) -> Case:
        layout = layouts.draw_input(rng, dtype.numpy)
        out = layouts.draw_output(rng, layout, in_place=False)
        root = int(rng.integers(n))
        return case(
            int(rng.integers(1 << 32)), n, dtype, shape, root, layout, out, rng.random() < 0.3, rng.random() < 0.1
        )

    for _ in range(factor):
        for dtype in DTYPES:
            for shape in SHAPES:
                yield one(dtype, shape)
        for root in range(n):
            yield case(seed, n, BY_NAME["int32"], (6,), root, "contiguous", "none", False, False)
    for count in LARGE:
        yield one(BY_NAME["float32"], (count,))
        yield case(seed, n, BY_NAME["uint8"], (4 * count - 1,), n - 1, "contiguous", "strided", True, False)
