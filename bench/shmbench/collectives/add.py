"""add: no collective. Every rank computes c = a + b of its own, all at once: the limit of a reduction of two inputs."""

from itertools import cycle, islice
from typing import Any

import numpy as np

from shmbench.collectives import Buffers, Case, Collective, Counts
from shmbench.payload import Segment


def counts(elements: int, ranks: int) -> Counts:
    return Counts(count=elements, send=2 * elements, receive=elements)


def expected(case: Case, seq: int) -> list[Segment]:
    a, b = case.sent(case.rank, seq), case.sent(case.rank, seq, case.counts.count)
    return [Segment(0, case.counts.receive, a + b)]


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    add, count = np.add, case.counts.count
    halves = [(x[:count], x[count:], out) for x, out in buffers]
    for a, b, out in islice(cycle(halves), n):
        add(a, b, out)


def bus_factor(ranks: int) -> float:
    return 1.0


COLLECTIVE = Collective(counts, expected, run, bus_factor)
