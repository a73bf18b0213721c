"""How long a waiter polls: it learns from waits that end while it polls, soon after, or late.

The waits are those of the routines, on words in plain memory, with a clock that the test sets. A poll takes 25 ns.
"""

import ctypes
from collections.abc import Iterator

import pytest

from shmcoll.engine import atomics, layout
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol.wait import FEWEST_POLLS, MOST_POLLS, SHORT_SLEEP, USUAL_POLLS, wait

POLL, WAKING = 25, 40_000  # ns


class Waiter:
    """`atomics.hooks` of rank 1, whose peer stores the word a given time after the wait has begun."""

    def __init__(self) -> None:
        self.memory = (ctypes.c_int64 * 4096)()
        self.words = (ctypes.c_int64 * c.CONTEXT_WORDS)()
        self.ctx, base = ctypes.addressof(self.words), ctypes.addressof(self.memory)
        self.word = base + layout.PROGRESS
        ranks = base + 2048 * WORD
        atomics.poke(ranks + WORD, 1)
        for word, value in (
            (c.RANK, 1),
            (c.SIZE, 2),
            (c.MAILBOXES, base),
            (c.STRIDE, layout.mailbox_bytes(2)),
            (c.GROUP, base + 2500 * WORD),
            (c.RANKS, ranks),
            (c.RECORDS, base + 3000 * WORD),
            (c.RECORDS_LAUNCHER, base + 3000 * WORD + 2 * layout.RECORD_BYTES),
            (c.POLLS, USUAL_POLLS),
            (c.SLEEP, 20_000_000),
            (c.TIMEOUT, 10**12),
        ):
            self.words[word // WORD] = value
        self.time = self.comes = 0
        self.sleeps = 0

    @property
    def polls(self) -> int:
        return self.words[c.POLLS // WORD]

    def wait(self, takes: int, times: int = 1) -> None:
        """Wait for a word that comes after `takes` ns."""
        for _ in range(times):
            atomics.poke(self.word, 0)
            self.comes = self.time + takes
            assert wait(self.ctx, self.word, 1, 0) == c.OK

    def load(self, address: int) -> int:
        return atomics.peek(address)

    def load_acquire(self, address: int) -> int:
        if address == self.word:
            self.time += POLL
            return int(self.time >= self.comes)
        return atomics.peek(address)

    def store(self, address: int, value: int) -> None:
        atomics.poke(address, value)

    def fence(self) -> None:
        pass

    def clock(self) -> int:
        return self.time

    cpu_time = clock

    def signals_pending(self, ctx: int) -> int:
        return 0

    def process_gone(self, pid: int) -> int:
        return 0

    def current_core(self) -> int:
        return 1

    def sleep_on(self, semaphore: int, ns: int) -> None:
        self.sleeps += 1
        self.time = max(self.time, min(self.comes, self.time + ns)) + WAKING


@pytest.fixture
def waiter(monkeypatch: pytest.MonkeyPatch) -> Iterator[Waiter]:
    waiter = Waiter()
    monkeypatch.setattr(atomics, "hooks", waiter)
    return waiter


def test_long_waits_are_slept(waiter: Waiter) -> None:
    waiter.wait(10 * SHORT_SLEEP, times=20)
    assert waiter.polls == FEWEST_POLLS
    assert waiter.sleeps == 20


def test_a_waiter_that_polls_too_briefly_learns_to_poll_longer(waiter: Waiter) -> None:
    waiter.wait(10 * SHORT_SLEEP, times=20)
    waiter.wait(60_000, times=20)
    assert waiter.polls >= 60_000 // POLL
    slept = waiter.sleeps
    waiter.wait(60_000, times=20)
    assert waiter.sleeps == slept


def test_a_wait_for_the_reader_of_a_long_array_is_polled(waiter: Waiter) -> None:
    """Twice as long as a waiter usually polls."""
    waiter.wait(2 * USUAL_POLLS * POLL, times=20)
    slept = waiter.sleeps
    waiter.wait(2 * USUAL_POLLS * POLL, times=20)
    assert waiter.sleeps == slept
    waiter.wait(10 * SHORT_SLEEP, times=2)
    waiter.wait(100, times=20)
    assert waiter.polls == USUAL_POLLS, "without sleeps, the budget grows no longer than that"


def test_a_waiter_beside_its_peer_goes_on_yielding(waiter: Waiter) -> None:
    atomics.poke(ctypes.addressof(waiter.memory) + layout.CORE, 2)  # the core of rank 1
    waiter.wait(10 * SHORT_SLEEP)  # the waiter looks where its peer is
    waiter.wait(60_000, times=20)
    assert waiter.polls == 1


def test_it_never_polls_longer_than_the_most(waiter: Waiter) -> None:
    for takes in (100, MOST_POLLS * POLL, MOST_POLLS * POLL + SHORT_SLEEP // 2):
        waiter.wait(takes, times=20)
        assert waiter.polls <= MOST_POLLS


def test_where_ranks_outnumber_cores_nobody_polls(waiter: Waiter) -> None:
    waiter.words[c.POLLS // WORD] = 0
    for takes in (100, 60_000, 10**7):
        waiter.wait(takes, times=5)
    assert waiter.polls == 0
