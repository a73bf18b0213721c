"""A rank with two threads: one waits for a message, the other makes a call.

The other thread is an actor of its own as long as both run at once: it takes a place in the line, by the very code of
`runtime/turns.py`, and rings. All else happens under the GIL, one thread after the other. So the rank itself goes on as
both threads would: when its receive gives way, it makes the other thread's call, opens the entry, and waits again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shmcoll.engine import atomics, layout
from shmcoll.engine import context as c
from shmcoll.engine.collective import ANY_SOURCE
from shmcoll.engine.messages.recv import FETCH
from shmcoll.runtime.turns import Ticket, Turns
from tests.schedule.explorer.calls import _expected
from tests.schedule.explorer.calls_of_messages import Receive
from tests.schedule.explorer.events import NUMBER
from tests.schedule.explorer.job import Rank
from tests.schedule.explorer.stand_ins import OWNERS, WORD


@dataclass(frozen=True)
class ReceiveBeside(Receive):
    """`beside`: the call of the other thread, which begins at any time."""

    beside: Any = None

    is_threaded = True

    def run(self, rank: Rank, number: int) -> int:
        self._prepare(rank)
        status = self._enter(rank, FETCH, self.source)
        if status != c.GIVES_WAY:
            status = self._told(rank, status, number)
            return status if status != c.OK else self.beside.run(rank.aside, NUMBER)
        status = self.beside.run(rank.aside, NUMBER)
        atomics.store(OWNERS + rank.number * WORD, 0)
        return status if status != c.OK else super().run(rank, number)

    def other_thread(self, rank: Rank) -> Callable[[], int]:
        """Return what the other thread does until it is in the line."""
        bell, words, place = rank.job.mailbox(rank.number) + layout.SEMAPHORE, _Words(rank.number), Ticket(0, work=())
        turns = Turns(words, "rank", lambda: atomics.ring(bell), lambda: None, lambda: False)  # type: ignore[arg-type]
        place.lock.acquire()

        def body() -> int:
            turns.book(place)
            return c.OK

        return body


@dataclass(frozen=True)
class GiveWay(ReceiveBeside):
    """Nobody sends anything, and the receive ends when it gives way."""

    def run(self, rank: Rank, number: int) -> int:
        self._prepare(rank)
        return _expected(c.GIVES_WAY, self._enter(rank, FETCH, self.source))


class _Words:
    """The words of the context that another thread looks at, while its rank is in a receive."""

    def __init__(self, rank: int):
        self._owner = OWNERS + rank * WORD

    def item(self, word: int) -> int:
        if word * WORD == c.OWNER:
            return atomics.load(self._owner)
        return {c.KIND: ANY_SOURCE, c.ACTIVE: 1}[word * WORD]

    def __setitem__(self, word: int, value: int) -> None:
        assert word * WORD == c.OWNER
        atomics.store(self._owner, value)
