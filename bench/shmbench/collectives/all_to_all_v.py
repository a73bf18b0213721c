"""all_to_all_v: as all_to_all with uneven blocks. Size: all blocks of a rank together; count: the mean block.

The block for the rank k places further is the mean for k = 0, half as much again for k < n/2, and half as much for
k > n/2: every rank sends and receives the same total, and the bus factor is that of all_to_all. At 2 ranks they are
even.
"""

from itertools import accumulate, cycle, islice
from typing import Any

import numpy as np

from shmbench.collectives import Buffers, Case, Collective, blocks
from shmbench.payload import Segment

counts = blocks


def sent_counts(case: Case, rank: int) -> list[int]:
    """Elements that `rank` sends to each rank, packed in this order."""
    mean, n = case.counts.count, case.ranks
    weights = [mean] * n
    for k in range(1, (n + 1) // 2):
        weights[k], weights[n - k] = mean + mean // 2, mean - mean // 2
    return [weights[(peer - rank) % n] for peer in range(n)]


def received_counts(case: Case) -> list[int]:
    """Elements that this rank gets from each rank, packed in this order."""
    return [sent_counts(case, rank)[case.rank] for rank in range(case.ranks)]


def expected(case: Case, seq: int) -> list[Segment]:
    ends = list(accumulate(received_counts(case)))
    segments = []
    for rank, (start, stop) in enumerate(zip([0, *ends], ends, strict=False)):
        source = sum(sent_counts(case, rank)[: case.rank])
        segments.append(Segment(start, stop, case.sent(rank, seq, source)))
    return segments


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    all_to_all_v, counts = comm.all_to_all_v, np.array(sent_counts(case, case.rank), dtype=np.int64)
    for x, out in islice(cycle(buffers), n):
        all_to_all_v(x, counts, out=out)


def bus_factor(ranks: int) -> float:
    return (ranks - 1) / ranks


COLLECTIVE = Collective(counts, expected, run, bus_factor)
