"""scatter: rank r gets block r of the root's input. Size: all blocks together; count: one of them.

In place the root's output is its own block of its input.
"""

from itertools import cycle, islice
from typing import Any

import numpy as np

from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.common import apart, blocks, even, place
from shmbench.collectives.payload import Segment


def lengths(case: Case) -> tuple[int, int]:
    return case.counts.size if case.is_root else 0, case.counts.count


def expected(case: Case, seq: int) -> list[Segment]:
    return [Segment(0, case.counts.count, case.sent(case.root, seq, place(even(case), case.rank).start))]


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    scatter, root = comm.scatter, case.root
    for x, out in islice(cycle(buffers), n):
        scatter(x, root, out=out)


def in_place(case: Case, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return memory, memory[place(even(case), case.rank)] if case.is_root else memory


COLLECTIVE = Collective(blocks, lengths, expected, run, apart, in_place, rooted=True)
