"""Cases of broadcast: any root, anything like an array there, any array that can be written elsewhere."""

from collections.abc import Iterator

import numpy as np

from shmcoll.calls.arguments import as_memory
from tests.support import layouts
from tests.support.dtypes import BY_NAME, DTYPES, DType
from tests.support.suite import Case

SHAPES = ((), (0,), (1,), (6,), (13,), (2, 0, 4), (5, 7), (3, 11, 5), (4097,))
#: in float32 elements: just a cell, one more, one and a half, two cells, and three and a bit
LARGE = (65_536, 65_537, 98_304, 131_072, 200_001)


def case(seed: int, n: int, dtype: DType, shape: tuple, root: int, layout: str, target: str, later: bool) -> Case:
    name = (
        f"broadcast {dtype.name}{list(shape)} {root=} x={layout} elsewhere={target} {'async ' if later else ''}{seed=}"
    )

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        wanted = layouts.values(rng, dtype.numpy, shape)
        if comm.rank == root:
            x = layouts.INPUTS[layout](wanted)
        else:
            x = layouts.INPUTS[target](np.full(shape, 77, np.uint8).astype(dtype.numpy))
        got = comm.broadcast(x, root, async_op=later)
        if later:
            got = got.wait()
        if isinstance(x, np.ndarray) and got is not x:
            return "x was not returned"
        return layouts.same(np.asarray(as_memory(got)).astype(wanted.dtype), wanted)

    return name, check


def sample(seed: int, n: int, factor: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    targets = [*layouts.OUTPUTS, "foreign"]

    def one(dtype: DType, shape: tuple) -> Case:
        layout, target = layouts.draw_input(rng, dtype.numpy), str(rng.choice(["contiguous"] * 5 + targets))
        if target == "foreign" and dtype.numpy.kind == "V":
            target = "strided"
        root = int(rng.integers(n))
        return case(int(rng.integers(1 << 32)), n, dtype, shape, root, layout, target, rng.random() < 0.1)

    for _ in range(factor):
        for dtype in DTYPES:
            for shape in SHAPES:
                yield one(dtype, shape)
        for root in range(n):
            yield case(seed, n, BY_NAME["int32"], (6,), root, "contiguous", "contiguous", False)
    for count in LARGE:
        yield one(BY_NAME["float32"], (count,))
        yield case(seed, n, BY_NAME["uint8"], (4 * count - 1,), n - 1, "contiguous", "strided", False)
        yield case(seed, n, BY_NAME["uint8"], (4 * count + 1,), 0, "read-only", "contiguous", False)
