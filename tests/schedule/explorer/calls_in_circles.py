"""Waits that look, while they sleep, whether ranks wait for one another: see `engine/protocol/deadlock.py`.

The machine has no time slices, so a look is a call of its own, at any moment of a sleep.
"""

from dataclasses import dataclass
from typing import Any

from shmcoll.collectives.barrier import COVERS
from shmcoll.engine import atomics
from shmcoll.engine import context as c
from shmcoll.engine.layout import HEADER_SEQUENCE, WORD
from shmcoll.engine.memory.group import Group
from shmcoll.engine.messages.recv import find
from shmcoll.engine.protocol.deadlock import begin_receive, end_receive, is_deadlocked
from shmcoll.engine.protocol.sync import begin, exchange_headers, header, publish_header
from shmcoll.engine.protocol.wait import EVENTS
from tests.schedule.explorer.calls import Barrier
from tests.schedule.explorer.calls_of_messages import Receive
from tests.schedule.explorer.job import Rank
from tests.schedule.explorer.program import Violation


@dataclass(frozen=True)
class ReceiveLooking(Receive):
    """It looks `times` times before it sleeps as any receive does. The ranks are in no circle."""

    times: int = 1

    def run(self, rank: Rank, number: int) -> int:
        if self._begins(rank):
            for _ in range(self.times):
                if is_deadlocked(rank.ctx):
                    raise Violation(f"call {number} finds a circle, and there is none")
            end_receive(rank.ctx)
        return super().run(rank, number)

    def _begins(self, rank: Rank) -> bool:
        """Say that this rank sleeps, unless the message is there."""
        atomics.poke(rank.ctx + c.ARGUMENT_2, self.tag)
        if find(rank.ctx, self.source, 0):
            return False
        event = atomics.peek(rank.ctx + c.MAIL) + EVENTS
        begin_receive(rank.ctx, atomics.peek(event), atomics.peek(event + WORD), self.source)
        return True


@dataclass(frozen=True)
class ReceiveAsleep(ReceiveLooking):
    """It says that it sleeps before its first sleep, as a receive does before its second: the machine has no slices."""

    def run(self, rank: Rank, number: int) -> int:
        self._begins(rank)
        return Receive.run(self, rank, number)


@dataclass(frozen=True)
class ReceiveInCircle(ReceiveLooking):
    """The ranks will be in a circle: it looks until it finds that, and ends the group."""

    ends = True

    def run(self, rank: Rank, number: int) -> int:
        if not self._begins(rank):
            raise Violation(f"call {number} finds a message that nobody has sent")
        while not is_deadlocked(rank.ctx):
            pass
        end_receive(rank.ctx)
        Group.world(rank.job.arena).abort()  # type: ignore[arg-type]
        return c.ABORTED


def _open(ctx: int) -> None:
    """Begin a barrier, publish this rank's part, and say that this rank sleeps until the other one has."""
    begin(ctx, COVERS)
    publish_header(ctx)
    other = 1 - atomics.peek(ctx + c.RANK)
    begin_receive(ctx, header(ctx, other) + HEADER_SEQUENCE, atomics.peek(ctx + c.SEQUENCE), other)


def _looking() -> Any:
    def barrier(ctx: int) -> int:
        _open(ctx)
        if is_deadlocked(ctx):
            raise Violation("a barrier finds a circle, and there is none")
        end_receive(ctx)
        return exchange_headers(ctx)

    return barrier


def _in_circle() -> Any:
    def barrier(ctx: int) -> int:
        _open(ctx)
        while not is_deadlocked(ctx):
            pass
        end_receive(ctx)
        return c.DEADLOCKED

    return barrier


_LOOKING, _IN_CIRCLE = _looking(), _in_circle()


class BarrierLooking(Barrier):
    """A barrier of two ranks that looks once before it sleeps as any barrier does. The ranks are in no circle."""

    def run(self, rank: Rank, _number: int) -> int:
        for argument in (*range(c.REDUCTION, c.ALGORITHM + WORD, WORD), c.X + c.DTYPE, c.X + c.DIMENSIONS):
            rank.set(argument, 0)  # it was that of the message before
        return rank.enter(_LOOKING)


class BarrierInCircle(Barrier):
    """The ranks will be in a circle: it looks until it finds that, and ends the group."""

    ends = True

    def run(self, rank: Rank, number: int) -> int:
        if rank.enter(_IN_CIRCLE) != c.DEADLOCKED:
            raise Violation(f"call {number} finds no circle")
        Group.world(rank.job.arena).abort()  # type: ignore[arg-type]
        return c.ABORTED
