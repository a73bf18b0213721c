"""The explorer itself, on programs whose outcomes are known: the litmus tests of the memory models."""

import ctypes
import importlib
from collections.abc import Callable

import pytest

from shmcoll.engine.atomics import fence, load, ring, sleep_on, store
from tests.schedule.explorer.machine import Machine
from tests.schedule.explorer.program import AWAIT, Program, Violation, perform
from tests.schedule.explorer.search import Report, exhaust, sample
from tests.schedule.explorer.stand_ins import SHARED
from tests.schedule.test_mutants import ALL

X, Y, BELL = SHARED, SHARED + 8, SHARED + 16


def machine(*bodies: Callable[[], int], **options: int) -> Machine:
    programs = [Program(body, (ctypes.c_int64 * 1)(), lambda: (0, 0)) for body in bodies]

    def no_launcher(_rank: int) -> Program:
        return Program(lambda: 0, (ctypes.c_int64 * 1)(), lambda: (0, 0))

    bells = dict.fromkeys([BELL], 0)
    return Machine(programs, no_launcher, {}, bells, lambda _status, _killed: True, str, **options)


def outcomes(*bodies: Callable[[], int], **options: int) -> set[tuple[int, ...]]:
    return set(exhaust(machine(*bodies, **options)).outcomes)


def store_x_load_y() -> int:
    store(X, 1)
    return load(Y)


def store_y_load_x() -> int:
    store(Y, 1)
    return load(X)


def test_store_buffering() -> None:
    """Both ranks may miss the other's store only where stores are delayed."""
    in_order = {(0, 1), (1, 0), (1, 1)}
    assert outcomes(store_x_load_y, store_y_load_x) == in_order
    assert outcomes(store_x_load_y, store_y_load_x, buffered=True) == in_order | {(0, 0)}


def test_a_fence_forbids_store_buffering() -> None:
    def fenced() -> int:
        store(Y, 1)
        fence()
        return load(X)

    def also_fenced() -> int:
        store(X, 1)
        fence()
        return load(Y)

    assert (0, 0) not in outcomes(also_fenced, fenced, buffered=True)
    assert (0, 0) in outcomes(store_x_load_y, fenced, buffered=True)


@pytest.mark.parametrize("buffered", [False, True])
def test_message_passing(buffered: bool) -> None:
    """Who sees the second store sees the first: stores keep their order on x86."""

    def sends() -> int:
        store(X, 1)
        store(Y, 1)
        return 0

    def receives() -> int:
        flag = load(Y)
        return flag * 10 + load(X)

    assert outcomes(sends, receives, buffered=buffered) == {(0, 0), (0, 1), (0, 11)}


def test_a_rank_sees_its_own_stores() -> None:
    def writes_twice() -> int:
        store(X, 1)
        store(X, 2)
        return load(X)

    either = {(2, 2), (1, 2), (2, 1)}
    assert outcomes(writes_twice, writes_twice) == either
    assert outcomes(writes_twice, writes_twice, buffered=True) == either


def test_values_that_lie_on_the_interpreters_stack_count() -> None:
    """Two loads in one expression: the first result is nowhere but on the stack while the second is awaited."""

    def writes() -> int:
        store(X, 1)
        store(X, 2)
        return 0

    def reads() -> int:
        return load(X) * 10 + load(X)

    assert outcomes(writes, reads) == {(0, n) for n in (0, 1, 2, 11, 12, 22)}


def test_loops_that_poll_have_finitely_many_states() -> None:
    def polls() -> int:
        while load(X) == 0:
            pass
        return load(Y)

    def posts() -> int:
        store(Y, 7)
        store(X, 1)
        return 0

    assert outcomes(polls, posts) == {(7, 0)}


def test_all_orders_of_independent_writers() -> None:
    """Three ranks that each read both words and write one: the count of outcomes equals that of plain enumeration."""

    def writer(address: int) -> Callable[[], int]:
        def body() -> int:
            seen = load(X) * 10 + load(Y)
            store(address, seen + 1)
            return seen

        return body

    def interleavings(left: tuple[int, ...]) -> list[list[int]]:
        if not any(left):
            return [[]]
        found = []
        for actor, steps in enumerate(left):
            if steps:
                rest = tuple(n - (a == actor) for a, n in enumerate(left))
                found += [[actor, *order] for order in interleavings(rest)]
        return found

    targets = ("X", "Y", "X")
    expected = set()
    for order in interleavings((3, 3, 3)):
        memory, seen, steps = {"X": 0, "Y": 0}, [0, 0, 0], [0, 0, 0]
        for actor in order:
            if steps[actor] == 0:
                seen[actor] = memory["X"] * 10
            elif steps[actor] == 1:
                seen[actor] += memory["Y"]
            else:
                memory[targets[actor]] = seen[actor] + 1
            steps[actor] += 1
        expected.add(tuple(seen))
    assert outcomes(writer(X), writer(Y), writer(X)) == expected


def test_a_bell_that_nobody_rings_is_a_deadlock() -> None:
    def sleeps() -> int:
        sleep_on(BELL, 1)
        return 0

    def rings() -> int:
        ring(BELL)
        return 0

    assert outcomes(sleeps, rings) == {(0, 0)}
    with pytest.raises(Violation, match=r"deadlock: rank [12] cannot go on"):
        exhaust(machine(rings, sleeps, sleeps))


def test_who_awaits_a_word_goes_on_when_it_is_as_much() -> None:
    def awaits(wanted: int) -> Callable[[], int]:
        def body() -> int:
            found = perform(AWAIT, X, (wanted, 2))
            return -1 if found is None else found[1]

        return body

    def writes() -> int:
        store(Y, 7)
        store(X, 1)
        store(Y, 8)
        return 0

    assert outcomes(awaits(1), writes) == {(7, 0), (8, 0)}
    assert outcomes(awaits(2), writes, slices=1) == {(-1, 0)}
    with pytest.raises(Violation, match="deadlock: rank 0 cannot go on"):
        exhaust(machine(awaits(2), writes))


def test_a_counterexample_tells_the_schedule() -> None:
    def sleeps_when_it_sees_the_store() -> int:
        if load(X):
            sleep_on(BELL, 1)
        return 0

    with pytest.raises(Violation) as caught:
        exhaust(machine(sleeps_when_it_sees_the_store, store_x_load_y))
    assert f"  rank 1: write {X} (1,)\n  rank 0: read {X} 1" in str(caught.value)


def test_a_kill_drops_what_has_not_arrived() -> None:
    def writes() -> int:
        store(X, 1)
        store(Y, 1)
        return 0

    def reads() -> int:
        flag = load(Y)
        return flag * 10 + load(X)

    found = outcomes(writes, reads, buffered=True, kills=True)
    killed = {seen for who, seen in found if who == "killed"}
    assert killed == {0, 1, 11}


def test_samples_repeat_with_their_seed() -> None:
    def reports(seed: int) -> list[Report]:
        return [sample(machine(store_x_load_y, store_y_load_x, buffered=True), seed, 50) for _ in range(2)]

    first, again = reports(7)
    assert first == again
    assert first.outcomes == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_each_seeded_bug_can_be_planted():
    """Its line is in the sources, once, also where routines over nodes have functions of the same name. Whether the
    explorer finds the bugs is shown by `test_mutants.py`."""
    importlib.import_module("shmcoll.nodes.algorithms.collectives")
    for mutant in ALL.values():
        with mutant.planted():
            pass
