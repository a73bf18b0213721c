"""Ranks that stay and wait for one that has answered. They would wait forever, so the server ends the wait.

A rank that has answered a call takes part in nothing before the next call, and that begins when all have answered. Its
asynchronous calls have ended, too (`serve_calls.py`). So an operation that waits for it cannot end. The server reads
the arena (`rank_status.py`) while some ranks have answered and others have not. A rank that it finds twice in the same
operation, waiting for one that has answered, is stuck: messages and records that were on their way at the first time
have arrived at the second. Then the server writes about the rank that has answered the record that it would write if
the process had ended: it has raised its exception, or it has returned. The record ends the group of all ranks, so every
operation that waits raises `RankFailed`.
"""

import time
from collections.abc import Sequence

from shmcoll.collectives import record_of
from shmcoll.diagnostics import rank_status
from shmcoll.engine import layout
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.runner.rank import Rank

_HAS_ANSWERED = "has returned from its function, and takes part in no more of this call"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0  # seconds between checks; one takes a few ms per hundred ranks


class StuckRanks:
    """Finds ranks that are stuck. next_look: the time (`time.monotonic`) from which on `look` checks.

    has_answered: what peers are told about a rank that has answered without an exception.
    """

    def __init__(self, arena: Arena, ranks: Sequence[Rank], has_answered: str = _HAS_ANSWERED):
        self._has_answered = has_answered
        self._arena = arena
        self._ranks = ranks
        self.begin()

    def begin(self) -> None:
        """Begin a call."""
        self.next_look, self._pause = 0.0, _FIRST_PAUSE
        self._found: set[tuple[object, ...]] = set()

    def look(self) -> None:
        """Report ranks that have answered to the ranks that have been found waiting for them twice."""
        if time.monotonic() < self.next_look:
            return
        found = {
            (s.rank, s.group and s.group.offset, s.flight.sequence if s.flight else s.message): left
            for s in rank_status.standings(self._arena)
            if self._ranks[s.rank].is_busy and (left := self._left_by(s))
        }
        for stuck in found.keys() & self._found:
            for rank in found[stuck]:
                self._report(rank)
        self._found = set(found)
        self._pause = _FIRST_PAUSE if found else min(2 * self._pause, _LONGEST_PAUSE)
        self.next_look = time.monotonic() + self._pause

    def _left_by(self, waiting: rank_status.RankStatus) -> list[Rank]:
        """Return the ranks that have answered and for which this one waits. For a message from any rank these are all
        others."""
        left = [self._ranks[one] for one in waiting.blames if self._ranks[one].answered]
        if waiting.arrived or (waiting.message and (len(left) < len(waiting.blames) or self._sends(waiting))):
            return []
        return left

    def _sends(self, waiting: rank_status.RankStatus) -> bool:
        """Return whether the message is a send, which waits for memory, and not forever."""
        group = waiting.group
        assert group is not None
        operation = self._arena.load(group.mailbox(group.ranks.index(waiting.rank)) + layout.MESSAGE)
        record = record_of(operation)
        return record is None or record.name == "send"

    def _report(self, rank: Rank) -> None:
        if rank.is_recorded:
            return
        rank.is_recorded = True
        if rank.answered and rank.answered.raised:
            rank.raised = rank.answered.raised
            rank.record_failure(self._arena)
        else:
            how = self._has_answered
            records.write(self._arena, rank.number, layout.BY_LAUNCHER, records.FAILED, records.EXITED, 0, how)
            Group.world(self._arena).abort()
