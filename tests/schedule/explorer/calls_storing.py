"""Messages that are stored at once, and receives of messages that are there as a whole, as explored ranks call them.

See `calls_of_messages.py` for the sizes. A ring for such messages has 1024 bytes: one message of more than a part fits.
"""

from dataclasses import dataclass

from shmcoll.engine import atomics, layout
from shmcoll.engine import context as c
from shmcoll.engine.layout import ANY
from shmcoll.engine.messages import read_message
from shmcoll.engine.messages.recv import ATTEND, DATA, FETCH, MARK, TRY, WHOLE
from shmcoll.engine.messages.ring_buffers import CHAIN_BYTES as CHAIN
from shmcoll.engine.messages.ring_buffers import (
    CURSOR_AT,
    CURSOR_RING,
    MOST_RING,
    NOTHING_SENT,
    RING,
    SENT,
    chains_offset,
    found_offset,
)
from shmcoll.engine.messages.send import NO_ROOM, STORE
from tests.schedule.explorer.calls_of_messages import Receive, Send, memory, put
from tests.schedule.explorer.job import Rank
from tests.schedule.explorer.program import Violation

STORING = 1024  # bytes of pieces


@dataclass(frozen=True)
class Store(Send):
    """As an asynchronous send does it: stored at once, else sent by a thread that may wait. must: it is stored."""

    must: bool = False

    def run(self, rank: Rank, number: int) -> int:
        self._fill(rank, number)
        atomics.poke(rank.mail + found_offset(rank.job.ranks) + MOST_RING, STORING)
        chain = rank.mail + chains_offset(rank.job.ranks) + 2 * self.dest * CHAIN
        status = put(rank, self.dest, self.tag, STORE)
        if status == c.ASKS:
            if atomics.peek(chain + SENT) != NOTHING_SENT:
                raise Violation(f"call {number}: a message that is stored at once has begun without room for it")
            status = put(rank, self.dest, self.tag, memory(rank))
        if status == c.ASKS:
            raise Violation(f"call {number}: a message that is stored at once asks twice")
        if status == c.OK and atomics.hooks.load(atomics.peek(chain + RING) + layout.RING_OFFER) != 0:
            raise Violation(f"call {number}: a message that is stored at once was offered")
        if status == NO_ROOM and self.must:
            raise Violation(f"call {number}: there was room, and the message was not stored")
        return super().run(rank, number) if status == NO_ROOM else status


@dataclass(frozen=True)
class ReceiveWhole(Receive):
    """As a thread does it that waits for a posted receive: it reads a message that is there as a whole, and leaves
    others to the worker."""

    def run(self, rank: Rank, number: int) -> int:
        self._prepare(rank)
        while True:
            status = self._enter(rank, MARK, ANY)
            if status == c.OK:
                status = self._enter(rank, TRY, self.source)
            if status == c.FOUND and self._enter(rank, WHOLE, self.source) == c.FOUND:
                self._check(rank, number)
                return self._told(rank, self._enter(rank, DATA, self.source), number)
            if status == c.FOUND:
                return self._told(rank, self._enter(rank, FETCH, self.source), number)
            if status == c.NOTHING_YET:
                status = self._enter(rank, ATTEND, ANY)
            if status == c.SOURCE_LOST:
                return self._told(rank, self._enter(rank, FETCH, self.source), number)
            if status not in (c.OK, c.SLICE_OVER):
                return status

    def _check(self, rank: Rank, number: int) -> None:
        """Refuse a message of which a piece is missing."""
        ctx, found, left = rank.ctx, rank.mail + found_offset(rank.job.ranks), self.words * layout.WORD
        ring, at = atomics.peek(found + CURSOR_RING), atomics.peek(found + CURSOR_AT)
        while left > 0:
            if not read_message.has_piece(ctx):
                raise Violation(f"call {number}: a piece of the message has not come, and WHOLE says that all have")
            left -= read_message.length_at_cursor(ctx)
            read_message.skip_piece(ctx)
        read_message.set_cursor(ctx, ring, at)
