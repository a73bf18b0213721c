"""barrier: no data, one line. `measure` checks that no rank leaves before the last rank has come."""

from typing import Any

from shmbench.collectives import Buffers, Case, Collective, Counts
from shmbench.collectives.payload import Segment


def counts(elements: int, ranks: int) -> Counts:
    return Counts(count=0, size=0)


def lengths(case: Case) -> tuple[int, int]:
    return 0, 0


def expected(case: Case, seq: int) -> list[Segment]:
    return []


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    barrier = comm.barrier
    for _ in range(n):
        barrier()


def bus_factor(ranks: int) -> float:
    return 0.0


COLLECTIVE = Collective(counts, lengths, expected, run, bus_factor, sized=False)
