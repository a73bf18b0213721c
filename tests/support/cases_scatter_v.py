"""Cases of scatter_v: blocks of any lengths, which may overlap, from any root."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support import layouts, models, switches
from tests.support.dtypes import DTYPES, DType
from tests.support.suite import Case

#: kinds of counts, and how often each is tried
KINDS = {"small": 25, "none": 3, "some empty": 10, "cells": 6, "large": 4, "skewed": 4}


@dataclass
class Blocks:
    """What the root sends."""

    dtype: DType
    counts: np.ndarray
    displs: np.ndarray
    x: np.ndarray


def draw(rng: np.random.Generator, n: int, kind: str, packed: bool) -> Blocks:
    dtype = DTYPES[rng.integers(len(DTYPES))]
    item = dtype.numpy.itemsize
    part = switches.CELL_BYTES // max(n - 1, 1) // item
    counts = {
        "small": lambda: rng.integers(0, 9, n),
        "none": lambda: np.zeros(n, np.int64),
        "some empty": lambda: rng.integers(1, 20, n) * (rng.random(n) < 0.5),
        "cells": lambda: rng.choice([part - 1, part, part + 1, 2 * part, 2 * part + 1], n),
        "large": lambda: rng.integers(0, (1800 << 10) // (n * item), n),
        "skewed": lambda: np.where(rng.random(n) < 1 / n, (1 << 20) // item, rng.integers(0, 3, n)),
    }[kind]()
    displs, length = np.cumsum(counts) - counts, int(counts.sum())
    if not packed:
        length = int(counts.max()) + int(rng.integers(0, 9))
        displs = np.array([rng.integers(0, length - count + 1) for count in counts])
    shape = (2, length // 2) if length % 2 == 0 and rng.random() < 0.5 else (length,)
    return Blocks(dtype, counts, displs, layouts.values(rng, dtype.numpy, shape))


def call(comm, root: int, x: object, blocks: Blocks, packed: bool, **keywords: Any) -> Any:
    if comm.rank != root:
        return comm.scatter_v(None, root, **keywords)
    displs = None if packed else blocks.displs.tolist()
    return comm.scatter_v(x, root, send_counts=blocks.counts, send_displs=displs, **keywords)


def case(seed: int, n: int, kind: str, packed: bool, root: int, out: str, later: bool) -> Case:
    name = f"scatter_v {kind}{' packed' if packed else ''} {root=} {out=}{' async' if later else ''} {n=} {seed=}"

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        blocks = draw(rng, n, kind, packed)
        x = layouts.INPUTS[layouts.draw_input(rng, blocks.dtype.numpy)](blocks.x)
        own_out = out if np.random.default_rng((seed, comm.rank)).random() < 0.7 else "none"
        wanted = models.scatter_v(blocks.x, blocks.counts, blocks.displs)[comm.rank]
        if own_out != "none" and wanted.size % 3 == 0:
            wanted = wanted.reshape(3, -1)
        target = layouts.output(own_out, x, wanted.shape, blocks.dtype.numpy)
        got = call(comm, root, x, blocks, packed, out=target, async_op=later)
        got = got.wait() if later else got
        if target is not None and got is not target:
            return "out was not returned"
        return layouts.same(got, wanted) or layouts.changed(x, blocks.x, out)

    return name, check


def refused(seed: int, n: int) -> Case:
    """One rank has another number of elements to receive into than it gets: told to all, nothing is written."""

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        blocks = draw(rng, n, "large" if rng.random() < 0.3 else "small", packed=False)
        root, odd = int(rng.integers(n)), int(rng.integers(n))
        out = np.zeros(blocks.counts[comm.rank] + (comm.rank == odd), blocks.dtype.numpy)
        count = blocks.counts[odd]
        words = f"rank {odd} expects {count + 1} elements from rank {root}, which sends {count}"
        return layouts.refused(lambda: call(comm, root, blocks.x, blocks, False, out=out), words, out)

    return f"scatter_v refused {n=} {seed=}", check


def sample(seed: int, n: int, factor: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    for kind, times in KINDS.items():
        for _ in range(times * factor):
            drawn = int(rng.integers(1 << 32))
            out = str(rng.choice(["none", "none", *layouts.OUTPUTS]))
            yield case(drawn, n, kind, rng.random() < 0.4, int(rng.integers(n)), out, rng.random() < 0.1)
            if rng.random() < 0.1:
                yield refused(drawn, n)
