"""What stands beside long calls: the memory alone. Every rank copies an array, or adds two, and all do so at once."""

from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

import numpy as np

from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.lengths import alike, pair, size, whole
from shmbench.collectives.payload import Segment
from shmbench.collectives.table import along, of_rank


def copying(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    copy = np.copyto
    for x, out in islice(cycle(_with_both(buffers)), n):
        copy(out, x)


def adding(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    add, count = np.add, case.counts.count
    halves = [(x[:count], x[count:], out) for x, out in _with_both(buffers)]
    for a, b, out in islice(cycle(halves), n):
        add(a, b, out)


def _with_both(buffers: Buffers) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    return ((x, out) for x, out in buffers if x is not None and out is not None)


def sum_of_halves(case: Case, seq: int) -> list[Segment]:
    n = case.counts.count
    return [Segment(0, n, case.sent(case.rank, seq) + case.sent(case.rank, seq, n))]


MEMCPY = Collective(whole, alike, of_rank(lambda case: case.rank), copying, along, ())
ADD = Collective(whole, pair(lambda case: 2 * size(case), size), sum_of_halves, adding, along, ())
