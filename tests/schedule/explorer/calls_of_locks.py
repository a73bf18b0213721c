"""A lock of ranks: `engine/memory/rank_locks.py`. Who waits looks again and again, and finds who has been killed."""

from dataclasses import dataclass

from shmcoll.engine import atomics
from shmcoll.engine import context as c
from shmcoll.engine.memory import rank_locks
from tests.schedule.explorer.calls import Call
from tests.schedule.explorer.job import Rank
from tests.schedule.explorer.program import GONE, Violation, perform
from tests.schedule.explorer.stand_ins import SHARED, WORD


class Killed(Exception):
    """Another rank has been."""


def wait_until(is_so: rank_locks.IsBehind, rank: int) -> None:
    while not is_so():
        if perform(GONE, 0, rank):
            raise Killed


@dataclass(frozen=True)
class Lock(Call):
    """Behind the words of the lock are two words. They differ only while a rank has the lock alone.

    looks: how often a rank looks that does not wait, but leaves.
    """

    shared: bool = False
    looks: int | None = None
    together = False

    def run(self, rank: Rank, number: int) -> int:
        at, me, ranks = SHARED + rank.job.world_end, rank.number, rank.job.ranks
        first, second = at + ranks * WORD, at + (ranks + 1) * WORD
        try:
            if self.looks is None:
                rank_locks.take(at, ranks, me, wait_until, shared=self.shared)
            elif not rank_locks.take_soon(at, ranks, me, self.looks):
                return c.OK
        except Killed:
            rank_locks.give(at, me)
            return c.PEER_LOST
        before = atomics.load(first)
        if atomics.load(second) != before:
            raise Violation("two ranks have the lock, and one of them alone")
        if not self.shared:
            atomics.store(first, 10 * number + me)
            if atomics.load(second) != before:
                raise Violation("two ranks have the lock alone")
            atomics.store(second, 10 * number + me)
        rank_locks.give(at, me)
        return c.OK
