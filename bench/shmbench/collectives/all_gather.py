"""all_gather: every rank gets the blocks of all ranks. Size: all blocks together; count: one rank's.

In place the input is this rank's own block of its output.
"""

from itertools import cycle, islice
from typing import Any

import numpy as np

from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.common import apart, blocks, even, everyones, place
from shmbench.collectives.payload import Segment


def lengths(case: Case) -> tuple[int, int]:
    return case.counts.count, case.counts.size


def expected(case: Case, seq: int) -> list[Segment]:
    return everyones(case, seq, even(case))


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    all_gather = comm.all_gather
    for x, out in islice(cycle(buffers), n):
        all_gather(x, out=out)


def in_place(case: Case, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return memory[place(even(case), case.rank)], memory


COLLECTIVE = Collective(blocks, lengths, expected, run, apart, in_place)
