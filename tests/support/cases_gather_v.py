"""Cases of gather_v: arrays of any shapes to any root, and what all_gather_v shares with them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tests.support import layouts, models, switches
from tests.support.dtypes import DTYPES, DType
from tests.support.suite import Case

#: kinds of lengths, and how often each is tried
KINDS = {"small": 25, "none": 3, "some empty": 10, "cells": 6, "large": 4, "skewed": 4}


@dataclass
class Arrays:
    """What the ranks send."""

    dtype: DType
    inputs: list[np.ndarray]

    @property
    def counts(self) -> np.ndarray:
        return np.array([x.size for x in self.inputs])


@dataclass
class Places:
    """Where one rank wants them: displacements, and what lay there before."""

    displs: np.ndarray
    before: np.ndarray


def draw_arrays(rng: np.random.Generator, n: int, kind: str) -> Arrays:
    dtype = DTYPES[rng.integers(len(DTYPES))]
    item = dtype.numpy.itemsize
    cell = switches.CELL_BYTES // item
    shapes = {
        "small": lambda: [tuple(rng.integers(0, 6, rng.integers(0, 4))) for _ in range(n)],
        "none": lambda: [(0,), (3, 0)] * n,
        "some empty": lambda: [(int(rng.integers(1, 20)) * int(rng.random() < 0.5),) for _ in range(n)],
        "cells": lambda: [(int(rng.choice([cell - 1, cell, cell + 1, 2 * cell, 2 * cell + 1])),) for _ in range(n)],
        "large": lambda: [(2, int(rng.integers(0, (900 << 10) // (n * item)))) for _ in range(n)],
        "skewed": lambda: [((1 << 20) // item if rng.random() < 1 / n else int(rng.integers(0, 3)),) for _ in range(n)],
    }[kind]()
    return Arrays(dtype, [layouts.values(rng, dtype.numpy, tuple(map(int, shape))) for shape in shapes[:n]])


def draw_places(rng: np.random.Generator, arrays: Arrays, packed: bool) -> Places:
    """Packed, or in any order with gaps; with room behind them."""
    counts = arrays.counts
    displs, room = np.cumsum(counts) - counts, int(counts.sum())
    if not packed:
        room = 0
        for rank in rng.permutation(len(counts)):
            displs[rank] = room + rng.integers(0, 4)
            room = int(displs[rank] + counts[rank])
    room += int(rng.integers(0, 4))
    shape = (2, room // 2) if room % 2 == 0 and rng.random() < 0.5 else (room,)
    return Places(displs, layouts.values(rng, arrays.dtype.numpy, shape))


def receive(rng: np.random.Generator, arrays: Arrays, packed: bool, out: str) -> tuple[dict[str, object], np.ndarray]:
    """Keywords of the call on a rank that receives, and the result that it must get."""
    places = draw_places(rng, arrays, packed)
    keywords: dict[str, object] = {"recv_displs": None if packed else places.displs}
    if rng.random() < 0.5:
        keywords["recv_counts"] = arrays.counts.tolist()
    if out == "none":
        ends = places.displs + arrays.counts
        before = np.zeros(int(ends[arrays.counts > 0].max(initial=0)), arrays.dtype.numpy)
    else:
        before = places.before
        keywords["out"] = layouts.OUTPUTS[out](before)
    return keywords, models.gather_v(arrays.inputs, places.displs, before)


def wrong(got: tuple, keywords: dict[str, object], arrays: Arrays, wanted: np.ndarray) -> str:
    """What is wrong with what a receiving rank got."""
    result, found = got
    if keywords.get("out") is not None and result is not keywords["out"]:
        return "out was not returned"
    if found.dtype != np.int64 or found.tolist() != arrays.counts.tolist():
        return f"receive counts {found!r}, wanted {arrays.counts}"
    return layouts.same(result, wanted)


def case(seed: int, n: int, kind: str, packed: bool, root: int, out: str, later: bool) -> Case:
    name = f"gather_v {kind}{' packed' if packed else ''} {root=} {out=}{' async' if later else ''} {n=} {seed=}"

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        arrays = draw_arrays(rng, n, kind)
        layout = layouts.draw_input(rng, arrays.dtype.numpy)
        x = layouts.INPUTS[layout](arrays.inputs[comm.rank])
        keywords, wanted = receive(rng, arrays, packed, out)
        got = comm.gather_v(x, root, async_op=later, **(keywords if comm.rank == root else {}))
        got = got.wait() if later else got
        if comm.rank != root:
            return "" if got == (None, None) else f"got {got!r}, not (None, None)"
        return wrong(got, keywords, arrays, wanted) or layouts.changed(x, arrays.inputs[comm.rank], out)

    return name, check


def refused(seed: int, n: int) -> Case:
    """The root expects another count of one rank: told to all, nothing is written."""

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        arrays = draw_arrays(rng, n, "large" if rng.random() < 0.3 else "small")
        root, odd = int(rng.integers(n)), int(rng.integers(n))
        expected = arrays.counts + (np.arange(n) == odd)
        out = np.zeros(int(expected.sum()), arrays.dtype.numpy)
        keywords = {"recv_counts": expected, "out": out} if comm.rank == root else {}
        words = f"rank {root} expects {expected[odd]} elements from rank {odd}, which sends {arrays.counts[odd]}"
        return layouts.refused(lambda: comm.gather_v(arrays.inputs[comm.rank], root, **keywords), words, out)

    return f"gather_v refused {n=} {seed=}", check


def sample(seed: int, n: int, factor: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    for kind, times in KINDS.items():
        for _ in range(times * factor):
            drawn = int(rng.integers(1 << 32))
            out = str(rng.choice(["none", "none", *layouts.OUTPUTS]))
            yield case(drawn, n, kind, rng.random() < 0.4, int(rng.integers(n)), out, rng.random() < 0.1)
            if rng.random() < 0.1:
                yield refused(drawn, n)
