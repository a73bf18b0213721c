"""scan: rank r gets the reduction of the inputs of ranks 0 to r.

nccl-tests has no scan. The bus factor is that of reduce: a chain sends each array over each link once.
"""

from itertools import cycle, islice
from typing import Any

from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.common import alike, along, over_itself, reduced, whole, with_algorithm
from shmbench.collectives.payload import Segment


def expected(case: Case, seq: int) -> list[Segment]:
    return [Segment(0, case.counts.size, reduced(case, seq, range(case.rank + 1)))]


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    scan, op = with_algorithm(comm.scan, case), case.op
    for x, out in islice(cycle(buffers), n):
        scan(x, op, out=out)


COLLECTIVE = Collective(whole, alike, expected, run, along, over_itself, reduces=True)
