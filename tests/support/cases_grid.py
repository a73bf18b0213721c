"""Cases of halo exchange: grids of one to three axes, open and periodic, of parts of different extents."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from tests.support import layouts
from tests.support.dtypes import BY_NAME, DTYPES, DType
from tests.support.suite import Case

Extents = list[list[int]]


def case(
    seed: int,
    dims: tuple[int, ...],
    periods: tuple[bool, ...],
    extents: Extents,
    rest: tuple[int, ...],
    axes: tuple[int, ...] | None,
    width: int,
    dtype: DType,
    later: bool = False,
) -> Case:
    """`extents`: for each axis of the grid the interior of the ranks along it. `rest`: the other axes of x."""
    name = (
        f"exchange {dtype.name} on {dims} {periods=} {extents=} {rest=} {axes=} {width=} "
        f"{'async ' if later else ''}{seed=}"
    )

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        everybody = list(product(*map(range, dims)))
        arrays = {coords: layouts.values(rng, dtype.numpy, shape_at(coords)) for coords in everybody}
        mine = everybody[comm.rank]
        x = arrays[mine].copy()
        grid = comm.grid(dims, periods)
        got = grid.exchange(x, width, axes=axes, async_op=later)
        if (got.wait() if later else got) is not x:
            return "x was not returned"
        return layouts.same(x, window(arrays, mine))

    def places() -> tuple[int, ...]:
        return tuple(range(len(dims))) if axes is None else axes

    def shape_at(coords: tuple[int, ...]) -> tuple[int, ...]:
        others = iter(rest)
        whole = {axis: extents[i][coords[i]] + 2 * width for i, axis in enumerate(places())}
        return tuple(whole[i] if i in whole else next(others) for i in range(len(dims) + len(rest)))

    def window(arrays: dict, mine: tuple[int, ...]) -> np.ndarray:
        """What the array must hold: its parts, told by three slices an axis, are those of whoever owns them."""
        wanted = arrays[mine].copy()
        for sides in product((-1, 0, 1), repeat=len(dims)):
            owner = list(mine)
            here = [slice(None)] * wanted.ndim
            there = list(here)
            for i, (side, axis) in enumerate(zip(sides, places(), strict=True)):
                to = mine[i] + side
                here[axis] = there[axis] = outside = part_of(side, wanted.shape[axis], outer=True)
                if side == 0:
                    here[axis] = there[axis] = slice(width, -width)
                elif periods[i] or 0 <= to < dims[i]:
                    owner[i] = to % dims[i]
                    here[axis], there[axis] = outside, part_of(-side, extents[i][owner[i]] + 2 * width, outer=False)
            wanted[tuple(here)] = arrays[tuple(owner)][tuple(there)]
        return wanted

    def part_of(side: int, length: int, outer: bool) -> slice:
        """The halo on one side, or the layers within it."""
        first = (0 if outer else width) if side < 0 else length - (width if outer else 2 * width)
        return slice(first, first + width)

    return name, check


def grids(n: int) -> list[tuple[int, ...]]:
    """All grids of n ranks with up to three axes."""
    return [dims for axes in (1, 2, 3) for dims in product(range(1, n + 1), repeat=axes) if np.prod(dims) == n]


def sample(seed: int, n: int, factor: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)

    def one(dims: tuple[int, ...], dtype: DType) -> Case:
        width = int(rng.integers(1, 4))
        periods = tuple(bool(rng.integers(2)) for _ in dims)
        extents = [rng.integers(width, width + 5, ranks).tolist() for ranks in dims]
        rest = tuple(rng.integers(0 if rng.random() < 0.2 else 1, 4, rng.integers(3)).tolist())
        axes = None
        if rng.random() < 0.5:
            axes = tuple(rng.permutation(len(dims) + len(rest))[: len(dims)].tolist())
        return case(
            int(rng.integers(1 << 32)), dims, periods, extents, rest, axes, width, dtype, bool(rng.random() < 0.1)
        )

    for _ in range(factor):
        for dims in grids(n):
            for dtype in rng.permutation(len(DTYPES))[:6]:
                yield one(dims, DTYPES[dtype])
    yield from long_faces(seed, n)


def long_faces(seed: int, n: int) -> Iterator[Case]:
    """Faces longer than their part of a cell, by 1 to 10 rounds, of long runs and of short ones, even and odd."""
    float32, int8, complex128 = (BY_NAME[name] for name in ("float32", "int8", "complex128"))
    for is_periodic in (False, True):
        for length in (32_768, 32_769, 65_537, 100_000):
            yield case(seed, (n,), (is_periodic,), [[3] * n], (length,), None, 1, float32)
        yield case(seed, (n,), (is_periodic,), [[2, 5, 3, 4] * n], (70_001, 3), (1,), 2, int8)
        for dims in {(n, 1), (1, n), (2, n // 2) if n % 2 == 0 else (n, 1)}:
            extents = [[3 + i for i in range(dims[0])], [20_000 + i % 2 * 7_001 for i in range(dims[1])]]
            yield case(seed, dims, (True, is_periodic), extents, (), None, 1, complex128)
            yield case(seed, dims, (is_periodic, True), extents, (2,), (1, 2), 2, float32)
    if n % 4 == 0:
        cube = (2, n // 4, 2)
        extents = [[4, 60], [50] * cube[1], [70, 3]]
        yield case(seed, cube, (True, True, False), extents, (3,), (2, 0, 1), 3, float32)
