"""reduce_scatter_v: as reduce_scatter with blocks of different lengths, see `uneven`; count: the mean block."""

from itertools import cycle, islice
from typing import Any

import numpy as np

from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.common import apart, blocks, place, reduced, uneven
from shmbench.collectives.payload import Segment


def lengths(case: Case) -> tuple[int, int]:
    return case.counts.size, uneven(case)[case.rank]


def expected(case: Case, seq: int) -> list[Segment]:
    block = place(uneven(case), case.rank)
    return [Segment(0, block.stop - block.start, reduced(case, seq, range(case.ranks), block.start))]


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    reduce_scatter_v, op, counts = comm.reduce_scatter_v, case.op, np.array(uneven(case), dtype=np.int64)
    for x, out in islice(cycle(buffers), n):
        reduce_scatter_v(x, counts, op, out=out)


def in_place(case: Case, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return memory, memory[place(uneven(case), case.rank)]


COLLECTIVE = Collective(blocks, lengths, expected, run, apart, in_place, reduces=True)
