"""all_reduce: every rank gets the reduction of all inputs."""

from functools import reduce
from itertools import cycle, islice
from typing import Any

import numpy as np

from shmbench.collectives import Buffers, Case, Collective, Counts
from shmbench.payload import Segment

UFUNCS = {"sum": np.add, "avg": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}


def counts(elements: int, ranks: int) -> Counts:
    return Counts(count=elements, send=elements, receive=elements)


def expected(case: Case, seq: int) -> list[Segment]:
    result = reduce(UFUNCS[case.op], [case.sent(rank, seq) for rank in range(case.ranks)])
    if case.op == "avg":
        result = (result / case.ranks).astype(case.dtype)
    return [Segment(0, case.counts.receive, result)]


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    all_reduce, op = comm.all_reduce, case.op
    for x, out in islice(cycle(buffers), n):
        all_reduce(x, op, out=out)


def bus_factor(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


COLLECTIVE = Collective(counts, expected, run, bus_factor, reduces=True, in_place=True)
