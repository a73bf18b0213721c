"""broadcast, all_gather, scatter, and all_to_all of lists, as explored ranks call them."""

from dataclasses import dataclass

from shmcoll.collectives.all_gather import all_gather
from shmcoll.collectives.all_to_all import SOURCES as BLOCKS
from shmcoll.collectives.all_to_all import TARGETS, WHOLE, all_to_all
from shmcoll.collectives.broadcast import broadcast
from shmcoll.collectives.scatter import BOTH, DATA, MARK, OPEN, PHASE, SHAPE, SOURCES, scatter
from shmcoll.engine import atomics
from shmcoll.engine import context as c
from tests.schedule.explorer.calls import Call, _expect, _expected, _fill, is_eager, value
from tests.schedule.explorer.job import Rank
from tests.schedule.explorer.program import Violation
from tests.schedule.explorer.stand_ins import WORD


@dataclass(frozen=True)
class Broadcast(Call):
    """`without`: ranks that pass no array, and learn how long it is. `odd`: a rank whose array is longer by a word."""

    words: int
    root: int = 0
    without: tuple[int, ...] = ()
    odd: int = -1

    @property
    def together(self) -> bool:  # type: ignore[override]
        return not is_eager(self.words)

    def run(self, rank: Rank, number: int) -> int:
        words = self.words + (rank.number == self.odd)
        _fill(rank, number, words)
        rank.view(c.OUT, rank.x, words)
        rank.set(c.ARGUMENT, self.root)
        rank.set(PHASE, BOTH)
        status = self._learn(rank, number) if rank.number in self.without else rank.enter(broadcast)
        return status if self.odd < 0 else _expected(c.MISMATCH, status)

    def _learn(self, rank: Rank, number: int) -> int:
        for field in (c.DATA, c.COUNT, c.BYTES, c.DIMENSIONS, c.DTYPE):
            rank.set(c.X + field, 0)
        rank.set(PHASE, OPEN)
        rank.set(SHAPE, rank.table)
        status = rank.enter(broadcast)
        if status != c.SHAPE_KNOWN:
            return status
        _check_shape(rank, number, self.words)
        rank.set(PHASE, DATA)
        return rank.enter(broadcast)

    def check(self, rank: Rank, number: int) -> None:
        _expect(rank, number, rank.x, [value(self.root, number, i) for i in range(self.words)])


@dataclass(frozen=True)
class AllGather(Call):
    """`in_place`: what a rank sends lies where it belongs in the result."""

    words: int
    in_place: bool = False

    def run(self, rank: Rank, number: int) -> int:
        _fill(rank, number, self.words)
        for i in range(self.words * rank.job.ranks):
            atomics.poke(rank.out + i * WORD, 0)
        rank.view(c.OUT, rank.out, self.words * rank.job.ranks)
        rank.view(c.X, rank.x, self.words)
        if self.in_place:
            own = rank.out + rank.number * self.words * WORD
            for i in range(self.words):
                atomics.poke(own + i * WORD, value(rank.number, number, i))
            rank.view(c.X, own, self.words)
        rank.set(c.EXTRA, 0)
        return rank.enter(all_gather)

    def check(self, rank: Rank, number: int) -> None:
        wanted = [value(r, number, i) for r in range(rank.job.ranks) for i in range(self.words)]
        _expect(rank, number, rank.out, wanted)


