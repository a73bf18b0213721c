"""The collectives with counts, as explored ranks call them."""

from dataclasses import dataclass

from shmcoll.collectives import ROUTINES
from shmcoll.engine import atomics, layout
from shmcoll.engine import context as c
from shmcoll.engine.protocol.count_tables import BOTH, COUNTS, DATA
from tests.schedule.explorer.calls import Call, _expect, _expected, _fill, value
from tests.schedule.explorer.job import Rank
from tests.schedule.explorer.stand_ins import WORD

Counts = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class WithCounts(Call):
    """`counts[i][j]` words from rank i to rank j, which has room for `room`: one after the other in the array of rank
    i, or, when `shared`, the same for all. `halfway`: who receives something makes its result between two phases."""

    operation: str
    counts: Counts
    root: int = 0
    shared: bool = False
    room: int = 1 << 20
    halfway: bool = False

    def run(self, rank: Rank, number: int) -> int:
        me = rank.number
        _fill(rank, number, self._source_size(me))
        arriving = sum(row[me] for row in self.counts)
        for i in range(arriving):
            atomics.poke(rank.out + i * WORD, 0)
        rank.view(c.OUT, rank.out, arriving)
        rank.set(c.ARGUMENT, self.root)
        rank.set(c.EXTRA + WORD, rank.table)
        for i, entry in enumerate(self._table(rank.job.ranks, me)):
            atomics.poke(rank.table + i * WORD, entry)
        status = c.COUNTS_KNOWN
        for phase in (COUNTS, DATA) if self.halfway and arriving else (BOTH,):
            if status == c.COUNTS_KNOWN:
                rank.set(c.EXTRA, phase)
                status = rank.enter(ROUTINES[self.operation])
        return status if self._fits(rank) else _expected(c.DISAGREE, status)

    def check(self, rank: Rank, number: int) -> None:
        me = rank.number
        wanted = [
            value(r, number, self._displacement(r, me) + i) for r, row in enumerate(self.counts) for i in range(row[me])
        ]
        _expect(rank, number, rank.out, wanted if self._fits(rank) else [0] * len(wanted))

    def _source_size(self, me: int) -> int:
        return self.counts[me][0] if self.shared else sum(self.counts[me])

    def _displacement(self, sender: int, receiver: int) -> int:
        return 0 if self.shared else sum(self.counts[sender][:receiver])

    def _table(self, size: int, me: int) -> tuple[int, ...]:
        displs = (self._displacement(me, i) for i in range(size))
        not_given = (-1,) * ((layout.TABLE_SIZES - 2) * size)
        return (*self.counts[me], *displs, *not_given, self._source_size(me), self.room, -1)

    def _fits(self, rank: Rank) -> bool:
        return all(sum(row[r] for row in self.counts) <= self.room for r in range(rank.job.ranks))


def all_to_all_v(counts: Counts, room: int = 1 << 20) -> WithCounts:
    return WithCounts("all_to_all_v", counts, room=room)


def gather_v(lengths: tuple[int, ...], root: int, room: int = 1 << 20, halfway: bool = False) -> WithCounts:
    counts = tuple(tuple(length if r == root else 0 for r in range(len(lengths))) for length in lengths)
    return WithCounts("gather_v", counts, root, room=room, halfway=halfway)


def scatter_v(lengths: tuple[int, ...], root: int, room: int = 1 << 20, halfway: bool = False) -> WithCounts:
    counts = tuple(lengths if r == root else (0,) * len(lengths) for r in range(len(lengths)))
    return WithCounts("scatter_v", counts, root, room=room, halfway=halfway)


def all_gather_v(lengths: tuple[int, ...], room: int = 1 << 20, halfway: bool = False) -> WithCounts:
    counts = tuple((length,) * len(lengths) for length in lengths)
    return WithCounts("all_gather_v", counts, shared=True, room=room, halfway=halfway)
