"""Eager calls that do not match, as explored ranks make them: the rank that finds it ends the group."""

from dataclasses import dataclass

from shmcoll.engine import context as c
from shmcoll.engine.memory.group import Group
from shmcoll.engine.protocol import sync
from tests.schedule.explorer.calls_moving import Broadcast
from tests.schedule.explorer.job import Rank
from tests.schedule.explorer.program import Violation


@dataclass(frozen=True)
class BroadcastOfEach(Broadcast):
    """Broadcasts of which each rank believes that it is the root. They end before the ring of headers is full."""

    words: int = 1
    ends = True

    def run(self, rank: Rank, number: int) -> int:
        call = Broadcast(1, root=rank.number)
        for _ in range(sync.HEADERS):
            status = call.run(rank, number)
            if status == c.MISMATCH:
                Group.world(rank.job.arena).abort()  # type: ignore[arg-type]
            if status != c.OK:
                return c.ABORTED
        raise Violation("nobody has found that the calls differ")

    def check(self, rank: Rank, number: int) -> None:
        pass
