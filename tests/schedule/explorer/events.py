"""What meets a rank from outside, at any moment in which Python may run it: in a wait, which looks at pending signals,
and whenever a call has given control back to Python, so also between two phases.

An event has `happen(rank)`, which returns 1 when a handler has raised. Whether it happens, and when, the machine
decides (`signals`); a rank meets only events of one kind. `Events` remembers in private memory what has been done.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.engine import atomics
from shmcoll.engine import context as c
from shmcoll.engine.memory import records
from shmcoll.engine.memory.group import Group
from shmcoll.runtime.dispatcher import Dispatcher
from tests.schedule.explorer.program import Violation
from tests.schedule.explorer.stand_ins import WORD

if TYPE_CHECKING:
    from tests.schedule.explorer.calls import Call
    from tests.schedule.explorer.job import Rank

NUMBER = 50  # of a handler's call


class Interrupted(Exception):
    """A handler has raised while no routine was running."""


class Event:
    ends = False  # the group ends by it

    def happen(self, rank: "Rank") -> int:
        raise NotImplementedError


@dataclass(frozen=True)
class Calls(Event):
    """A handler makes a call. When it is refused, its rank makes it after all others."""

    call: "Call"

    def happen(self, rank: "Rank") -> int:
        if rank.events.is_done:
            return 0
        rank.events.is_done = True  # no other handler makes it in the midst of this one
        status = self.call.run(rank.aside, NUMBER)
        if status == c.OK:
            self.call.check(rank.aside, NUMBER)
        elif status == c.BUSY:
            rank.events.is_done = False
        elif status not in (c.ABORTED, c.PEER_LOST):
            raise Violation(f"the handler's call returned status {status}")
        return 0


@dataclass(frozen=True)
class Raises(Event):
    """A handler raises, once."""

    ends = True

    def happen(self, rank: "Rank") -> int:
        return int(not rank.events.has_left)


@dataclass(frozen=True)
class Aborts(Event):
    """A handler, or another thread, ends the group and returns."""

    ends = True

    def happen(self, rank: "Rank") -> int:
        rank.events.leave()
        return 0


@dataclass(frozen=True)
class KeepsGil(Event):
    """Another thread keeps the GIL for so many ns."""

    ns: int

    def happen(self, rank: "Rank") -> int:
        rank.events.pass_time(self.ns)
        return 0


@dataclass(frozen=True)
class Cancels(Event):
    """Somebody withdraws a posted receive: its call asks for that itself."""


class Events:
    """Those of one rank. `event`: their kind; None: none."""

    def __init__(self, rank: "Rank", event: Event | None):
        self.event = event
        self._rank = rank
        self._clock, self._done, self._left, self._raised = (rank.take(1) for _ in range(4))
        context = np.frombuffer(rank.memory, np.int64)[(rank.ctx - rank.first) // WORD :]
        self._dispatcher: Any = _DispatcherStandIn(context, rank)
        if event:
            atomics.hooks.events[rank.ctx] = self

    def in_wait(self) -> int:
        """A wait looks at pending signals."""
        if self.event is None or isinstance(self.event, Cancels) or not atomics.hooks.chance():
            return 0
        raised = self.event.happen(self._rank)
        atomics.poke(self._raised, raised)
        return raised

    def after_call(self, status: int) -> None:
        """Native code has given control back."""
        if atomics.peek(self._raised) and status != c.INTERRUPTED:
            raise Violation(f"a handler has raised, and the call returned status {status}")
        if not isinstance(self.event, KeepsGil) and self.in_wait():
            raise Interrupted

    def is_cancelled(self) -> bool:
        return isinstance(self.event, Cancels) and atomics.hooks.chance()

    # --- the group's end ----------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """What the rank's own code does when an exception has come out of a call."""
        atomics.poke(self._raised, 0)
        Dispatcher.left(self._dispatcher, "call")
        atomics.poke(self._left, 1)

    @property
    def has_left(self) -> bool:
        return bool(atomics.peek(self._left))

    # --- the handler's call -------------------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        return bool(atomics.peek(self._done))

    @is_done.setter
    def is_done(self, value: bool) -> None:
        atomics.poke(self._done, int(value))

    def catch_up(self) -> int:
        """Make the call that no handler could make."""
        if not isinstance(self.event, Calls) or self.is_done:
            return c.OK
        self.is_done = True  # no handler makes it in the midst of this
        status = self.event.call.run(self._rank.aside, NUMBER)
        if status == c.OK:
            self.event.call.check(self._rank.aside, NUMBER)
        return status

    # --- time ---------------------------------------------------------------------------------------------------------

    def now(self) -> int:
        return atomics.peek(self._clock) if isinstance(self.event, KeepsGil) else 0

    def pass_time(self, ns: int) -> None:
        if isinstance(self.event, KeepsGil):
            atomics.poke(self._clock, self.now() + ns)


class _DispatcherStandIn:
    """What `Dispatcher.left` uses of a dispatcher."""

    def __init__(self, words: np.ndarray, rank: "Rank"):
        self.words = words
        self.failures = self
        self._rank = rank

    def interrupted(self, _operation: str) -> None:
        arena: Any = self._rank.job.arena
        records.end(Group.world(arena), self._rank.number, records.INTERRUPTED, "interrupted")
