"""collective_permute: the array of every rank goes to the next rank, that of the last one to rank 0."""

from itertools import cycle, islice
from typing import Any

from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.common import alike, along, whole
from shmbench.collectives.payload import Segment


def expected(case: Case, seq: int) -> list[Segment]:
    return [Segment(0, case.counts.size, case.sent((case.rank - 1) % case.ranks, seq))]


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    collective_permute, pairs = comm.collective_permute, [(r, (r + 1) % case.ranks) for r in range(case.ranks)]
    for x, out in islice(cycle(buffers), n):
        collective_permute(x, pairs, out=out)


COLLECTIVE = Collective(whole, alike, expected, run, along)
