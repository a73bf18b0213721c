"""The reducing collectives beside all_reduce, as explored ranks call them."""

from dataclasses import dataclass

from shmcoll.collectives import ROUTINES
from shmcoll.collectives.all_reduce import all_reduce
from shmcoll.collectives.reduce_scatter import EVEN
from shmcoll.engine import atomics
from shmcoll.engine import context as c
from shmcoll.engine.protocol.reduction import ORDERED, SOURCES
from tests.schedule.explorer.calls import Call, _expect, _expected, _fill, is_eager, value
from tests.schedule.explorer.job import Rank
from tests.schedule.explorer.program import Violation
from tests.schedule.explorer.stand_ins import SHARED, WORD, read, write

HEAP, HEAP_BYTES = SHARED + (1 << 32), 1 << 16  # where shared arrays lie, two a rank


@dataclass(frozen=True)
class Reducing(Call):
    """Sums of `words` words. `ordered`: by the algorithm that keeps the order of ranks."""

    operation: str
    words: int
    in_place: bool = False
    ordered: bool = False

    @property
    def together(self) -> bool:  # type: ignore[override]
        return self.operation == "reduce_scatter" or not is_eager(self.words)

    def run(self, rank: Rank, number: int) -> int:
        wanted = self._wanted(rank, number)
        rank.view(c.OUT, self._place(rank) if wanted else 0, len(wanted))
        _fill(rank, number, self._given(rank))
        rank.set(c.REDUCTION, 1)
        rank.set(c.ARGUMENT, self._argument())
        rank.set(ORDERED, int(self.ordered))
        rank.set(SOURCES, self._sources(rank))
        return rank.enter(ROUTINES[self.operation])

    def check(self, rank: Rank, number: int) -> None:
        _expect(rank, number, self._place(rank), list(self._wanted(rank, number)))

    def _place(self, rank: Rank) -> int:
        return rank.x if self.in_place else rank.out

    def _given(self, _rank: Rank) -> int:
        """Words that a rank gives."""
        return self.words

    def _argument(self) -> int:
        return 0

    def _sources(self, _rank: Rank) -> int:
        return 0

    def _wanted(self, rank: Rank, number: int) -> tuple[int, ...]:
        raise NotImplementedError


def sums(ranks: range, number: int, first: int, words: int) -> tuple[int, ...]:
    """Sums over ranks of what they send, `words` elements from `first` on."""
    return tuple(sum(value(r, number, i) for r in ranks) for i in range(first, first + words))


@dataclass(frozen=True)
class AllReduceShared(Call):
    """Of arrays in the arena, `words` words; `private`: but for those of one rank. `overlap`: the outs of ranks do."""

    words: int
    in_place: bool = False
    private: int = -1
    overlap: bool = False

    def run(self, rank: Rank, number: int) -> int:
        x, out = self._places(rank)
        write(x, sums(range(rank.number, rank.number + 1), number, 0, self.words))
        if not self.in_place and not self.overlap:
            write(out, (0,) * self.words)
        rank.view(c.X, x, self.words)
        rank.view(c.OUT, out, self.words)
        rank.set(c.REDUCTION, 1)
        rank.set(ORDERED, 0)
        status = rank.enter(all_reduce)
        if status in (c.ABORTED, c.PEER_LOST):
            write(x, (-1,) * self.words)  # as one may who has been told that the call failed
        return _expected(c.OVERLAP, status) if self.overlap else status

    def check(self, rank: Rank, number: int) -> None:
        if self.overlap:
            return
        _, out = self._places(rank)
        wanted = sums(range(rank.job.ranks), number, 0, self.words)
        if read(out, self.words) != wanted:
            raise Violation(f"wrong result in call {number}: {read(out, self.words)}, not {wanted}")

    def _places(self, rank: Rank) -> tuple[int, int]:
        if rank.number == self.private:
            return rank.x, rank.x if self.in_place else rank.out
        x = HEAP + 2 * rank.number * HEAP_BYTES
        out = x if self.in_place else x + HEAP_BYTES
        return x, out - 2 * rank.number * HEAP_BYTES + rank.number * WORD if self.overlap else out


@dataclass(frozen=True)
class Reduce(Reducing):
    operation: str = "reduce"
    words: int = 2
    root: int = 0

    def _argument(self) -> int:
        return self.root

    def _wanted(self, rank: Rank, number: int) -> tuple[int, ...]:
        return sums(range(rank.job.ranks), number, 0, self.words) if rank.number == self.root else ()


@dataclass(frozen=True)
class ReduceScatter(Reducing):
    """`words` words to each rank; or `counts[r]` to rank r."""

    operation: str = "reduce_scatter"
    words: int = 2
    counts: tuple[int, ...] = ()

    def _given(self, rank: Rank) -> int:
        return sum(self._counts(rank))

    def _argument(self) -> int:
        return 7 if self.counts else EVEN

    def _sources(self, rank: Rank) -> int:
        if not self.counts:
            return 0
        places = [rank.x + sum(self.counts[:r]) * WORD for r in range(rank.job.ranks)]
        for i, entry in enumerate((*places, *self.counts)):
            atomics.poke(rank.table + i * WORD, entry)
        return rank.table

    def _place(self, rank: Rank) -> int:
        return rank.x + self._first(rank) * WORD if self.in_place else rank.out

    def _wanted(self, rank: Rank, number: int) -> tuple[int, ...]:
        return sums(range(rank.job.ranks), number, self._first(rank), self._counts(rank)[rank.number])

    def _first(self, rank: Rank) -> int:
        return sum(self._counts(rank)[: rank.number])

    def _counts(self, rank: Rank) -> tuple[int, ...]:
        return self.counts or (self.words,) * rank.job.ranks


@dataclass(frozen=True)
class Scan(Reducing):
    operation: str = "scan"
    words: int = 2

    def _wanted(self, rank: Rank, number: int) -> tuple[int, ...]:
        return sums(range(rank.number + 1), number, 0, self.words)


@dataclass(frozen=True)
class Exscan(Reducing):
    operation: str = "exscan"
    words: int = 2

    def _wanted(self, rank: Rank, number: int) -> tuple[int, ...]:
        return sums(range(rank.number), number, 0, self.words) if rank.number else ()
