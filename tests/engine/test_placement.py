"""Ranks that share a core come apart: which waits count, when a rank moves, and where to.

The decisions are tested on mailboxes in plain memory, with cores and a CPU time that the test sets.
"""

import ctypes
import os
import time
from collections.abc import Callable, Iterator

import pytest

from shmcoll.engine import atomics, layout
from shmcoll.engine import context as c
from shmcoll.engine.layout import CORE, WORD
from shmcoll.engine.protocol.placement import MANY, SHORT, come_apart, is_beside
from shmcoll.engine.protocol.wait import FEWEST_POLLS, USUAL_POLLS, comes_soon

RANKS = 4


class Machine:
    """`atomics.hooks`: real memory, and cores and a CPU time that the test sets. All cores below `cores` are usable."""

    def __init__(self, cores: int):
        self.cores, self.core, self.time = cores, 0, 10**15
        self.moves: list[int] = []
        self.yields = 0
        self.on_yield: Callable[[], None] = lambda: None
        self.words = (ctypes.c_int64 * c.CONTEXT_WORDS)()
        self.boxes = (ctypes.c_int64 * (RANKS * layout.mailbox_bytes(RANKS) // WORD))()
        self.ctx = ctypes.addressof(self.words)
        for word, value in (
            (c.RANK, 1),
            (c.SIZE, RANKS),
            (c.MAILBOXES, ctypes.addressof(self.boxes)),
            (c.STRIDE, layout.mailbox_bytes(RANKS)),
            (c.POLLS, USUAL_POLLS),
            (c.YIELDS, 4),
        ):
            self.words[word // WORD] = value

    def word(self, rank: int, offset: int) -> int:
        return ctypes.addressof(self.boxes) + rank * layout.mailbox_bytes(RANKS) + offset

    def publish(self, *cores: int | None) -> None:
        """Have each rank publish a core; None: it has published none."""
        for rank, core in enumerate(cores):
            atomics.poke(self.word(rank, CORE), 0 if core is None else core + 1)

    def published(self, rank: int) -> int:
        return atomics.peek(self.word(rank, CORE)) - 1

    def wait_beside(self, times: int, ns: int = SHORT) -> None:
        for _ in range(times):
            self.time += ns
            come_apart(self.ctx)

    def load(self, address: int) -> int:
        return atomics.peek(address)

    load_acquire = load

    def store(self, address: int, value: int) -> None:
        atomics.poke(address, value)

    def cpu_time(self) -> int:
        return self.time

    def yield_core(self) -> None:
        self.yields += 1
        self.on_yield()

    def current_core(self) -> int:
        return self.core

    def next_core(self, core: int) -> int:
        return (core + 1) % self.cores if self.cores else -1

    def move_to(self, core: int) -> None:
        assert self.published(1) == core, "peers must see where the rank goes before it is there"
        self.moves.append(core)
        self.core = core


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    machine = Machine(RANKS)
    monkeypatch.setattr(atomics, "hooks", machine)
    come_apart(machine.ctx)  # BESIDE_SINCE is long ago, so the first MANY waits only begin to count
    machine.wait_beside(MANY - 1)
    assert not machine.moves
    return machine


def test_many_waits_beside_a_peer_move_the_rank_once(machine: Machine) -> None:
    machine.publish(0, 0)
    machine.wait_beside(MANY - 1)
    assert machine.moves == []
    machine.wait_beside(1)
    assert machine.moves == [1]
    assert machine.published(1) == 1


def test_a_rank_that_computes_between_its_waits_stays(machine: Machine) -> None:
    machine.publish(0, 0)
    machine.wait_beside(10 * MANY, SHORT + 1)
    assert machine.moves == []
    machine.wait_beside(MANY)
    assert machine.moves == [1]


def test_a_rank_that_stacks_again_moves_again(machine: Machine) -> None:
    for _ in range(3):
        machine.core = 0
        machine.publish(0, 0)
        machine.wait_beside(MANY)
    assert machine.moves == [1, 1, 1]


def test_it_moves_to_the_next_core_without_a_member(machine: Machine) -> None:
    machine.core = 2
    machine.publish(3, 2, 0, None)
    machine.wait_beside(MANY)
    assert machine.moves == [1]


@pytest.mark.parametrize("cores", [0, 1, 3])
def test_it_stays_where_no_usable_core_is_free(machine: Machine, cores: int) -> None:
    machine.cores = cores
    machine.publish(0, 0, 1, 2)
    machine.wait_beside(MANY)
    assert machine.moves == []


def test_a_rank_is_beside_the_peers_on_its_core(machine: Machine) -> None:
    machine.core = 2
    machine.publish(2, None, 0, None)
    assert [bool(is_beside(machine.ctx, peer)) for peer in (0, 2, 3)] == [True, False, False]
    assert machine.published(1) == 2


def test_unknown_cores_are_not_the_same(machine: Machine) -> None:
    machine.core = -1
    assert not is_beside(machine.ctx, 0)


def test_a_waiter_beside_its_peer_polls_once_and_yields(machine: Machine) -> None:
    machine.publish(0, 0)
    word = machine.word(0, layout.PROGRESS)
    for wanted in (1, 2, 3):
        machine.on_yield = lambda wanted=wanted: atomics.poke(word, wanted)  # type: ignore[misc]
        assert comes_soon(machine.ctx, word, wanted, 0) == 1
        assert machine.yields == wanted
        assert machine.words[c.POLLS // WORD] == 1


def test_a_waiter_whose_peer_has_left_its_core_polls_again(machine: Machine) -> None:
    machine.words[c.POLLS // WORD] = 1
    machine.publish(3, 0)
    assert comes_soon(machine.ctx, machine.word(0, layout.PROGRESS), 1, 0) == 0
    assert machine.words[c.POLLS // WORD] == FEWEST_POLLS


def test_a_job_with_more_ranks_than_cores_publishes_nothing(machine: Machine) -> None:
    machine.words[c.POLLS // WORD] = 0
    machine.publish(0, None)
    assert comes_soon(machine.ctx, machine.word(0, layout.PROGRESS), 1, 0) == 0
    assert machine.words[c.POLLS // WORD] == 0
    assert machine.published(1) == -1


@pytest.fixture(params=["python", "compiled"])
def call(request: pytest.FixtureRequest, compiled: Callable[..., int]) -> Callable[..., int]:
    """Call an operation of `small_functions` as plain Python, and as machine code."""
    from tests.engine import small_functions

    return (lambda name, *words: getattr(small_functions, name)(*words)) if request.param == "python" else compiled


def test_cores_follow_one_another_in_a_circle(call: Callable[..., int]) -> None:
    usable = sorted(os.sched_getaffinity(0))
    assert [call("core_after", core) for core in usable] == [*usable[1:], usable[0]]
    assert call("core") in usable


def test_cpu_time_is_that_of_the_thread(call: Callable[..., int]) -> None:
    before = time.thread_time_ns()
    assert before <= call("computed") <= time.thread_time_ns()


def test_a_move_keeps_the_affinity(call: Callable[..., int]) -> None:
    usable = os.sched_getaffinity(0)
    for core in sorted(usable):
        call("moved", core)
        assert os.sched_getaffinity(0) == usable


def test_a_bound_thread_stays_bound(call: Callable[..., int]) -> None:
    usable = os.sched_getaffinity(0)
    core = max(usable)
    os.sched_setaffinity(0, {core})
    try:
        assert call("core_after", core) == core
        assert call("moved", core) == core
        call("moved", 1023)  # a core that does not exist
        assert os.sched_getaffinity(0) == {core}
        assert call("core") == core
    finally:
        os.sched_setaffinity(0, usable)
