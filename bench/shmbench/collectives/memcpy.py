"""memcpy: no collective. Every rank copies a buffer of its own, all at once: the limit of data that is moved once."""

from itertools import cycle, islice
from typing import Any

import numpy as np

from shmbench.collectives import Buffers, Case, Collective, Counts
from shmbench.payload import Segment


def counts(elements: int, ranks: int) -> Counts:
    return Counts(count=elements, send=elements, receive=elements)


def expected(case: Case, seq: int) -> list[Segment]:
    return [Segment(0, case.counts.receive, case.sent(case.rank, seq))]


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    copy = np.copyto
    pairs = [(x, out) for x, out in buffers if out is not None]
    for x, out in islice(cycle(pairs), n):
        copy(out, x)


def bus_factor(ranks: int) -> float:
    return 1.0


COLLECTIVE = Collective(counts, expected, run, bus_factor)
