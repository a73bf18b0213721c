"""How ranks end, as the process that started them sees it: shmrun, or the server of `shmcoll.run`.

Only the records in the arena decide which rank failed first (`engine/memory/records.py`), so that the starter names the
same rank as the survivors. The records, and the process that writes them:

    a rank that has joined   its own record, before its peers can notice that it has failed (`runtime/local_rank.py`)
    its starter              one record, as soon as it knows: when the rank has reported an exception, which a rank that
                             has not joined can report only to its starter; otherwise when the rank has ended

If the starter finds several failed ranks at the same time, it first records those that were killed by a signal, because
others may have failed for that reason. It records the rest in the order of their reports.
"""

import contextlib
import os
import signal
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from shmcoll.engine import layout
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group


@dataclass(frozen=True)
class RaisedException:
    """A rank's report about the exception that ends it.

    line: the exception in one line. time: CLOCK_MONOTONIC, ns. is_consequence: it was raised because another rank had
    failed.
    """

    line: str
    time: int
    is_consequence: bool


@dataclass
class RankProcess:
    """The process of one rank. status: its exit code, or minus the signal that killed it; None while it runs.

    ended_by: the signal by which its starter had to end it, or 0. started, ended: CLOCK_MONOTONIC, ns.
    """

    number: int
    pid: int
    pidfd: int
    started: int
    status: int | None = field(default=None, init=False)
    ended: int = field(default=0, init=False)
    ended_by: int = field(default=0, init=False)
    is_recorded: bool = field(default=False, init=False)  # whether a record says that it has failed

    @property
    def raised(self) -> RaisedException | None:
        """The exception that it has reported."""
        raise NotImplementedError

    @property
    def failed(self) -> bool:
        """Whether it has ended in another way than it should."""
        return bool(self.status)

    def note_end(self) -> bool:
        """Return whether it has ended, and keep its status. It is not reaped."""
        result = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if result is None:
            return False
        self.ended = time.monotonic_ns()
        self.status = result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
        return True

    def reap(self) -> None:
        """Reap the process, and close the descriptors of the rank."""
        os.waitpid(self.pid, 0)
        self.close()

    def close(self) -> None:
        if self.pidfd >= 0:
            os.close(self.pidfd)

    def send(self, signum: int) -> None:
        """Send a signal to the rank and all in its process group, dead or alive."""
        try:
            os.killpg(self.pid, signum)
        except ProcessLookupError:
            with contextlib.suppress(OSError):  # it has no group of its own yet
                os.kill(self.pid, signum)
        except PermissionError:
            pass  # it has changed its user

    def record_failure(self, arena: Arena) -> None:
        """Record how it failed, for the errors of its peers, and end the world."""
        self.is_recorded = True
        world = Group.world(arena)
        cause, code, how = self._failure(world)
        records.write(arena, self.number, layout.BY_LAUNCHER, records.FAILED, cause, code, how)
        world.abort()

    def how_it_failed(self, arena: Arena) -> tuple[int, str]:
        """Return the cause of its failure, as in its record, and a text to follow its name."""
        cause, _, how = self._failure(Group.world(arena))
        return cause, how

    def record_departure(self, arena: Arena) -> None:
        """Record that it has ended after doing its part. This is an error only for ranks that still need it."""
        records.write(arena, self.number, layout.BY_LAUNCHER, records.DEPARTED)
        Group.world(arena).ring()

    def _failure(self, world: Group) -> tuple[int, int, str]:
        """Return the cause, the code and the text of its record."""
        if raised := self.raised:
            return records.RAISED_BECAUSE if raised.is_consequence else records.RAISED, 1, f"raised {raised.line}"
        status = self.status or 0
        how = describe(status)
        if self.ended_by:
            return records.ENDED_BECAUSE, abs(status), how
        if status < 0:
            return records.KILLED, -status, how
        # Its program has a hook of its own, or has caught the error and chosen an exit code.
        knew = records.knew_of_a_failure(world, self.number)
        return records.EXITED_BECAUSE if knew else records.EXITED, status, how


AnyRank = TypeVar("AnyRank", bound=RankProcess)


def in_order(failed: Sequence[AnyRank]) -> list[AnyRank]:
    """Sort ranks that were found failed at the same time into the order in which their failures are to be recorded."""

    def order(rank: RankProcess) -> tuple[bool, float]:
        was_killed = (rank.status or 0) < 0 and not rank.ended_by and not rank.raised
        return not was_killed, rank.raised.time if rank.raised else rank.ended

    return sorted(failed, key=order)


def first_failure(
    arena: Arena, failed: Collection[int], unrecorded: Mapping[int, RaisedException] = MappingProxyType({})
) -> int | None:
    """Return the rank that failed first; None if no rank has failed.

    failed: the ranks that have failed. unrecorded: exceptions that are in no record, by rank.
    """
    record = records.first_failure(Group.world(arena), failed)
    found = [(record.is_consequence, record.time, record.rank)] if record else []
    found += [(raised.is_consequence, raised.time, rank) for rank, raised in unrecorded.items()]
    return min(found)[2] if found else None


def is_consequence(arena: Arena, rank: RankProcess) -> bool:
    """Return whether a rank that has failed did so because another rank had failed, or because it was ended."""
    record = records.first_failure(Group.world(arena), {rank.number})
    return record is not None and record.is_consequence


def describe(status: int) -> str:
    """Return 'exited with code 3' or 'was killed by signal 9 (SIGKILL)', from an exit code or minus a signal number."""
    if status >= 0:
        return f"exited with code {status}"
    return f"was killed by signal {-status} ({signal_name(-status)})"


def signal_name(number: int) -> str:
    """Return 'SIGKILL', or 'real-time' for signals without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "real-time"
