"""reduce_scatter: rank r gets the reduction of block r of all inputs. Size: all blocks together; count: one of them.

In place the output is this rank's own block of its input.
"""

from itertools import cycle, islice
from typing import Any

import numpy as np

from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.common import apart, blocks, even, place, reduced, with_algorithm
from shmbench.collectives.payload import Segment


def lengths(case: Case) -> tuple[int, int]:
    return case.counts.size, case.counts.count


def expected(case: Case, seq: int) -> list[Segment]:
    start = place(even(case), case.rank).start
    return [Segment(0, case.counts.count, reduced(case, seq, range(case.ranks), start))]


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    reduce_scatter, op = with_algorithm(comm.reduce_scatter, case), case.op
    for x, out in islice(cycle(buffers), n):
        reduce_scatter(x, op, out=out)


def in_place(case: Case, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return memory, memory[place(even(case), case.rank)]


COLLECTIVE = Collective(blocks, lengths, expected, run, apart, in_place, reduces=True)
