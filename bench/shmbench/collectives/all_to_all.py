"""all_to_all: block i of every rank goes to rank i. Size: all blocks of a rank together."""

from itertools import cycle, islice
from typing import Any

from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.common import alike, apart, blocks, even, over_itself, place
from shmbench.collectives.payload import Segment


def expected(case: Case, seq: int) -> list[Segment]:
    places = [place(even(case), rank) for rank in range(case.ranks)]
    own = places[case.rank].start
    return [Segment(p.start, p.stop, case.sent(rank, seq, own)) for rank, p in enumerate(places)]


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    all_to_all = comm.all_to_all
    for x, out in islice(cycle(buffers), n):
        all_to_all(x, out=out)


COLLECTIVE = Collective(blocks, alike, expected, run, apart, over_itself)
