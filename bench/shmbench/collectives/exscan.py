"""exscan: rank r gets the reduction of the inputs of ranks 0 to r - 1, and rank 0 nothing. Bus factor: see scan."""

from itertools import cycle, islice
from typing import Any

from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.common import along, over_itself, reduced, whole, with_algorithm
from shmbench.collectives.payload import Segment


def lengths(case: Case) -> tuple[int, int]:
    return case.counts.size, case.counts.size if case.rank else 0


def expected(case: Case, seq: int) -> list[Segment]:
    return [Segment(0, case.counts.size, reduced(case, seq, range(case.rank)))] if case.rank else []


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    exscan, op = with_algorithm(comm.exscan, case), case.op
    for x, out in islice(cycle(buffers), n):
        exscan(x, op, out=out)


COLLECTIVE = Collective(whole, lengths, expected, run, along, over_itself, reduces=True)
