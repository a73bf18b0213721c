"""Cases of results that all ranks share: all_gather, gather, broadcast and scatter with `shared=True`."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.support import layouts, models
from tests.support.dtypes import BY_NAME, DTYPES, DType
from tests.support.suite import Case

SHAPES = ((), (0,), (1,), (13,), (2, 0, 4), (3, 11, 5), (4097,))
OPERATIONS = ("all_gather", "gather", "broadcast", "scatter")
#: in bytes: pages and a bit, and more than a huge page for each of few ranks
LARGE = (8192, 8193, 999_999, (9 << 20) + 1)


def case(seed: int, n: int, operation: str, dtype: DType, shape: tuple, root: int, layout: str, later: bool) -> Case:
    name = f"shared {operation} {dtype.name}{list(shape)} {root=} x={layout} {'async ' if later else ''}{seed=}"

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        parts = [layouts.values(rng, dtype.numpy, shape) for _ in range(n)]
        make, rooted = layouts.INPUTS[layout], () if operation == "all_gather" else (root,)
        x: Any = None
        if operation in ("all_gather", "gather"):
            mine, wanted = parts[comm.rank], models.gather(parts)
            x = make(mine)
        elif operation == "broadcast":
            mine = wanted = parts[0]
            x = make(mine) if comm.rank == root else None
        else:
            many, mine, wanted = bool(seed % 2) or not shape, models.gather(parts), parts[comm.rank]
            if comm.rank == root:
                x = [make(part) for part in parts] if many else make(mine)
        got = getattr(comm, operation)(x, *rooted, shared=True, async_op=later)
        if later:
            got = got.wait()
        if operation == "gather" and comm.rank != root:
            return "" if got is None else f"got {got!r}, not None"
        if x is not None and not isinstance(x, list) and (changed := layouts.changed(x, mine, "none")):
            return changed
        return layouts.same(got, wanted) or can_be_written(got)

    return name, check


def can_be_written(got: Any) -> str:
    if isinstance(got, np.generic) or not got.size:
        return ""
    for change in (lambda: got.__setitem__(..., got), lambda: setattr(got.flags, "writeable", True)):
        try:
            change()
        except ValueError:
            continue
        return "the result can be written"
    return ""


def sample(seed: int, n: int, factor: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)

    def one(operation: str, dtype: DType, shape: tuple) -> Case:
        layout, root = layouts.draw_input(rng, dtype.numpy), int(rng.integers(n))
        return case(int(rng.integers(1 << 32)), n, operation, dtype, shape, root, layout, rng.random() < 0.1)

    for _ in range(factor):
        for i, dtype in enumerate(DTYPES):
            for operation in OPERATIONS:
                yield one(operation, dtype, SHAPES[int(rng.integers(len(SHAPES)))])
            yield one(OPERATIONS[i % len(OPERATIONS)], dtype, SHAPES[i % len(SHAPES)])
    for length in LARGE:
        for operation in OPERATIONS:
            yield one(operation, BY_NAME["uint8"], (length // (1 if operation == "broadcast" else n),))
