"""Cases of reduce_scatter: of an array, of a list of arrays, of blocks of different lengths."""

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from tests.support import layouts, models
from tests.support.dtypes import BY_NAME, DType, all_kernels
from tests.support.suite import Case, in_turn

#: of one block
SHAPES = ((0,), (1,), (3,), (2, 0, 4), (5, 7), (13,), (3, 11, 5), (1023,), (4097,), (33, 50))
#: in float32 elements: more than a cell, several rounds of the ring
LARGE = ((66_001,), (2, 32_768))

Draw = Callable[[int, int, DType, str, tuple, str, str, bool], Case]


def of_array(seed: int, n: int, dtype: DType, op: str, block: tuple, layout: str, out: str, later: bool) -> Case:
    shape = (n * block[0], *block[1:])
    name = f"reduce_scatter {dtype.name} {op} {shape=} x={layout} out={out}{' async' if later else ''} {seed=}"

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        inputs = [layouts.values(rng, dtype.numpy, shape, op) for _ in range(n)]
        x = layouts.INPUTS[layout](inputs[comm.rank])
        own = x[comm.rank * block[0] :][: block[0]] if out == "in place" else None
        target = layouts.output(out, own, block, dtype.numpy)
        got = comm.reduce_scatter(x, op, out=target, async_op=later)
        if later:
            got = got.wait()
        if target is not None and got is not target:
            return "out was not returned"
        wanted = models.reduce_scatter(inputs, op, comm.rank)
        if out == "in place":
            inputs[comm.rank][comm.rank * block[0] :][: block[0]] = wanted
        return layouts.same(got, wanted) or layouts.changed(x, inputs[comm.rank], "none")

    return name, check


def of_list(seed: int, n: int, dtype: DType, op: str, block: tuple, layout: str, out: str, later: bool) -> Case:
    name = (
        f"reduce_scatter {n} x {dtype.name}{list(block)} {op} x={layout} out={out}{' async' if later else ''} {seed=}"
    )

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        inputs = [[layouts.values(rng, dtype.numpy, block, op) for _ in range(n)] for _ in range(n)]
        x = [layouts.INPUTS[layout](array) for array in inputs[comm.rank]]
        target = layouts.output(out, x[comm.rank], block, dtype.numpy)
        got = comm.reduce_scatter(x, op, out=target, async_op=later)
        if later:
            got = got.wait()
        if target is not None and got is not target:
            return "out was not returned"
        told = layouts.same(got, models.all_reduce([arrays[comm.rank] for arrays in inputs], op))
        for r, (array, before) in enumerate(zip(x, inputs[comm.rank], strict=True)):
            told = told or layouts.changed(array, before, out if r == comm.rank else "none")
        return told

    return name, check


def of_counts(seed: int, n: int, dtype: DType, op: str, block: tuple, layout: str, out: str, later: bool) -> Case:
    """Blocks of up to twice as many elements as `block` has; x is two-dimensional where that is possible."""
    most = 2 * int(np.prod(block)) + 1
    counts = np.random.default_rng(seed).integers(0, most, n) * (np.random.default_rng(seed + 1).random(n) < 0.8)
    total = int(counts.sum())
    shape = (2, total // 2) if total % 2 == 0 else (total,)
    name = f"reduce_scatter_v {dtype.name}{list(shape)} {op} {counts=} x={layout} out={out}{' async' if later else ''}"

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        inputs = [layouts.values(rng, dtype.numpy, shape, op) for _ in range(n)]
        x = layouts.INPUTS[layout](inputs[comm.rank])
        first = int(counts[: comm.rank].sum())
        own = slice(first, first + int(counts[comm.rank]))
        mine = x.reshape(-1)[own] if out == "in place" else None
        target = layouts.output(out, mine, (1, int(counts[comm.rank])) if mine is None else (), dtype.numpy)
        got = comm.reduce_scatter_v(x, counts if seed % 2 else counts.tolist(), op, out=target, async_op=later)
        if later:
            got = got.wait()
        if target is not None and got is not target:
            return "out was not returned"
        wanted = models.all_reduce([array.reshape(-1)[own] for array in inputs], op)
        return layouts.same(got.reshape(-1), wanted) or layouts.changed(x, inputs[comm.rank], out)

    return name, check


def sample(seed: int, n: int, factor: int) -> Iterator[Case]:
    """Every pair of dtype and op, with forms, shapes, layouts and outputs drawn at random."""
    rng = np.random.default_rng(seed)

    def one(draw: Draw, dtype: DType, op: str, block: tuple, out: str = "") -> Case:
        layout = layouts.draw_input(rng, dtype.numpy)
        out = out or layouts.draw_output(rng, layout)
        layout = "contiguous" if out == "in place" else layout
        return draw(int(rng.integers(1 << 32)), n, dtype, op, block, layout, out, rng.random() < 0.1)

    forms: tuple[Draw, ...] = (of_array, of_list, of_counts)
    for i, (dtype, op) in enumerate(all_kernels()):
        for form, shape in in_turn(rng, list(product(forms, SHAPES)), factor):
            yield one(form, dtype, op, shape)
        if rng.random() < 0.05 * factor:
            yield one(forms[(seed + i) % 3], dtype, op, LARGE[rng.integers(len(LARGE))])
    for form in forms:
        for out in ("none", "in place"):
            yield one(form, BY_NAME["float32"], "sum", LARGE[rng.integers(len(LARGE))], out)
    for shape in ((), (1,)):
        yield one(of_list, BY_NAME["int64"], "sum", shape, "none")
