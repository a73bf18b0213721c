"""all_to_all: block i of every rank goes to rank i. Size: all blocks of a rank together."""

from itertools import cycle, islice
from typing import Any

from shmbench.collectives import Buffers, Case, Collective, blocks
from shmbench.payload import Segment

counts = blocks


def expected(case: Case, seq: int) -> list[Segment]:
    block = case.counts.count
    return [
        Segment(rank * block, (rank + 1) * block, case.sent(rank, seq, case.rank * block)) for rank in range(case.ranks)
    ]


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    all_to_all = comm.all_to_all
    for x, out in islice(cycle(buffers), n):
        all_to_all(x, out=out)


def bus_factor(ranks: int) -> float:
    return (ranks - 1) / ranks


COLLECTIVE = Collective(counts, expected, run, bus_factor)
