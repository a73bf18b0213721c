"""How long a thread waits for a message between nodes, and what ends its wait before."""

import time
from typing import TYPE_CHECKING

from shmcoll.diagnostics.describe_timeout import timed_out, with_advice
from shmcoll.engine.layout import ANY
from shmcoll.errors import CollectiveTimeout
from shmcoll.nodes.mpi import waiting

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher

NOTHING, NOT_ALL = "has not sent a message that fits", "has not sent all of its message"
NOT_TAKEN = "has not taken the message"


class Limits:
    """The limits of the waits in one group."""

    def __init__(self, dispatcher: "NodesDispatcher"):
        self._dispatcher = dispatcher
        self._lives_at = 0.0

    def look_at_lives(self, awaited: list[int]) -> None:
        """Look, now and then, whether ranks of this node live, and whether the awaited ones have left."""
        d, now = self._dispatcher, time.monotonic()
        if now >= self._lives_at:
            self._lives_at = now + waiting.LIVES
            d.progress.look_at_lives(d.failures, awaited, now)

    def check(self, operation: str, source: int, end: float, what: str) -> None:
        """End the group if a time has passed. what: a rank has not done until then."""
        d = self._dispatcher
        d.progress.look()
        if time.monotonic() > end:
            self.timed_out(operation, [source], what)

    def timed_out(self, operation: str, sources: list[int], what: str) -> None:
        """End the group, because a wait for a rank, or for ANY, has been too long."""
        d = self._dispatcher
        others = [rank for rank in range(d.size) if rank != d.rank]
        missing = others if sources == [ANY] else sources
        who = "every other rank" if sources == [ANY] else d.topology.describe(sources[0])
        text = timed_out(f"{operation} on {d.topology.describe(d.rank)}", d.timeout, f"{who} {what}")
        d.failures.end(CollectiveTimeout, with_advice(text), missing=missing)

    def failed(self, operation: str, rank: int, error: int) -> None:
        """Raise because MPI has reported an error with a rank."""
        d = self._dispatcher
        d.progress.lost(d.failures, [rank], d.channel.wire.mpi.Get_error_string(error))
        d.failures.raise_if_ended(operation)
