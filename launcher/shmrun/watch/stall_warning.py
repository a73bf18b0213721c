"""The line about a stall (`--stall-warning`): which rank keeps which others waiting, in which call and at which line.

The launcher reads the arena, so ranks do nothing for it. It looks only when a wait that it knows of, or one that could
have begun after its last look, may be as long as the limit. An operation that takes long but goes on is no stall: what
the waiting ranks sleep for, and how far they have got, must be the same in a second look. A stall is reported when the
limit is over, and again whenever it has lasted twice as long as when it was reported last. Each line but the first says
what has changed since the last one (`stall_changes.py`).

The diagnostics are imported for the first look: numpy and llvmlite come with them, which most launchers never need.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from shmcoll.engine import layout
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmrun.watch.stall_changes import Seen, since_last

if TYPE_CHECKING:
    from shmcoll.diagnostics.rank_status import RankStatus

_SECOND_LOOK = 0.5  # seconds
_STACKS_PATIENCE = 0.3  # seconds
_ASKED = 3  # most ranks whose lines are named

_AT = re.compile(r"(.*:\d+) in ")
_WORDS = (layout.PROGRESS, layout.AWAITED_PEER, layout.AWAITED_WORD, layout.AWAITED_VALUE, layout.MESSAGE_SINCE)

Signature = list[tuple[int, ...]]


class StallWarning:
    """Finds stalls. when: the time (`time.monotonic`) of the next check."""

    def __init__(self, arena: Arena, limit: float):
        self.when = time.monotonic() + limit
        self._arena = arena
        self._limit = self._next = limit  # seconds that a wait has lasted when the next line is due
        self._seen: Signature = []
        self._told: Seen | None = None  # the last line about this stall

    def look(self) -> str:
        """Return the line, or '' if there is nothing to report now."""
        from shmcoll.diagnostics.hang_report import verdict
        from shmcoll.diagnostics.rank_status import standings

        found = standings(self._arena)
        longest = max((s.since for s in found if s.blames), default=0.0)
        if longest < self._limit:
            self._next, self._told = self._limit, None
        if longest < self._next:
            self._seen = []
            self.when = time.monotonic() + max(self._next - longest, _SECOND_LOOK)
            return ""
        signature = self._signature(found)
        if signature != self._seen:
            self._seen = signature
            self.when = time.monotonic() + min(_SECOND_LOOK, self._limit)
            return ""
        self._next = 2 * longest
        self.when = time.monotonic() + longest
        places = self._places(found)
        at = "".join(f" Rank {rank} is at {place}." for rank, place in sorted(places.items()))
        before, self._told = self._told, Seen(found, self._progress(found), places)
        said, creator = verdict(found, self._limit), self._arena.load(layout.JOB_CREATOR)
        return f"{said}{at}{since_last(before, self._told)} More: shmrun inspect --stacks {creator}"

    def _progress(self, found: list[RankStatus]) -> dict[int, int]:
        """Return how far the ranks are that are in a collective."""
        return {
            s.rank: self._arena.load(s.group.mailbox(s.group.ranks.index(s.rank)) + layout.PROGRESS)
            for s in found
            if s.group and s.flight and s.flight.flying
        }

    def _signature(self, found: list[RankStatus]) -> Signature:
        """Return a value that changes if one of the ranks that have waited for too long goes on."""
        seen: Signature = []
        for s in found:
            if s.group and s.blames and s.since >= self._limit:
                mailbox = s.group.mailbox(s.group.ranks.index(s.rank))
                words = (self._arena.load(mailbox + word) for word in _WORDS)
                seen.append((s.rank, s.flight.sequence if s.flight else 0, *words))
        return seen

    def _places(self, found: list[RankStatus]) -> dict[int, str]:
        """Return the lines of the program at which the ranks are that keep the others waiting, or one another."""
        from shmcoll.diagnostics.hang_report import culprits
        from shmcoll.diagnostics.stack_client import ask
        from shmcoll.engine.system.tracebacks import is_of_program

        asked = sorted(culprits(found, self._limit)) or [s.rank for s in found if s.blames]
        processes = {
            rank: (found[rank].pid, records.read(self._arena, rank, layout.BY_RANK).start)
            for rank in asked[:_ASKED]
            if found[rank].pid
        }
        said = {}
        for rank, stack in ask(processes, _STACKS_PATIENCE).items():
            places = [match for line in stack if (match := _AT.match(line))]
            of_program = [one for one in places if is_of_program(one[1].rpartition(":")[0])]
            innermost = next(iter([*of_program, *places]), None)
            if innermost:
                said[rank] = innermost[1]
        return said
