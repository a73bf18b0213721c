"""Cases of scatter: any root, an array or a list of arrays there, `out` on some ranks and none on others."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.support import layouts, models
from tests.support.dtypes import BY_NAME, DTYPES, DType
from tests.support.suite import Case

#: of one part
SHAPES = ((0,), (1,), (3,), (12,), (13,), (2, 0, 4), (5, 7), (3, 11, 5), (4097,), (2,) * 9, (1,) * 12 + (3, 2))
#: in bytes of a cell: just one, and a bit more and less of one, two and three
LARGE = (1.0, 1.01, 1.99, 2.0, 3.05)


def case(
    seed: int, n: int, dtype: DType, shape: tuple, root: int, layout: str, out: str, many: bool, later: bool
) -> Case:
    name = (
        f"scatter {dtype.name}{list(shape)} {root=} x={layout} out={out} {'list ' if many else ''}"
        f"{'async ' if later else ''}{seed=}"
    )

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        parts = [layouts.values(rng, dtype.numpy, shape) for _ in range(n)]
        place = out if rng.permutation(n)[comm.rank] % 3 else "none"
        x: Any = None
        if comm.rank == root:
            make = layouts.INPUTS[layout]
            x = [make(part) for part in parts] if many else make(models.gather(parts))
        if place == "in place":
            target = own_part(x, root) if comm.rank == root else layouts.output("contiguous", x, shape, dtype.numpy)
        else:
            target = layouts.output(place, x, shape, dtype.numpy)
        got = comm.scatter(x, root, out=target, async_op=later)
        if later:
            got = got.wait()
        if target is not None and got is not target:
            return "out was not returned"
        wrong = layouts.same(got, parts[comm.rank])
        if wrong or comm.rank != root:
            return wrong
        if many:
            return "; ".join(filter(None, map(layouts.changed, x, parts, [place] * n)))
        return layouts.changed(x, models.gather(parts), place)

    def own_part(x, root: int) -> np.ndarray:
        return x[root] if many else x[root * shape[0] : (root + 1) * shape[0]]

    return name, check


def sample(seed: int, n: int, factor: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)

    def one(dtype: DType, shape: tuple) -> Case:
        layout = layouts.draw_input(rng, dtype.numpy)
        out = layouts.draw_output(rng, layout)
        root = int(rng.integers(n))
        return case(
            int(rng.integers(1 << 32)), n, dtype, shape, root, layout, out, rng.random() < 0.3, rng.random() < 0.1
        )

    for _ in range(factor):
        for dtype in DTYPES:
            for shape in SHAPES:
                yield one(dtype, shape)
        for dtype in DTYPES:
            yield case(seed, n, dtype, (), int(rng.integers(n)), "contiguous", "contiguous", True, False)
        for root in range(n):
            yield case(seed, n, BY_NAME["int32"], (6,), root, "contiguous", "none", False, False)
    for factor_of_cell in LARGE:
        count = int((256 << 10) / max(n - 1, 1) * factor_of_cell)
        yield one(BY_NAME["float32"], (count // 4,))
        yield case(seed, n, BY_NAME["uint8"], (count + 1,), n - 1, "contiguous", "strided", True, False)
        yield case(seed, n, BY_NAME["uint8"], (count - 1,), 0, "contiguous", "none", False, False)
        yield case(seed, n, BY_NAME["uint8"], (count // 512, *(2,) * 9), 0, "contiguous", "none", False, False)
