"""How each rank fared, and which failed first.

Failures come in a cascade: one rank raises or dies, the others get `RankFailed` and may end sooner than it does. The
first failure is the earliest of those that are no consequence of another. When a rank failed is told by its answer, by
the record that it wrote about itself, and by when its end was seen: the earliest of these counts. A consequence is an
exception with a `RankFailed` behind it, a rank that found a peer gone, or an end that the server itself brought about.
Where all are consequences (a rank returned and was still needed) the earliest of them is the first.
"""

import contextlib
import os
import time
from dataclasses import dataclass

from shmcoll.engine import layout
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.runner.protocol import Answered, End
from shmcoll.startup import rank_process


@dataclass
class Rank:
    """One rank. `status`: its exit code, or minus the signal that killed it; None while it runs."""

    number: int
    pid: int
    pidfd: int
    answered: Answered | None = None
    status: int | None = None
    ended: int = 0  # CLOCK_MONOTONIC, ns
    told: bool = False  # whether the others know that it has failed
    ended_by_us: bool = False

    @property
    def raised(self) -> bool:
        return self.answered is not None and self.answered.line != ""

    @property
    def failed(self) -> bool:
        """Whether it has ended without a result."""
        return self.status is not None and (self.status != 0 or self.answered is None or self.raised)

    def note_end(self) -> None:
        """Keep its status. It is not reaped."""
        result = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOWAIT)
        assert result is not None  # only with WNOHANG
        self.status = result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
        self.ended = time.monotonic_ns()

    def send(self, signum: int) -> None:
        """Send a signal to the rank and all in its process group, dead or alive."""
        try:
            os.killpg(self.pid, signum)
        except ProcessLookupError:
            with contextlib.suppress(OSError):  # it has no group of its own yet
                os.kill(self.pid, signum)
        except PermissionError:
            pass  # it has changed its user

    def tell_failure(self, arena: Arena) -> None:
        """Write how it failed, for its peers to quote, and end the world. Again: nothing."""
        if self.told:
            return
        self.told = True
        status = self.status or 0
        cause, code, how = records.EXITED, status, rank_process.describe(status)
        if status < 0:
            cause, code = records.KILLED, -status
        elif self.answered and self.raised:
            cause, code, how = records.RAISED, 1, f"raised {self.answered.line}"
        records.write(arena, self.number, layout.BY_LAUNCHER, records.FAILED, cause, code, f"rank {self.number} {how}")
        Group.world(arena).abort()

    def tell_departure(self, arena: Arena) -> None:
        """Write that it is gone, its part done: an error only for those who still need it."""
        records.write(arena, self.number, layout.BY_LAUNCHER, records.DEPARTED)
        Group.world(arena).ring()


def first_failure(arena: Arena, all_ranks: list[Rank]) -> int | None:
    """The number of the rank that failed first, None when none has."""
    failed = [rank for rank in all_ranks if rank.failed]
    first = min(failed, key=lambda rank: (_is_consequence(arena, rank), _when(arena, rank)), default=None)
    return first.number if first else None


def ends(all_ranks: list[Rank]) -> dict[int, End]:
    """How the ranks that failed did."""
    return {r.number: End(r.status or 0, r.raised, r.ended_by_us) for r in all_ranks if r.failed}


def _when(arena: Arena, rank: Rank) -> int:
    times = [rank.ended]
    if rank.answered and rank.raised:
        times.append(rank.answered.time)
    return min(times + [told.time for told in records.own_failures(Group.world(arena), rank.number)])


def _is_consequence(arena: Arena, rank: Rank) -> bool:
    if rank.answered and rank.raised:
        return rank.answered.secondary
    if rank.ended_by_us or (rank.status or 0) < 0:
        return rank.ended_by_us
    failures = records.own_failures(Group.world(arena), rank.number)  # it may have caught the error and left
    return any(told.cause == records.VANISHED or "raised RankFailed" in told.text for told in failures)
