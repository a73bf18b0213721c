"""broadcast: every rank gets the input of the root. There is only one array per rank: in place is the only form."""

from itertools import cycle, islice
from typing import Any

from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.common import alike, along, over_itself, whole
from shmbench.collectives.payload import Segment


def expected(case: Case, seq: int) -> list[Segment]:
    return [Segment(0, case.counts.size, case.sent(case.root, seq))]


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    broadcast, root = comm.broadcast, case.root
    for x, _ in islice(cycle(buffers), n):
        broadcast(x, root)


COLLECTIVE = Collective(whole, alike, expected, run, along, over_itself, out_of_place=False, rooted=True)
