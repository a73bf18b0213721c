"""gather_v: as gather with blocks of different lengths, see `uneven`; count: the mean block.

Receive counts are not given: the operation finds them.
"""

from itertools import cycle, islice
from typing import Any

from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.common import apart, blocks, everyones, uneven
from shmbench.collectives.payload import Segment


def lengths(case: Case) -> tuple[int, int]:
    return uneven(case)[case.rank], case.counts.size if case.is_root else 0


def expected(case: Case, seq: int) -> list[Segment]:
    return everyones(case, seq, uneven(case)) if case.is_root else []


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    gather_v, root = comm.gather_v, case.root
    for x, out in islice(cycle(buffers), n):
        gather_v(x, root, out=out)


COLLECTIVE = Collective(blocks, lengths, expected, run, apart, rooted=True)
