"""all_to_all_v: as all_to_all with uneven blocks. Size: all blocks of a rank together; count: the mean block.

The block for the rank k places further is block k of `uneven`: every rank sends and receives the same total, and the
bus factor is that of all_to_all. Receive counts are not given: the operation finds them.
"""

from itertools import cycle, islice
from typing import Any

import numpy as np

from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.common import alike, apart, blocks, place, uneven
from shmbench.collectives.payload import Segment


def sent_counts(case: Case, rank: int) -> list[int]:
    """Return the elements that `rank` sends to each rank, packed in this order."""
    lengths = uneven(case)
    return [lengths[(peer - rank) % case.ranks] for peer in range(case.ranks)]


def received_counts(case: Case) -> list[int]:
    """Return the elements that this rank gets from each rank, packed in this order."""
    return [sent_counts(case, rank)[case.rank] for rank in range(case.ranks)]


def expected(case: Case, seq: int) -> list[Segment]:
    segments = []
    for rank in range(case.ranks):
        target, source = place(received_counts(case), rank), place(sent_counts(case, rank), case.rank)
        segments.append(Segment(target.start, target.stop, case.sent(rank, seq, source.start)))
    return segments


def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    all_to_all_v, counts = comm.all_to_all_v, np.array(sent_counts(case, case.rank), dtype=np.int64)
    for x, out in islice(cycle(buffers), n):
        all_to_all_v(x, counts, out=out)


COLLECTIVE = Collective(blocks, alike, expected, run, apart)
