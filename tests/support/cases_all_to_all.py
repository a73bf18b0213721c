"""Cases of all_to_all: every pair of axes, compared with splitting and concatenating in numpy."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from tests.support import layouts, models
from tests.support.dtypes import BY_NAME, DTYPES, DType
from tests.support.suite import Case

AXES = [(ndim, split, concat) for ndim in (1, 2, 3, 4) for split, concat in product(range(ndim), repeat=2)]


def case(
    seed: int, n: int, dtype: DType, shape: tuple, axes: tuple[int, int], layout: str, out: str, later: bool
) -> Case:
    name = f"all_to_all {dtype.name}{list(shape)} axes={axes} x={layout} out={out}{' async' if later else ''} {seed=}"

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        inputs = [layouts.values(rng, dtype.numpy, shape) for _ in range(n)]
        wanted = models.all_to_all(inputs, *axes)[comm.rank]
        x = layouts.INPUTS[layout](inputs[comm.rank])
        target = layouts.output(out, x, wanted.shape, dtype.numpy)
        got = comm.all_to_all(x, *axes, out=target, async_op=later)
        if later:
            got = got.wait()
        if target is not None and got is not target:
            return "out was not returned"
        return layouts.same(got, wanted) or layouts.changed(x, inputs[comm.rank], out)

    return name, check


def listed(seed: int, n: int, dtype: DType, shape: tuple, layout: str, out: str, lists: str, later: bool) -> Case:
    """Blocks of a shape, in lists for x, out or both; in place, x and out are the same blocks."""
    name = f"all_to_all {dtype.name}{list(shape)} {lists} x={layout} out={out}{' async' if later else ''} {n=} {seed=}"

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        blocks = [[layouts.values(rng, dtype.numpy, shape) for _ in range(n)] for _ in range(n)]
        wanted = [blocks[sender][comm.rank] for sender in range(n)]
        mine = blocks[comm.rank]
        make = layouts.INPUTS[layout]
        # on some ranks x is an array all the same
        many = lists != "out" and (lists == "x, out" or bool(shape == () or rng.permutation(n)[comm.rank] % 3))
        x = [make(block) for block in mine] if many else make(models.gather(mine))
        if out == "in place":
            target = x if many else [x[i * shape[0] : (i + 1) * shape[0]] for i in range(n)]
        elif lists == "x":
            target = layouts.output(out, x, models.gather(wanted).shape, dtype.numpy)
        else:
            target = [layouts.output("contiguous" if out == "none" else out, x, shape, dtype.numpy) for _ in mine]
        got = comm.all_to_all(x, out=target, async_op=later)
        if later:
            got = got.wait()
        if target is not None and got is not target:
            return "out was not returned"
        if not isinstance(got, list):
            return layouts.same(got, models.gather(wanted))
        return "; ".join(filter(None, map(layouts.same, got, wanted)))

    return name, check


def sample(seed: int, n: int, factor: int) -> Iterator[Case]:
    """Every pair of axes with several dtypes, extents, layouts and outputs; negative axes too."""
    rng = np.random.default_rng(seed)
    for _ in range(2 * factor):
        for ndim, split, concat in AXES:
            dtype = DTYPES[rng.integers(len(DTYPES))]
            extents = [int(i) for i in rng.choice([0, 1, 2, 3, 5, 8], ndim, p=[0.04, 0.24, 0.2, 0.2, 0.16, 0.16])]
            extents[split] *= n
            layout = layouts.draw_input(rng, dtype.numpy)
            out = layouts.draw_output(rng, layout, in_place=n == 1 or split == concat)
            axes = (split - ndim, concat) if rng.random() < 0.2 else (split, concat)
            yield case(int(rng.integers(1 << 32)), n, dtype, tuple(extents), axes, layout, out, rng.random() < 0.1)
    for dtype in DTYPES:
        yield case(seed, n, dtype, (n, 3), (0, 1), "contiguous", "none", False)
    for shape in ((), (0,), (1,), (13,), (2, 3), (5, 1, 4), ((600 << 10) // (n * 16) + 1,)) * factor:
        for lists in ("x", "out", "x, out"):
            dtype = DTYPES[rng.integers(len(DTYPES))]
            layout = layouts.draw_input(rng, dtype.numpy)
            out = layouts.draw_output(rng, layout, in_place=lists != "x" and (lists == "x, out" or shape != ()))
            lists = "x" if shape == () and lists == "out" else lists
            seed_of_case = int(rng.integers(1 << 32))
            yield listed(seed_of_case, n, dtype, shape, layout, out, lists, rng.random() < 0.1)
    yield from large(seed, n)


def large(seed: int, n: int) -> Iterator[Case]:
    """Blocks longer than a receiver's part of a cell: two, three and many rounds, odd lengths, short and long runs."""
    part = (256 << 10) // n
    for name, factor in (("uint8", 1.5), ("float32", 2.5), ("complex128", 7.1), ("int64", 2.0), ("uint16", 1.0)):
        dtype = BY_NAME[name]
        elements = int(part * factor) // dtype.numpy.itemsize + (factor != 2.0 and factor != 1.0)
        yield case(seed, n, dtype, (n * elements,), (0, 0), "contiguous", "in place", False)
        yield case(seed, n, dtype, (n, elements), (0, 1), "contiguous", "none", False)
        yield case(seed, n, dtype, (elements // 5, 5 * n), (1, 0), "contiguous", "none", False)
        yield case(seed, n, dtype, (3, 2 * n, elements // 6), (1, 2), "transposed", "fortran", False)
