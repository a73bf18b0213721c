"""What explored ranks call over nodes."""

from dataclasses import dataclass
from typing import ClassVar

from shmcoll.collectives import RECORDS
from shmcoll.collectives.scatter import BOTH, MARK, PHASE
from shmcoll.engine import atomics
from shmcoll.engine import context as c
from shmcoll.engine.kernels.dtypes import BY_NAME
from shmcoll.engine.layout import WORD
from shmcoll.nodes.algorithms.collectives import FUNCTIONS
from tests.schedule.explorer.calls import value
from tests.schedule.explorer.nodes import RankOverNodes, fill_view
from tests.schedule.explorer.program import Violation

INT64 = BY_NAME["int64"].code


@dataclass(frozen=True)
class OverNodes:
    """A call of arrays of so many words, from or to a root."""

    words: int = 1
    root: int = 0
    name: ClassVar[str] = ""
    together: ClassVar[bool] = False

    def run(self, rank: RankOverNodes, number: int) -> int:
        rank.set(c.OPERATION, RECORDS[self.name].code)
        rank.set(c.ARGUMENT, self.root)
        sent, received = self.lengths(rank)
        for i in range(rank.job.words):
            atomics.poke(rank.x + i * WORD, value(rank.number, number, i) if self.sends(rank) else 0)
            atomics.poke(rank.out + i * WORD, 0)
        for i, (view, place, words) in enumerate(((c.X, rank.x, sent), (c.OUT, rank.out, received))):
            atomics.poke(rank.dims + i * WORD, words)
            fill_view(rank.ctx + view, place, words, WORD, INT64, rank.dims + i * WORD)
        return FUNCTIONS[self.name](rank.ctx)

    def sends(self, _rank: RankOverNodes) -> bool:
        return True

    def lengths(self, rank: RankOverNodes) -> tuple[int, int]:
        return self.words, self.words * rank.job.size

    def wanted(self, _rank: RankOverNodes) -> int:
        return c.OK

    def check(self, rank: RankOverNodes, number: int) -> None:
        pass

    def expect(self, rank: RankOverNodes, number: int, place: int, wanted: list[int]) -> None:
        got = [atomics.peek(place + i * WORD) for i in range(len(wanted))]
        if got != wanted:
            raise Violation(f"rank {rank.number} has {got}, not {wanted}, after call {number}")


@dataclass(frozen=True)
class BarrierOverNodes(OverNodes):
    name = "barrier"
    together = True


@dataclass(frozen=True)
class BroadcastOverNodes(OverNodes):
    name = "broadcast"

    def sends(self, rank: RankOverNodes) -> bool:
        return rank.number == self.root

    def lengths(self, rank: RankOverNodes) -> tuple[int, int]:
        return self.words, 0

    def check(self, rank: RankOverNodes, number: int) -> None:
        self.expect(rank, number, rank.x, [value(self.root, number, i) for i in range(self.words)])


@dataclass(frozen=True)
class GatherOverNodes(OverNodes):
    name = "gather"

    def check(self, rank: RankOverNodes, number: int) -> None:
        if rank.number == self.root or self.together:
            wanted = [value(sender, number, i) for sender in range(rank.job.size) for i in range(self.words)]
            self.expect(rank, number, rank.out, wanted)


@dataclass(frozen=True)
class AllGatherOverNodes(GatherOverNodes):
    name = "all_gather"
    together = True


@dataclass(frozen=True)
class ScatterOverNodes(OverNodes):
    """`odd`: a rank that has another `out` than the root's parts, or NOBODY."""

    odd: int = -1
    name = "scatter"

    def run(self, rank: RankOverNodes, number: int) -> int:
        rank.set(PHASE, BOTH)
        rank.set(MARK, 0)
        return super().run(rank, number)

    def sends(self, rank: RankOverNodes) -> bool:
        return rank.number == self.root

    def lengths(self, rank: RankOverNodes) -> tuple[int, int]:
        return self.words * rank.job.size, self.words + (rank.number == self.odd)

    def wanted(self, rank: RankOverNodes) -> int:
        return c.MISMATCH if rank.number == self.odd else c.OK

    def check(self, rank: RankOverNodes, number: int) -> None:
        first = rank.number * self.words
        wanted = [value(self.root, number, first + i) for i in range(self.words)]
        self.expect(rank, number, rank.out, [0] * self.words if rank.number == self.odd else wanted)