@dataclass(frozen=True)
class Scatter(Call):
    """`words` to each rank. `listed`: the root's parts lie in an order of their own. `halfway`: receivers learn how
    much they get. `room`: what they have an `out` for, when it is something else."""

    words: int
    root: int = 0
    listed: bool = False
    halfway: bool = False
    room: int = -1

    def _is_refused(self, rank: Rank) -> bool:
        """Return whether this rank is told that a part does not fit; in an eager call the root is not."""
        is_full = not is_eager(self.words * (rank.job.ranks - 1))
        return self.room >= 0 and (is_full or rank.number != self.root)

    @property
    def together(self) -> bool:  # type: ignore[override]
        return not is_eager(self.words)

    def run(self, rank: Rank, number: int) -> int:
        rank.set(c.ARGUMENT, self.root)
        rank.set(PHASE, BOTH)
        rank.set(SOURCES, 0)
        rank.set(MARK, 0)
        status = self._send(rank, number) if rank.number == self.root else self._receive(rank, number)
        return _expected(c.DISAGREE, status) if self._is_refused(rank) else status

    def check(self, rank: Rank, number: int) -> None:
        if not self._is_refused(rank):
            place = self._ranks_in_order(rank).index(rank.number)
            wanted = [value(self.root, number, place * self.words + i) for i in range(self.words)]
        else:
            wanted = [0] * self.words
        _expect(rank, number, rank.out, wanted)

    def _ranks_in_order(self, rank: Rank) -> list[int]:
        ranks = list(range(rank.job.ranks))
        return ranks[::-1] if self.listed else ranks

    def _send(self, rank: Rank, number: int) -> int:
        _fill(rank, number, self.words * rank.job.ranks)
        rank.view(c.OUT, rank.out, self.words)
        rank.view(c.X, rank.x, self.words * rank.job.ranks)
        if self.listed:
            rank.view(c.X, rank.x, self.words)
            rank.set(SOURCES, rank.table)
            for place, receiver in enumerate(self._ranks_in_order(rank)):
                atomics.poke(rank.table + receiver * WORD, rank.x + place * self.words * WORD)
        return rank.enter(scatter)

    def _receive(self, rank: Rank, number: int) -> int:
        words = self.words if self.room < 0 else self.room
        _fill(rank, number, words)
        rank.view(c.OUT, rank.out, words)
        rank.view(c.X, rank.out, words)
        if not self.halfway:
            return rank.enter(scatter)
        for field in (c.DATA, c.COUNT, c.BYTES, c.DIMENSIONS, c.DTYPE):
            rank.set(c.X + field, 0)
        rank.set(PHASE, OPEN)
        rank.set(SHAPE, rank.table)
        status = rank.enter(scatter)
        if status != c.SHAPE_KNOWN:
            return status
        _check_shape(rank, number, self.words)
        rank.set(PHASE, DATA)
        return rank.enter(scatter)


@dataclass(frozen=True)
class AllToAllOfLists(Call):
    """`words` to each rank; the blocks lie in an order of their own, and the results take their places."""

    words: int

    def run(self, rank: Rank, number: int) -> int:
        n = rank.job.ranks
        _fill(rank, number, self.words * n)
        rank.view(c.X, rank.x, self.words)
        for i in range(5):
            rank.set(c.EXTRA + i * WORD, self.words * WORD)
        whole = rank.table + n * WORD
        for word, address in ((BLOCKS, rank.table), (TARGETS, rank.table), (WHOLE, whole)):
            rank.set(word, address)
        for peer in range(n):
            atomics.poke(rank.table + peer * WORD, self._place(rank, peer))
        for i, entry in enumerate((1, self.words * n)):
            atomics.poke(whole + i * WORD, entry)
        return rank.enter(all_to_all)

    def check(self, rank: Rank, number: int) -> None:
        for sender in range(rank.job.ranks):
            first = (rank.job.ranks - 1 - rank.number) * self.words
            wanted = [value(sender, number, first + i) for i in range(self.words)]
            _expect(rank, number, self._place(rank, sender), wanted)

    def _place(self, rank: Rank, peer: int) -> int:
        return rank.x + (rank.job.ranks - 1 - peer) * self.words * WORD


def _check_shape(rank: Rank, number: int, words: int) -> None:
    """Whether a rank has learnt the shape of what it gets."""
    told = tuple(atomics.peek(rank.table + i * WORD) for i in range(3))
    if told != (5, 1, words):
        raise Violation(f"dtype, dimensions and length are {told} in call {number}")
