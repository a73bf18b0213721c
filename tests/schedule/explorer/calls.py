"""What explored ranks call: each collective with arguments that depend on rank and number, and results to compare.

A call has `run(rank, number)`, which returns a status, and `check(rank, number)`, called when it was OK. `together`: no
rank may leave it before all have entered it. `ends`: afterwards this rank is no part of the job. `is_message`: it is
no collective, see `calls_of_messages.py`. `is_threaded`: another thread of the rank calls meanwhile, see
`calls_of_threads.py`.
"""

from dataclasses import dataclass
from typing import Any

from shmcoll.collectives.all_reduce import all_reduce
from shmcoll.collectives.all_to_all import all_to_all
from shmcoll.collectives.barrier import barrier
from shmcoll.collectives.gather import gather
from shmcoll.engine import atomics, layout
from shmcoll.engine import context as c
from shmcoll.engine.memory import records
from shmcoll.engine.memory.group import Group
from shmcoll.engine.protocol import cells, sync
from shmcoll.engine.protocol.reduction import ORDERED
from tests.schedule.explorer.job import Job, Rank
from tests.schedule.explorer.program import Violation
from tests.schedule.explorer.stand_ins import WORD


def value(rank: int, number: int, i: int) -> int:
    """Element i of what a rank sends in its call of that number."""
    return number * 1_000_000 + (rank + 1) * 1000 + i


def _fill(rank: Rank, number: int, words: int) -> None:
    for i in range(words):
        atomics.poke(rank.x + i * WORD, value(rank.number, number, i))
        atomics.poke(rank.out + i * WORD, 0)
    rank.view(c.X, rank.x, words)


def _expect(rank: Rank, number: int, place: int, wanted: list[int]) -> None:
    got = [atomics.peek(place + i * WORD) for i in range(len(wanted))]
    for i, (here, there) in enumerate(zip(got, wanted, strict=True)):
        if here != there:
            raise Violation(f"wrong result in call {number}: element {i} is {here}, not {there}")


def is_eager(words: int) -> bool:
    """Return whether a call of so many words beside the header is eager: ranks may leave it before all have come."""
    return words * WORD <= cells.EAGER_BYTES


def _expected(wanted: int, status: int) -> int:
    """OK for the status that is wanted, and BROKEN for OK."""
    return {wanted: c.OK, c.OK: c.BROKEN}.get(status, status)


class Call:
    together = True
    ends = False
    is_message = False
    is_threaded = False

    def run(self, rank: Rank, number: int) -> int:
        raise NotImplementedError

    def check(self, rank: Rank, number: int) -> None:
        pass

    def shared_words(self, _job: Job) -> dict[int, int]:
        """Return the shared words that are not 0 at first."""
        return {}

    def doorbells(self, _job: Job) -> dict[int, int]:
        """Return doorbells besides those of mailboxes, and which actor sleeps there."""
        return {}


@dataclass(frozen=True)
class Barrier(Call):
    def run(self, rank: Rank, _number: int) -> int:
        return rank.enter(barrier)


@dataclass(frozen=True)
class AllReduce(Call):
    """`composite`: the code of the composite call of which it is a part; 0 for none."""

    words: int
    in_place: bool = False
    ordered: bool = False
    composite: int = 0

    def run(self, rank: Rank, number: int) -> int:
        _fill(rank, number, self.words)
        rank.view(c.OUT, rank.x if self.in_place else rank.out, self.words)
        rank.set(c.REDUCTION, 1)
        rank.set(c.ALGORITHM, self.composite << layout.COMPOSITE_SHIFT)
        rank.set(ORDERED, int(self.ordered))
        return rank.enter(all_reduce)

    def check(self, rank: Rank, number: int) -> None:
        ranks = range(rank.job.ranks)
        wanted = [sum(value(r, number, i) for r in ranks) for i in range(self.words)]
        _expect(rank, number, rank.x if self.in_place else rank.out, wanted)


@dataclass(frozen=True)
class Gather(Call):
    words: int
    root: int = 0

    @property
    def together(self) -> bool:  # type: ignore[override]
        return not is_eager(self.words)

    def run(self, rank: Rank, number: int) -> int:
        _fill(rank, number, self.words)
        rank.view(c.OUT, rank.out, self.words)
        rank.set(c.ARGUMENT, self.root)
        rank.set(c.EXTRA, 0)
        return rank.enter(gather)

    def check(self, rank: Rank, number: int) -> None:
        if rank.number == self.root:
            wanted = [value(r, number, i) for r in range(rank.job.ranks) for i in range(self.words)]
            _expect(rank, number, rank.out, wanted)


@dataclass(frozen=True)
class AllToAll(Call):
    """`words` to each rank, in one run."""

    words: int

    def run(self, rank: Rank, number: int) -> int:
        _fill(rank, number, self.words * rank.job.ranks)
        rank.view(c.OUT, rank.out, self.words * rank.job.ranks)
        for i in range(8):
            rank.set(c.EXTRA + i * WORD, self.words * WORD if i < 5 else 0)
        return rank.enter(all_to_all)

    def check(self, rank: Rank, number: int) -> None:
        first = rank.number * self.words
        wanted = [value(r, number, first + i) for r in range(rank.job.ranks) for i in range(self.words)]
        _expect(rank, number, rank.out, wanted)


@dataclass(frozen=True)
class Disagree(Call):
    """Barriers whose fingerprints differ: every rank must find out."""

    def run(self, rank: Rank, _number: int) -> int:
        rank.set(c.ARGUMENT, rank.number)
        return _expected(c.MISMATCH, rank.enter(barrier))


@dataclass(frozen=True)
class DisagreeOnComposite(Call):
    """Barriers that are parts of different composite calls, or of none: every rank must find out."""

    def run(self, rank: Rank, _number: int) -> int:
        rank.set(c.ALGORITHM, rank.number << layout.COMPOSITE_SHIFT)
        return _expected(c.MISMATCH, barrier(rank.ctx))


@dataclass(frozen=True)
class Post(Call):
    """Publish one step."""

    together = False

    def run(self, rank: Rank, number: int) -> int:
        sync.publish_step(rank.ctx, 1, number)
        return c.OK


@dataclass(frozen=True)
class Await(Call):
    """Wait for that step of another rank."""

    peer: int

    together = False

    def run(self, rank: Rank, number: int) -> int:
        return sync.await_step(rank.ctx, 1, number, self.peer)


@dataclass(frozen=True)
class End(Call):
    """The rank ends here: `state` is DEPARTED (it returned) or FAILED (it raised, which ends the group)."""

    state: int

    together = False
    ends = True

    def run(self, rank: Rank, _number: int) -> int:
        arena: Any = rank.job.arena
        records.write(arena, rank.number, layout.BY_RANK, self.state)
        if self.state == records.FAILED:
            Group.world(arena).abort()
        else:
            Group.world(arena).ring()
        return c.OK
