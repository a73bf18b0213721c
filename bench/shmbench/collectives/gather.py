"""gather: the root gets the blocks of all ranks. Size: all blocks together; count: one rank's."""

from itertools import cycle, islice
from typing import Any

from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.common import apart, blocks, even, everyones
from shmbench.collectives.payload import Segment


def lengths(case: Case) -> tuple[int, int]:
    return case.counts.count, case.counts.size if case.is_root else 0


def expected(case: Case, seq: int) -> list[Segment]:
    return everyones(case, seq, even(case)) if case.is_root else []


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    gather, root = comm.gather, case.root
    for x, out in islice(cycle(buffers), n):
        gather(x, root, out=out)


COLLECTIVE = Collective(blocks, lengths, expected, run, apart, rooted=True)
