"""Cases of all_gather: into nothing, an array, a list of arrays, or the array that x is a part of."""

from collections.abc import Iterator

import numpy as np

from tests.support import layouts, models
from tests.support.dtypes import BY_NAME, DTYPES, DType
from tests.support.suite import Case

SHAPES = ((), (0,), (1,), (3,), (12,), (13,), (2, 0, 4), (5, 7), (3, 11, 5), (4097,))
#: in float32 elements: just a cell, one more, two cells, and three and a bit
LARGE = (65_536, 65_537, 131_072, 200_001)


def case(seed: int, n: int, dtype: DType, shape: tuple, layout: str, out: str, many: bool, later: bool) -> Case:
    name = (
        f"all_gather {dtype.name}{list(shape)} x={layout} out={out} {'list ' if many else ''}"
        f"{'async ' if later else ''}{seed=}"
    )

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        inputs = [layouts.values(rng, dtype.numpy, shape) for _ in range(n)]
        wanted = models.gather(inputs)
        x, target = arguments(comm.rank, inputs, wanted)
        got = comm.all_gather(x, out=target, async_op=later)
        if later:
            got = got.wait()
        if target is not None and got is not target:
            return "out was not returned"
        if many:
            told = [layouts.same(g, np.asarray(w)) for g, w in zip(got, inputs, strict=True)]
            return "; ".join(t for t in told if t) or layouts.changed(x, inputs[comm.rank], out)
        return layouts.same(got, wanted) or layouts.changed(x, inputs[comm.rank], out)

    def arguments(rank: int, inputs: list, wanted: np.ndarray) -> tuple:
        kind = "contiguous" if out == "in place" else out
        if many:
            kind = "contiguous" if kind == "none" else kind
            target = [layouts.output(kind, None, shape, dtype.numpy) for _ in range(n)]
            mine = target[rank]
        else:
            target = layouts.output(kind, None, wanted.shape, dtype.numpy)
            first = shape[0] if shape else 1
            mine = None if target is None else target[rank * first : (rank + 1) * first].reshape(shape)
        if out != "in place":
            return layouts.INPUTS[layout](inputs[rank]), target
        mine[...] = inputs[rank]
        return mine, target

    return name, check


def sample(seed: int, n: int, factor: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)

    def one(dtype: DType, shape: tuple) -> Case:
        layout = layouts.draw_input(rng, dtype.numpy)
        out = layouts.draw_output(rng, layout)
        return case(int(rng.integers(1 << 32)), n, dtype, shape, layout, out, rng.random() < 0.3, rng.random() < 0.1)

    for _ in range(factor):
        for dtype in DTYPES:
            for shape in SHAPES:
                yield one(dtype, shape)
    for count in LARGE:
        yield one(BY_NAME["float32"], (count,))
        yield case(seed, n, BY_NAME["uint8"], (4 * count - 1,), "contiguous", "strided", True, False)
        yield case(seed, n, BY_NAME["uint8"], (4 * count + 1,), "contiguous", "in place", False, False)
