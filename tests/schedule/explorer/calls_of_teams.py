"""A team of threads: `engine/protocol/team.py`. The actors are threads of one rank: callers and helpers."""

from dataclasses import dataclass

from shmcoll.engine import atomics
from shmcoll.engine import context as c
from shmcoll.engine.kernels.kernels import STEP
from shmcoll.engine.protocol import team
from tests.schedule.explorer.calls import Call
from tests.schedule.explorer.job import Job, Rank
from tests.schedule.explorer.program import Violation
from tests.schedule.explorer.stand_ins import KERNEL, SHARED, WORD

MOST = 4  # elements of a piece
ITEMS = WORD | WORD << 8 | WORD << 16


def team_of(job: Job) -> int:
    return SHARED + job.world_end


def helpers_of(job: Job) -> list[int]:
    return [rank for rank in range(job.ranks) if any(isinstance(call, Help) for call in job.calls_of(rank))]


def arrays_of(rank: Rank) -> tuple[int, int]:
    """Return where a caller has what it adds, and where the sums are."""
    place = team_of(rank.job) + (team.team_words(rank.job.ranks) + 1 + 2 * MOST * rank.number) * WORD
    return place, place + MOST * WORD


class OfTeam(Call):
    together = False

    def shared_words(self, job: Job) -> dict[int, int]:
        at, helpers = team_of(job), helpers_of(job)
        words = {at + team.THREADS: len(helpers) + 1, at + team.LEAST_PART: WORD}
        for number in range(1, len(helpers) + 1):
            words |= {team.member(at, number) + team.OF: at, team.member(at, number) + team.NUMBER: number}
        return words

    def doorbells(self, job: Job) -> dict[int, int]:
        at = team_of(job)
        return {team.member(at, i) + team.SEMAPHORE: rank for i, rank in enumerate(helpers_of(job), start=1)}


@dataclass(frozen=True)
class ShareWork(OfTeam):
    """Add `elements` numbers to as many. The last piece of the last caller sends the helpers away."""

    elements: int

    def run(self, rank: Rank, number: int) -> int:
        at, (source, sums) = team_of(rank.job), arrays_of(rank)
        for i in range(self.elements):
            atomics.store(source + i * WORD, number + i)
        team.share(at, team.REDUCE, KERNEL, STEP, 1, 0, sums, source, ITEMS, self.elements)
        for i in range(self.elements):
            wanted = sum(n + i for n, call in enumerate(rank.calls[:number], start=1) if i < call.elements)
            if atomics.load(sums + i * WORD) != wanted:
                raise Violation(f"element {i} of piece {number} is not {wanted}")
        if number == len(rank.calls):
            self._leave(rank)
        return c.OK

    def _leave(self, rank: Rank) -> None:
        at, helpers = team_of(rank.job), len(helpers_of(rank.job))
        left = at + team.team_words(rank.job.ranks) * WORD
        if atomics.add(left, 1) == rank.job.ranks - helpers - 1:
            for number in range(1, helpers + 1):
                atomics.store(team.member(at, number) + team.OF, 0)
                atomics.ring(team.member(at, number) + team.SEMAPHORE)


@dataclass(frozen=True)
class Help(OfTeam):
    def run(self, rank: Rank, _number: int) -> int:
        number = helpers_of(rank.job).index(rank.number) + 1
        team.serve(team.member(team_of(rank.job), number))
        return c.OK
