"""scatter_v: as scatter with blocks of different lengths, see `uneven`; count: the mean block."""

from itertools import cycle, islice
from typing import Any

import numpy as np

from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.common import apart, blocks, place, uneven
from shmbench.collectives.payload import Segment


def lengths(case: Case) -> tuple[int, int]:
    return case.counts.size if case.is_root else 0, uneven(case)[case.rank]


def expected(case: Case, seq: int) -> list[Segment]:
    block = place(uneven(case), case.rank)
    return [Segment(0, block.stop - block.start, case.sent(case.root, seq, block.start))]


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    scatter_v, root = comm.scatter_v, case.root
    counts = np.array(uneven(case), dtype=np.int64) if case.is_root else None
    for x, out in islice(cycle(buffers), n):
        scatter_v(x, root, send_counts=counts, out=out)


COLLECTIVE = Collective(blocks, lengths, expected, run, apart, rooted=True)
