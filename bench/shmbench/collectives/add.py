"""add: not a collective. Every rank computes its own c = a + b, all at the same time: the limit of a reduction of two
inputs."""

from itertools import cycle, islice
from typing import Any

import numpy as np

from shmbench.collectives import Buffers, Case, Collective, Counts
from shmbench.collectives.common import along
from shmbench.collectives.payload import Segment


def counts(elements: int, ranks: int) -> Counts:
    return Counts(count=elements, size=elements)


def lengths(case: Case) -> tuple[int, int]:
    return 2 * case.counts.size, case.counts.size


def expected(case: Case, seq: int) -> list[Segment]:
    a, b = case.sent(case.rank, seq), case.sent(case.rank, seq, case.counts.count)
    return [Segment(0, case.counts.size, a + b)]


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    add, count = np.add, case.counts.count
    halves = [(x[:count], x[count:], out) for x, out in buffers if x is not None]
    for a, b, out in islice(cycle(halves), n):
        add(a, b, out)


COLLECTIVE = Collective(counts, lengths, expected, run, along)
