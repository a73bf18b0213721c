"""send and recv as explored ranks call them. Rings have 512 bytes, parts of messages 128; a word is 8.

What is sent in call number k of rank r is `value(r, k, i)`. Memory that a sender asks for is always there, but for
`SendInVain`.
"""

from dataclasses import dataclass

from shmcoll.engine import atomics, layout
from shmcoll.engine import context as c
from shmcoll.engine.layout import ANY
from shmcoll.engine.messages.recv import ATTEND, DATA, FETCH, MARK, SEEK, SOON, TRY, recv
from shmcoll.engine.messages.ring_buffers import (
    BEGUN,
    BEGUN_IN,
    CHAIN_BYTES,
    DONE,
    SEGMENTS,
    SOURCE_SHIFT,
    SYNCHRONOUS,
    UNREAD,
    WHOLE,
    chains_offset,
    found_offset,
)
from shmcoll.engine.messages.send import BEGIN, BESIDE, BLOCKED, FINISHED, GO_ON, HAS_BEGUN, LOOK, NONE, STAY, send
from tests.schedule.explorer.calls import Call, _expect, _fill, value
from tests.schedule.explorer.job import Rank
from tests.schedule.explorer.program import Violation
from tests.schedule.explorer.stand_ins import WORD

OTHER = 99
CUT, GAP = 16, 4  # words


class Message(Call):
    together = False
    is_message = True


def put(rank: Rank, dest: int, tag: int, how: int) -> int:
    rank.set(c.ARGUMENT, dest)
    rank.set(c.ARGUMENT_2, tag)
    rank.set(c.SEND_MEMORY, how)
    return rank.enter(send)


def memory(rank: Rank) -> int:
    """Where another ring can be."""
    made = atomics.peek(rank.rings)
    atomics.poke(rank.rings, made + 1)
    return rank.job.ring(rank.number, made)


@dataclass(frozen=True)
class Send(Message):
    """`fill`: what every word of the message is, in place of its value."""

    dest: int
    words: int
    tag: int = 0
    fill: int = 0

    def run(self, rank: Rank, number: int) -> int:
        self._fill(rank, number)
        status = put(rank, self.dest, self.tag, BEGIN)
        while status == c.ASKS:
            status = put(rank, self.dest, self.tag, self._how_to_go_on(rank))
        return status

    def _fill(self, rank: Rank, number: int) -> None:
        _fill(rank, number, self.words)
        for i in range(self.words if self.fill else 0):
            atomics.poke(rank.x + i * WORD, self.fill)
        rank.set(c.OUT + c.DTYPE, 0)

    def _describe(self, rank: Rank) -> None:
        """Write down what is sent once more."""
        rank.view(c.X, rank.x, self.words)
        rank.set(c.OUT + c.DTYPE, 0)

    def _how_to_go_on(self, rank: Rank) -> int:
        return memory(rank)


@dataclass(frozen=True)
class SendSynchronously(Send):
    """Where it begins is kept in private memory for `Look`."""

    def run(self, rank: Rank, number: int) -> int:
        rank.set(c.FORM, SYNCHRONOUS)
        status = super().run(rank, number)
        rank.set(c.FORM, 0)
        chain = rank.mail + chains_offset(rank.job.ranks) + 2 * self.dest * CHAIN_BYTES
        atomics.poke(rank.scratch, atomics.peek(chain + BEGUN_IN))
        atomics.poke(rank.scratch + WORD, atomics.peek(chain + BEGUN) - 1)
        return status


@dataclass(frozen=True)
class Look(Message):
    """Look whether the receiver has begun to receive the last synchronous message: `begun` says what must be found. If
    it has begun, it does not matter what becomes of it."""

    dest: int
    begun: bool

    def run(self, rank: Rank, number: int) -> int:
        rank.view(c.X, rank.scratch, 2)
        rank.set(c.OUT + c.DTYPE, 0)
        status = put(rank, self.dest, 0, LOOK)
        if status != c.BUSY and (status == HAS_BEGUN) != self.begun:
            raise Violation(f"call {number}: the receiver {'has not' if self.begun else 'has'} begun, says LOOK")
        return c.OK if status == HAS_BEGUN else status


@dataclass(frozen=True)
class Find(Message):
    """Wait until a message has come that fits, and leave it there."""

    source: int
    tag: int = ANY

    def run(self, rank: Rank, number: int) -> int:
        rank.set(c.OUT + c.DTYPE, 0)
        rank.set(c.ARGUMENT, self.source)
        rank.set(c.ARGUMENT_2, self.tag)
        rank.set(c.RECV_PHASE, FETCH)
        status = rank.enter(recv)
        if status != c.FOUND:
            return status
        rank.set(c.RECV_PHASE, MARK)  # as `probe` lets go of a message
        return rank.enter(recv)


