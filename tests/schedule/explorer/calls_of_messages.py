"""send and recv as explored ranks call them. Rings have 512 bytes, parts of messages 128; a word is 8.

What is sent in call number k of rank r is `value(r, k, i)`. Memory that a sender asks for is always there.
"""

from dataclasses import dataclass

from explorer.calls import Call, _expect, _fill, value
from explorer.job import Rank
from explorer.program import Violation
from explorer.stand_ins import WORD
from shmcoll.collectives import recv, send
from shmcoll.collectives.recv import ATTEND, DATA, FETCH, MARK, TRY
from shmcoll.engine import atomics, layout
from shmcoll.engine import context as c
from shmcoll.engine.layout import ANY
from shmcoll.engine.rings import SOURCE_SHIFT

OTHER = 99


class Message(Call):
    together = False
    is_message = True


@dataclass(frozen=True)
class Send(Message):
    """`fill`: what every word of the message is, in place of its value."""

    dest: int
    words: int
    tag: int = 0
    fill: int = 0

    def run(self, rank: Rank, number: int) -> int:
        _fill(rank, number, self.words)
        for i in range(self.words if self.fill else 0):
            atomics.poke(rank.x + i * WORD, self.fill)
        rank.set(c.OPERATION, layout.SEND)
        rank.set(c.ARGUMENT, self.dest)
        rank.set(c.ARGUMENT_2, self.tag)
        rank.set(c.REDUCTION, 0)
        status = send(rank.ctx)
        while status == c.HALFWAY:
            made = atomics.peek(rank.rings)
            atomics.poke(rank.rings, made + 1)
            rank.set(c.REDUCTION, rank.job.ring(rank.number, made))
            status = send(rank.ctx)
        return status


@dataclass(frozen=True)
class Receive(Message):
    """`call`: the number of the sender's call, by default that of this one."""

    source: int
    words: int
    tag: int = ANY
    call: int = 0
    fill: int = 0

    def run(self, rank: Rank, number: int) -> int:
        self._prepare(rank)
        return self._told(rank, self._enter(rank, FETCH, self.source), number)

    def _prepare(self, rank: Rank) -> None:
        for i in range(self.words):
            atomics.poke(rank.out + i * WORD, 0)
        rank.view(c.OUT, rank.out, self.words)
        rank.set(c.OPERATION, layout.RECV)
        rank.set(c.ARGUMENT_2, self.tag)

    def _enter(self, rank: Rank, phase: int, source: int) -> int:
        rank.set(c.ARGUMENT, source)
        rank.set(c.REDUCTION, phase)
        return recv(rank.ctx)

    def _told(self, rank: Rank, status: int, number: int) -> int:
        """OK for a message that came from where it should, with the right contents."""
        if status >= 0:
            return c.BROKEN if status == c.OK else status
        code = -1 - status
        source, tag = code >> SOURCE_SHIFT, code & layout.LARGEST_TAG
        if self.source not in (ANY, source) or self.tag not in (ANY, tag):
            raise Violation(f"call {number} got the message from rank {source} with tag {tag}")
        call = self.call or number
        _expect(rank, number, rank.out, [self.fill or value(source, call, i) for i in range(self.words)])
        return c.OK


@dataclass(frozen=True)
class ReceivePosted(Receive):
    """As the worker does it for posted receives: mark, try, attend. There is another one, for tag OTHER, that gets
    nothing."""

    def run(self, rank: Rank, number: int) -> int:
        self._prepare(rank)
        rank.set(c.ARGUMENT_2, self.tag)
        while True:
            status = self._enter(rank, MARK, ANY)
            if status == c.OK:
                status = self._enter(rank, TRY, self.source)
            if status == c.PREPARE:
                rank.set(c.ARGUMENT_2, OTHER)
                status = self._enter(rank, TRY, self.source)
                rank.set(c.ARGUMENT_2, self.tag)
            if status == c.HALFWAY:
                return self._told(rank, self._enter(rank, DATA, self.source), number)
            if status == c.PREPARE:
                status = self._enter(rank, ATTEND, ANY)
            if status == c.VERDICT:  # somebody has gone: see whether it is the source
                return self._told(rank, self._enter(rank, FETCH, self.source), number)
            if status not in (c.OK, c.PREPARE):
                return status
