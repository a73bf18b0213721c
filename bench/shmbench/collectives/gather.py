"""gather: the root gets the blocks of all ranks. Size: all blocks together; count: one rank's."""

from itertools import cycle, islice
from typing import Any

from shmbench.collectives import Buffers, Case, Collective, Counts
from shmbench.payload import Segment


def counts(elements: int, ranks: int) -> Counts:
    block = max(1, elements // ranks)
    return Counts(count=block, send=block, receive=block * ranks)


def expected(case: Case, seq: int) -> list[Segment]:
    if case.rank != case.root:
        return []
    block = case.counts.count
    return [Segment(rank * block, (rank + 1) * block, case.sent(rank, seq)) for rank in range(case.ranks)]


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    gather, root = comm.gather, case.root
    for x, out in islice(cycle(buffers), n):
        gather(x, root, out=out)


def bus_factor(ranks: int) -> float:
    return (ranks - 1) / ranks


COLLECTIVE = Collective(counts, expected, run, bus_factor, rooted=True)
