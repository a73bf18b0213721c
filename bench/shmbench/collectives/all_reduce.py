"""all_reduce: every rank gets the reduction of all inputs."""

from itertools import cycle, islice
from typing import Any

from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.common import alike, over_itself, reduced, whole, with_algorithm
from shmbench.collectives.payload import Segment


def expected(case: Case, seq: int) -> list[Segment]:
    return [Segment(0, case.counts.size, reduced(case, seq, range(case.ranks)))]


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    all_reduce, op = with_algorithm(comm.all_reduce, case), case.op
    for x, out in islice(cycle(buffers), n):
        all_reduce(x, op, out=out)


def bus_factor(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


COLLECTIVE = Collective(whole, alike, expected, run, bus_factor, over_itself, reduces=True)