@dataclass(frozen=True)
class SendInVain(Send):
    """There is no more memory than the first ring, and the sender does not wait."""

    def run(self, rank: Rank, number: int) -> int:
        _fill(rank, number, self.words)
        rank.set(c.OUT + c.DTYPE, 0)
        how = BEGIN
        while (status := put(rank, self.dest, self.tag, how)) == c.ASKS:
            if atomics.peek(rank.rings) == 0:
                how = memory(rank)
            else:
                how = NONE if how == GO_ON else GO_ON
        return status


@dataclass(frozen=True)
class SendWithoutMemory(Send):
    """There is no more than the first ring, and the sender waits for its receiver. (The clock stands still.)"""

    def _how_to_go_on(self, rank: Rank) -> int:
        return STAY if atomics.peek(rank.rings) else memory(rank)


@dataclass(frozen=True)
class SendObject(Send):
    """An object of two segments; four words between them in memory are no part of it."""

    def run(self, rank: Rank, number: int) -> int:
        _fill(rank, number, self.words + GAP)
        cut, end = CUT * WORD, self.words * WORD
        rows = ((0, rank.x, cut), (cut, rank.x + cut + GAP * WORD, end - cut), (end, 0, 0))
        for i, word in enumerate(word for row in rows for word in row):
            atomics.poke(rank.scratch + i * WORD, word)
        rank.view(c.X, rank.scratch, 9)
        rank.set(c.OUT + c.DTYPE, 0)
        rank.set(c.FORM, SEGMENTS)
        how = BEGIN
        while (status := put(rank, self.dest, self.tag, how)) == c.ASKS:
            rank.view(c.X, rank.scratch, 9)
            how = memory(rank)
        rank.set(c.FORM, 0)
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
        rank.set(c.ARGUMENT_2, self.tag)

    def _enter(self, rank: Rank, phase: int, source: int) -> int:
        rank.set(c.ARGUMENT, source)
        rank.set(c.RECV_PHASE, phase)
        return rank.enter(recv)

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
class ReceiveObject(Receive):
    def run(self, rank: Rank, number: int) -> int:
        self._prepare(rank)
        rank.set(c.FORM, WHOLE)
        status = self._enter(rank, FETCH, self.source)
        rank.set(c.FORM, 0)
        if status < 0:
            call = self.call or number
            words = [*range(CUT), *range(CUT + GAP, self.words + GAP)]
            _expect(rank, number, rank.out, [value(self.source, call, i) for i in words])
            return c.OK
        return c.BROKEN if status == c.OK else status


@dataclass(frozen=True)
class ReceiveShort(Receive):
    """A message that is longer than `words` is refused, unless it is known to have been taken back."""

    def run(self, rank: Rank, number: int) -> int:
        self._prepare(rank)
        status = self._enter(rank, FETCH, self.source)
        return c.OK if status == c.DOES_NOT_FIT else self._told(rank, status, number)


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
            if status == c.NOTHING_YET:
                rank.set(c.ARGUMENT_2, OTHER)
                status = self._enter(rank, TRY, self.source)
                rank.set(c.ARGUMENT_2, self.tag)
            if status == c.FOUND:
                return self._told(rank, self._enter(rank, DATA, self.source), number)
            if status == c.NOTHING_YET:
                status = self._enter(rank, ATTEND, ANY)
            if status == c.SOURCE_LOST:  # somebody has gone: see whether it is the source
                return self._told(rank, self._enter(rank, FETCH, self.source), number)
            if status not in (c.OK, c.SLICE_OVER):
                return status


@dataclass(frozen=True)
class ReceiveSoon(ReceivePosted):
    """As a batch does it: posted if the message does not come soon."""

    def run(self, rank: Rank, number: int) -> int:
        self._prepare(rank)
        status = self._enter(rank, SOON, self.source)
        return super().run(rank, number) if status == c.NOTHING_YET else self._told(rank, status, number)


@dataclass(frozen=True)
class SendRecv(Receive):
    """As `comm.sendrecv` of long arrays does it: what it receives from `source` is read while it sends to `dest`."""

    dest: int = 0

    def run(self, rank: Rank, number: int) -> int:
        _fill(rank, number, self.words)
        self._prepare(rank)
        rank.set(c.OUT + c.DTYPE, 0)
        found = rank.mail + found_offset(rank.job.ranks)
        attached, status = False, put(rank, self.dest, 0, BESIDE)
        while status == c.ASKS and (asked := atomics.peek(rank.ctx + c.WANTED)) != FINISHED:
            if asked == BLOCKED and not attached and self._seek(rank) == c.LOOKED:
                attached = atomics.peek(found + DONE) == UNREAD
                if attached:
                    rank.view(c.OUT, rank.out, self.words)
            status = put(rank, self.dest, 0, GO_ON if asked == BLOCKED else memory(rank))
        if status not in (c.OK, c.ASKS):
            return status
        rank.set(c.ARGUMENT_2, self.tag)
        rank.view(c.OUT, rank.out, self.words)
        return self._told(rank, self._enter(rank, DATA if attached else FETCH, self.source), number)

    def _seek(self, rank: Rank) -> int:
        rank.set(c.ARGUMENT_2, self.tag)
        return self._enter(rank, SEEK, self.source)
