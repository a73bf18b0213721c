"""all_gather_v: as all_gather with blocks of different lengths, see `uneven`; count: the mean block.

Receive counts are not given: the operation finds them.
"""

from itertools import cycle, islice
from typing import Any

from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.common import apart, blocks, everyones, uneven
from shmbench.collectives.payload import Segment


def lengths(case: Case) -> tuple[int, int]:
    return uneven(case)[case.rank], case.counts.size


def expected(case: Case, seq: int) -> list[Segment]:
    return everyones(case, seq, uneven(case))


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    all_gather_v = comm.all_gather_v
    for x, out in islice(cycle(buffers), n):
        all_gather_v(x, out=out)


COLLECTIVE = Collective(blocks, lengths, expected, run, apart)
