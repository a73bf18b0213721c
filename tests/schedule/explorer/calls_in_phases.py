"""Calls of more than one phase as ranks with events make them: between two phases Python runs, and so do handlers."""

from dataclasses import dataclass

from shmcoll.engine import atomics
from shmcoll.engine import context as c
from shmcoll.engine.layout import ANY
from shmcoll.engine.messages.recv import DATA, FETCH, MARK, TRY
from shmcoll.engine.messages.send import BESIDE, BLOCKED, GO_ON
from shmcoll.engine.protocol import sync
from tests.schedule.explorer.calls import Barrier, Call, _expected
from tests.schedule.explorer.calls_of_messages import Receive, Send, memory, put
from tests.schedule.explorer.job import Rank
from tests.schedule.explorer.stand_ins import WORD

NO_TAG = 77  # no message has it


@dataclass(frozen=True)
class BarrierApart(Barrier):
    """For a handler: nobody counts that it is called."""

    together = False

    def run(self, rank: Rank, number: int) -> int:
        for word in (c.REDUCTION, c.ARGUMENT, c.ARGUMENT_2, c.ALGORITHM, *range(c.X, c.EXTRA, WORD)):
            rank.set(word, 0)
        return super().run(rank, number)


@dataclass(frozen=True)
class ReceiveNew(Receive):
    """Without an `out`: it is made when the message has been found."""

    def run(self, rank: Rank, number: int) -> int:
        self._prepare(rank)
        rank.set(c.OUT + c.DTYPE, 0)
        status = self._enter(rank, FETCH, self.source)
        while status == c.FOUND:
            self._prepare(rank)
            status = self._enter(rank, DATA, self.source)
        return self._told(rank, status, number)


@dataclass(frozen=True)
class ReceiveOrWithdraw(Receive):
    """A posted receive that may be withdrawn between any two steps; then the message is received as if it never was."""

    def run(self, rank: Rank, number: int) -> int:
        self._prepare(rank)
        while not rank.events.is_cancelled():
            status = self._enter(rank, MARK, ANY)
            if status == c.OK and not rank.events.is_cancelled():
                status = self._enter(rank, TRY, self.source)
            if status == c.FOUND:
                if not rank.events.is_cancelled():
                    return self._told(rank, self._enter(rank, DATA, self.source), number)
                status = self._let_go(rank)
            if status not in (c.OK, c.NOTHING_YET):
                return status
            if status == c.NOTHING_YET:
                break  # it would sleep, which `ReceivePosted` does
        return self._told(rank, self._enter(rank, FETCH, self.source), number)

    def _let_go(self, rank: Rank) -> int:
        return self._enter(rank, MARK, ANY)


@dataclass(frozen=True)
class SendBesidePosted(Send):
    """As the worker sends while a receive is posted, which gets nothing."""

    def run(self, rank: Rank, number: int) -> int:
        self._fill(rank, number)
        status = put(rank, self.dest, self.tag, BESIDE)
        while status == c.ASKS:
            how = memory(rank)
            if atomics.peek(rank.ctx + c.WANTED) == BLOCKED:
                waits = Receive(ANY, 0, tag=NO_TAG)
                for phase in (MARK, TRY):
                    waits._prepare(rank)
                    status = waits._enter(rank, phase, ANY)
                    if status not in (c.OK, c.NOTHING_YET):
                        return status
                how = GO_ON
            self._describe(rank)
            status = put(rank, self.dest, self.tag, how)
        return status


@dataclass(frozen=True)
class AwaitInVain(Call):
    """Wait for a step that nobody publishes, with a limit of three slices. `keeps`: how long another thread may keep
    the GIL at a time."""

    peer: int
    keeps: int

    together = False

    def run(self, rank: Rank, number: int) -> int:
        rank.set(c.TIMEOUT, 3)
        status = _expected(c.TIMEOUT_PASSED, sync.await_step(rank.ctx, 1, number, self.peer))
        late = rank.events.now() - (3 + 1 + self.keeps)
        return c.BROKEN if late > 0 else status
