"""Calls whose arrays other ranks read where they are: see `engine/protocol/exposure.py`."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from shmcoll.engine import atomics
from shmcoll.engine import context as c
from shmcoll.engine.protocol.peer_memory import NO, YES
from tests.schedule.explorer.calls import Call
from tests.schedule.explorer.job import Rank
from tests.schedule.explorer.stand_ins import SHARED, WORD, read, write

BYTES = 1 << 16
IN_ARENA = SHARED + (1 << 33)
PRIVATE = SHARED + (1 << 41)  # behind the arena; the machine lets other ranks read it


@dataclass(frozen=True)
class Exposing(Call):
    """The same as `call`, but the arrays x of `ranks` (default: all) are in the arena or in readable memory. When a
    call has failed, or ended, the program uses the memory again at once."""

    call: Call
    at: int = PRIVATE
    ranks: tuple[int, ...] = ()

    @property
    def together(self) -> bool:  # type: ignore[override]
        return self.call.together

    @property
    def is_message(self) -> bool:  # type: ignore[override]
        return self.call.is_message

    def run(self, rank: Rank, number: int) -> int:
        if self.ranks and rank.number not in self.ranks:
            return self.call.run(rank, number)
        return self.call.run(_entering_otherwise(self, rank), number)

    def enter(self, rank: Rank, routine: Callable[[int], int]) -> int:
        place, words = self.at + rank.number * BYTES, rank.job.words
        if atomics.peek(rank.ctx + c.READABLE) == NO:  # else the rank finds out
            atomics.poke(rank.ctx + c.READABLE, YES)
        write(place, read(rank.x, words))
        for view in (c.X, c.OUT):
            if atomics.peek(rank.written + view + c.DATA) == rank.x:
                rank.set(view + c.DATA, place)
        status = rank.enter(routine)
        if rank.job.settings[c.READABLE] == NO:
            atomics.poke(rank.ctx + c.READABLE, NO)
        for i, word in enumerate(read(place, words)):
            atomics.poke(rank.x + i * WORD, word)
        if status == c.INTERRUPTED:
            rank.events.leave()  # the group ends before the program gets the exception
        if status != c.HALFWAY:
            write(place, (-1,) * words)
        return status

    def check(self, rank: Rank, number: int) -> None:
        self.call.check(rank, number)


@cache
def _entering_otherwise(call: Exposing, rank: Rank) -> Rank:
    """The same rank, whose routines are entered by `call`. One for all runs: it belongs to the local state."""
    other = copy.copy(rank)
    other.enter = partial(call.enter, rank)  # type: ignore[method-assign]
    return other
