"""Small jobs to explore, by name.

Sizes: cells of 256 bytes, so that with two ranks 16 words are a receiver's part of an all_to_all and 32 words a cell;
arrays of up to 6 words travel beside the header. Slices of the ring are 4 words.
"""

from dataclasses import dataclass, field
from typing import Any

from explorer.calls import (
    AllReduce,
    AllToAll,
    AllToAllV,
    Await,
    Barrier,
    Call,
    Disagree,
    End,
    Gather,
    Post,
)
from explorer.job import Job
from explorer.machine import Machine
from shmcoll.engine import records


@dataclass(frozen=True)
class Scenario:
    """`calls` of every rank, or one tuple of calls a rank when `each`."""

    ranks: int
    calls: tuple[Any, ...]
    each: bool = False
    words: int = 16
    settings: dict[str, int] = field(default_factory=dict)

    def machine(self, **options: Any) -> Machine:
        """Call it while `stand_ins.exploring()`; options: see `Machine`."""
        return Job(self.ranks, self.calls_of, words=self.words, **self.settings).machine(**options)

    def calls_of(self, rank: int) -> list[Call]:
        return list(self.calls[rank] if self.each else self.calls)


BARRIER = Barrier()
INLINE = AllReduce(2)
IN_CELL = AllReduce(8)
SPIN = {"polls": 1, "yields": 1}
RING = {"flat_bytes": 64, "slice_bytes": 32}
UNEVEN = AllToAllV(((3, 40), (2, 1)))

SCENARIOS = {
    "park": Scenario(2, ((Await(1), Await(1)), (Post(), Post())), each=True),
    "park after polling": Scenario(2, ((Await(1), Await(1)), (Post(), Post())), each=True, settings=SPIN),
    "park in turn": Scenario(2, ((Await(1), Post(), Await(1)), (Post(), Await(0), Post())), each=True),
    "park for two": Scenario(3, ((Await(1), Await(2)), (Post(),), (Post(), Post())), each=True),
    "barrier, 2 ranks": Scenario(2, (BARRIER,) * 3),
    "barrier after polling": Scenario(2, (BARRIER,) * 2, settings=SPIN),
    "barrier, 3 ranks": Scenario(3, (BARRIER,)),
    "two barriers, 3 ranks": Scenario(3, (BARRIER,) * 2),
    "disagreement": Scenario(2, (Disagree(),)),
    "disagreement, 3 ranks": Scenario(3, (Disagree(),)),
    "all_reduce": Scenario(2, (INLINE,) * 3),
    "all_reduce in place": Scenario(2, (AllReduce(2, in_place=True),) * 2),
    "all_reduce in cells": Scenario(2, (IN_CELL,) * 3),
    "all_reduce, 3 ranks": Scenario(3, (INLINE,)),
    "all_reduce in cells, 3 ranks": Scenario(3, (IN_CELL,)),
    "ring": Scenario(2, (AllReduce(16),), settings=RING),
    "ring, then flat": Scenario(2, (AllReduce(16), IN_CELL), settings=RING),
    "two rings": Scenario(2, (AllReduce(20), AllReduce(16, in_place=True)), words=20, settings=RING),
    "ring, 3 ranks": Scenario(3, (AllReduce(20), IN_CELL), words=20, settings=RING),
    "gather": Scenario(2, (Gather(100), Gather(8, root=1)), words=200),
    "gather of 2 rounds, then all_reduce": Scenario(2, (Gather(40), IN_CELL), words=80),
    "gather, 3 ranks": Scenario(3, (Gather(70, root=1), IN_CELL), words=210),
    "all_to_all": Scenario(2, (AllToAll(40), AllToAll(8)), words=80),
    "all_to_all of 2 rounds": Scenario(2, (AllToAll(24), AllToAll(8)), words=48),
    "all_to_all, 3 ranks": Scenario(3, (AllToAll(20), AllToAll(8)), words=60, settings={"cell_bytes": 384}),
    "all_to_all_v": Scenario(2, (UNEVEN,), words=80),
    "all_to_all_v, then another": Scenario(2, (AllToAllV(((1, 2), (3, 1))), AllToAllV(((1, 3), (2, 1))))),
    "all_to_all_v refused": Scenario(2, (AllToAllV(((3, 4), (2, 1)), room=4), AllToAllV(((1, 3), (2, 1)))), words=80),
    "all_to_all_v, 3 ranks": Scenario(
        3, (AllToAllV(((1, 20, 0), (3, 1, 2), (0, 1, 1))), IN_CELL), words=60, settings={"cell_bytes": 384}
    ),
    "a rank returns": Scenario(2, ((BARRIER, BARRIER), (BARRIER, End(records.DEPARTED))), each=True),
    "a rank returns, 3 ranks": Scenario(3, ((BARRIER,), (BARRIER,), (End(records.DEPARTED),)), each=True),
    "a rank raises": Scenario(2, ((BARRIER, BARRIER), (BARRIER, End(records.FAILED))), each=True),
    "a rank raises, 3 ranks": Scenario(3, ((BARRIER,), (BARRIER,), (End(records.FAILED),)), each=True),
}
