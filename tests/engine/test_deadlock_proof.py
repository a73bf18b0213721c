"""`is_deadlocked` on mailboxes in plain memory, which change at the worst moments between its loads."""

import ctypes
from collections.abc import Callable

import pytest

from shmcoll.engine import atomics, layout
from shmcoll.engine import context as c
from shmcoll.engine.layout import RECEIVES, RECEIVES_FLAG, RECEIVES_FROM, RECEIVES_VALUE, WORD
from shmcoll.engine.protocol.deadlock import begin_receive, end_receive, is_deadlocked

RANKS = 3
STRIDE = layout.mailbox_bytes(RANKS)
FLAGS = RANKS * STRIDE  # one word for each rank, behind the mailboxes


class Ring:
    """Three ranks, each asleep in a receive from the next one."""

    def __init__(self) -> None:
        self.arena = (ctypes.c_int64 * (FLAGS // WORD + RANKS))()
        self.scratch = (ctypes.c_int64 * RANKS)()
        self.base = ctypes.addressof(self.arena)
        self.contexts = [(ctypes.c_int64 * c.CONTEXT_WORDS)() for _ in range(RANKS)]
        for rank in range(RANKS):
            for word, value in (
                (c.RANK, rank),
                (c.SIZE, RANKS),
                (c.ARENA, self.base),
                (c.ARENA_BYTES, ctypes.sizeof(self.arena)),
                (c.MAILBOXES, self.base),
                (c.STRIDE, STRIDE),
                (c.SCRATCH, ctypes.addressof(self.scratch)),
            ):
                self.contexts[rank][word // WORD] = value
            self.sleep(rank, (rank + 1) % RANKS)

    def context(self, rank: int) -> int:
        return ctypes.addressof(self.contexts[rank])

    def flag(self, rank: int) -> int:
        return self.base + FLAGS + rank * WORD

    def sleep(self, rank: int, source: int) -> None:
        begin_receive(self.context(rank), self.flag(rank), 1, source)

    def set(self, rank: int, word: int, value: int) -> None:
        atomics.store(self.base + rank * STRIDE + word, value)


class Watch:
    """`atomics.hooks`: real memory; before load number `when` something happens."""

    def __init__(self, when: int, happens: Callable[[], None]):
        self.loads, self._when, self._happens = 0, when, happens

    def load(self, address: int) -> int:
        self.loads += 1
        if self.loads == self._when:
            self._happens()
        return atomics.peek(address)

    load_acquire = load

    def store(self, address: int, value: int) -> None:
        atomics.poke(address, value)

    store_release = store


def looks(ring: Ring, monkeypatch: pytest.MonkeyPatch, when: int, happens: Callable[[], None]) -> tuple[int, int]:
    """What rank 0 finds, and how many loads that took."""
    watch = Watch(when, happens)
    monkeypatch.setattr(atomics, "hooks", watch)
    found = is_deadlocked(ring.context(0))
    monkeypatch.undo()
    return found, watch.loads


def test_every_rank_finds_the_circle() -> None:
    ring = Ring()
    assert [is_deadlocked(ring.context(rank)) for rank in range(RANKS)] == [1] * RANKS


def test_who_is_not_in_the_circle_finds_none() -> None:
    ring = Ring()
    ring.set(1, RECEIVES_FROM, 2)
    ring.set(2, RECEIVES_FROM, 1)
    assert [is_deadlocked(ring.context(rank)) for rank in range(RANKS)] == [0, 1, 1]


@pytest.mark.parametrize("rank", range(RANKS))
def test_one_message_or_one_rank_awake_is_enough(rank: int) -> None:
    ring = Ring()
    atomics.store(ring.flag(rank), 1)
    assert not is_deadlocked(ring.context(0))
    atomics.store(ring.flag(rank), 0)
    end_receive(ring.context(rank))
    assert not is_deadlocked(ring.context(0))


@pytest.mark.parametrize("word", [RECEIVES_FROM, RECEIVES_FLAG])
@pytest.mark.parametrize("value", [-8, -1, 5, 12, 1 << 40, 1 << 60, (1 << 63) - 8])
def test_words_that_make_no_sense_lead_nowhere(word: int, value: int) -> None:
    ring = Ring()
    ring.set(1, word, value)
    assert not is_deadlocked(ring.context(0))


def test_a_sleep_that_ends_before_the_second_round_is_over_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever load it precedes: rank 1 wakes and sleeps again, for a piece that has not come either."""
    found, loads = looks(Ring(), monkeypatch, 0, lambda: None)
    each = loads // (2 * RANKS)
    assert found and loads == 2 * RANKS * each
    first, last = each + 1, 5 * each  # loads for rank 1, in the first round and in the second one
    for when in range(1, loads + 1):
        ring = Ring()

        def again(ring: Ring = ring) -> None:
            end_receive(ring.context(1))
            ring.sleep(1, 2)

        found, _ = looks(ring, monkeypatch, when, again)
        assert bool(found) == (when <= first or when > last), f"before load {when}"


def test_a_message_that_comes_before_the_second_look_at_its_flag_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    _, loads = looks(Ring(), monkeypatch, 0, lambda: None)
    for when in range(1, loads + 1):
        ring = Ring()
        found, _ = looks(ring, monkeypatch, when, lambda ring=ring: atomics.poke(ring.flag(2), 1))
        assert bool(found) == (when >= loads), f"before load {when}"


def test_each_sleep_has_a_number_of_its_own() -> None:
    ring = Ring()
    box = ring.base + STRIDE
    numbers = []
    for _ in range(3):
        numbers.append(atomics.load(box + RECEIVES))
        end_receive(ring.context(1))
        numbers.append(atomics.load(box + RECEIVES))
        ring.sleep(1, 2)
    assert numbers == [1, 2, 3, 4, 5, 6]
    assert atomics.load(box + RECEIVES_VALUE) == 1
