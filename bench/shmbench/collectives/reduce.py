"""reduce: the root gets the reduction of all inputs."""

from itertools import cycle, islice
from typing import Any

from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.common import along, over_itself, reduced, whole, with_algorithm
from shmbench.collectives.payload import Segment


def lengths(case: Case) -> tuple[int, int]:
    return case.counts.size, case.counts.size if case.is_root else 0


def expected(case: Case, seq: int) -> list[Segment]:
    return [Segment(0, case.counts.size, reduced(case, seq, range(case.ranks)))] if case.is_root else []


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    reduce, root, op = with_algorithm(comm.reduce, case), case.root, case.op
    for x, out in islice(cycle(buffers), n):
        reduce(x, root, op, out=out)


COLLECTIVE = Collective(whole, lengths, expected, run, along, over_itself, reduces=True, rooted=True)
