"""Cases of collective_permute: rings, random permutations, and parts of them, in any order of the pairs."""

from collections.abc import Iterator

import numpy as np

from tests.support import layouts, models
from tests.support.dtypes import BY_NAME, DTYPES, DType
from tests.support.suite import Case

SHAPES = ((), (0,), (1,), (6,), (7,), (2, 0, 4), (5, 7), (3, 11, 5), (4097,))
#: in float32 elements: just a cell, one more, two cells, and three and a bit
LARGE = (65_536, 65_537, 131_072, 200_001)

Pairs = list[tuple[int, int]]


def case(seed: int, n: int, dtype: DType, shape: tuple, pairs: Pairs, layout: str, out: str, later: bool) -> Case:
    name = f"collective_permute {dtype.name}{list(shape)} {pairs} x={layout} {out=} {'async ' if later else ''}{seed=}"

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        inputs = [layouts.values(rng, dtype.numpy, shape) for _ in range(n)]
        x = layouts.INPUTS[layout](inputs[comm.rank])
        target = layouts.output(out, x, shape, dtype.numpy)
        shuffled = np.random.default_rng(seed + comm.rank).permutation(len(pairs))  # an order of each rank's own
        got = comm.collective_permute(x, [pairs[i] for i in shuffled], out=target, async_op=later)
        if later:
            got = got.wait()
        if target is not None and got is not target:
            return "out was not returned"
        wanted = models.collective_permute(inputs, pairs, comm.rank)
        return layouts.same(got.view(np.ndarray), wanted) or layouts.changed(x, inputs[comm.rank], out)

    return name, check


def draw_pairs(rng: np.random.Generator, n: int) -> Pairs:
    """A ring as often as not; else some pairs of a random permutation, none of them now and then."""
    if rng.random() < 0.5:
        shift = int(rng.integers(n + 1))
        return [(i, (i + shift) % n) for i in range(n)]
    kept = int(rng.integers(n + 1))
    sources, targets = rng.permutation(n)[:kept].tolist(), rng.permutation(n)[:kept].tolist()
    return list(zip(sources, targets, strict=True))


def sample(seed: int, n: int, factor: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)

    def one(dtype: DType, shape: tuple) -> Case:
        layout = layouts.draw_input(rng, dtype.numpy)
        out = layouts.draw_output(rng, layout)
        return case(int(rng.integers(1 << 32)), n, dtype, shape, draw_pairs(rng, n), layout, out, rng.random() < 0.1)

    for _ in range(factor):
        for dtype in DTYPES:
            for shape in SHAPES:
                yield one(dtype, shape)
    ring = [(i, (i + 1) % n) for i in range(n)]
    chain = ring[:-1]
    for count in LARGE:
        yield one(BY_NAME["float32"], (count,))
        yield case(seed, n, BY_NAME["uint8"], (4 * count - 1,), ring, "contiguous", "in place", False)
        yield case(seed, n, BY_NAME["uint8"], (4 * count + 1,), chain, "contiguous", "in place", False)
        yield case(seed, n, BY_NAME["complex128"], (count // 4,), chain, "strided", "contiguous", True)
