"""Rows of objects from a root, as explored ranks move them: the root alone knows how long they are."""

from collections.abc import Callable
from dataclasses import dataclass

from shmcoll.collectives.broadcast import broadcast
from shmcoll.collectives.scatter import BOTH, MARK, PHASE, SOURCES, scatter
from shmcoll.engine import atomics
from shmcoll.engine import context as c
from tests.schedule.explorer.calls import Call, _expect, _expected, _fill, is_eager, value
from tests.schedule.explorer.job import Rank
from tests.schedule.explorer.stand_ins import WORD


@dataclass(frozen=True)
class Row(Call):
    """A broadcast of `words`, or a scatter of as many to each rank. `room`: of the readers; what they get of it stays
    as it was if they have too little."""

    words: int
    root: int = 0
    room: int = 12
    parts: bool = False

    @property
    def together(self) -> bool:  # type: ignore[override]
        return not is_eager(self.words)

    def run(self, rank: Rank, number: int) -> int:
        is_root, routine = rank.number == self.root, scatter if self.parts else broadcast
        total = self.words * (rank.job.ranks if self.parts else 1)
        _fill(rank, number, total if is_root else self.room)
        rank.view(c.OUT, rank.x, self.words if is_root else self.room)
        if is_root and self.parts:
            rank.view(c.OUT, rank.x + rank.number * self.words * WORD, self.words)
        atomics.poke(rank.table, 1)  # native code counts the rows of the result
        rank.set(c.OUT + c.DIMS, rank.table)
        if not is_root:
            for field in (c.DATA, c.COUNT, c.BYTES, c.DIMENSIONS, c.DTYPE):
                rank.set(c.X + field, 0)
        rank.set(c.ARGUMENT, self.root)
        for word, one in ((PHASE, BOTH), (SOURCES, 0), (MARK, 0)):
            rank.set(word, one)
        status = self._move(rank, routine)
        return _expected(c.BROKEN, status) if self._is_refused(rank) else status

    def _move(self, rank: Rank, routine: Callable[[int], int]) -> int:
        rank.set(c.REDUCTION, c.ROWS)
        status = rank.enter(routine)
        rank.set(c.REDUCTION, 0)
        return status

    def _is_refused(self, rank: Rank) -> bool:
        return rank.number != self.root and self.room < self.words

    def check(self, rank: Rank, number: int) -> None:
        if rank.number == self.root:
            return
        before = [value(rank.number, number, i) for i in range(self.room)]
        begin = rank.number * self.words if self.parts else 0
        got = [] if self._is_refused(rank) else [value(self.root, number, begin + i) for i in range(self.words)]
        _expect(rank, number, rank.x, got + before[len(got) :])
