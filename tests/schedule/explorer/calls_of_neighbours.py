"""collective_permute, as explored ranks call it."""

from dataclasses import dataclass

from explorer.calls import Call, _expect, _fill, value
from explorer.job import Rank
from shmcoll.collectives import ROUTINES
from shmcoll.collectives.collective_permute import NOBODY, SOURCE, TARGET
from shmcoll.engine import context as c
from shmcoll.engine import layout


@dataclass(frozen=True)
class Permute(Call):
    """Each rank sends to the one of `targets` at its place, or to NOBODY."""

    words: int
    targets: tuple[int, ...]
    in_place: bool = False

    def run(self, rank: Rank, number: int) -> int:
        _fill(rank, number, self.words)
        rank.view(c.OUT, rank.x if self.in_place else rank.out, self.words)
        rank.set(c.OPERATION, layout.COLLECTIVE_PERMUTE)
        rank.set(SOURCE, self._source(rank.number))
        rank.set(TARGET, self.targets[rank.number])
        return ROUTINES["collective_permute"](rank.ctx)

    def check(self, rank: Rank, number: int) -> None:
        source = self._source(rank.number)
        wanted = [0 if source == NOBODY else value(source, number, i) for i in range(self.words)]
        _expect(rank, number, rank.x if self.in_place else rank.out, wanted)

    def _source(self, rank: int) -> int:
        return self.targets.index(rank) if rank in self.targets else NOBODY
