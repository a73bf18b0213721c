"""Loops of nki.language whose bounds are known at run time, and the registers of nki.isa."""

import numpy as np
import pytest

import shmcoll
from shmcoll.nki import collectives as ncc
from shmcoll.nki import isa
from shmcoll.nki import language as nl
from shmcoll.nki.isa import VirtualRegister


def register(value) -> VirtualRegister:
    return isa.register_alloc(value)


def seen(lower, upper, step=1) -> list:
    found: list = []
    nl.fori_loop(lower, upper, found.append, step=step)
    return found


def test_fori_loop_is_a_range():
    for bounds in ((0, 4), (2, 7, 3), (3, 3), (4, 1), (np.int32(1), np.uint32(3)), (-2, 1, np.int64(2))):
        assert seen(*bounds) == list(range(*map(int, bounds)))
    assert [type(i) for i in seen(0, 2)] == [int, int]


def test_a_bound_in_a_register_makes_the_number_one():
    """By value: what the body writes into it, and into the bound, has no effect."""
    end, found = register(3), []

    def body(i):
        found.append((int(i), [7, 8, 9][i], np.arange(10)[i * 2], list("abc")[i:]))
        isa.register_move(i, 100)
        isa.register_move(end, 0)

    nl.fori_loop(0, end, body)
    assert found == [(0, 7, 0, ["a", "b", "c"]), (1, 8, 2, ["b", "c"]), (2, 9, 4, ["c"])]
    assert [int(i) for i in seen(register(1), 3)] == [1, 2]


def test_while_loop_goes_on_until_zero():
    conditions = []

    def body(condition):
        conditions.append(int(condition))
        isa.register_move(condition, int(condition) - 1)
        return condition

    nl.while_loop(register(3), body)
    nl.while_loop(register(0), body)
    nl.while_loop(np.int32(2), lambda condition: conditions.append(-condition) or np.bool_(False))
    assert conditions == [3, 2, 1, -2]
    halves = []
    nl.while_loop(register(np.array([0.5], np.float32)), lambda half: (halves.append(float(half)), 0)[1])
    assert halves == [0.5]


def test_dynamic_range():
    assert list(nl.dynamic_range(register(3))) == [0, 1, 2]
    assert list(nl.dynamic_range(1, register(6), 2)) == [1, 3, 5]


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint32, np.bool_, np.float32, nl.bfloat16, nl.float8_e4m3])
def test_a_register_keeps_a_number(dtype):
    stored, held = np.zeros((1, 1), dtype), isa.register_alloc()
    isa.register_load(held, np.array([1], dtype))
    isa.register_store(stored, held)
    assert stored == 1 and held == 1 and held + 1 == 2 and bool(held)
    assert repr(held) == ("<VirtualRegister 1.0>" if np.dtype(dtype).kind in "fV" else "<VirtualRegister 1>")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda r: nl.fori_loop(0.0, 1, print), "TypeError: fori_loop: lower must be an integer or a register (see"),
        (lambda r: nl.fori_loop(0, True, print), "TypeError: fori_loop: upper must be an integer or a register (see"),
        (
            lambda r: nl.fori_loop(0, register(np.ones(1, np.float32)), print),
            "TypeError: fori_loop: upper must be an integer or a register (see nki.isa.register_load), got "
            "VirtualRegister that holds a float",
        ),
        (lambda r: nl.fori_loop(0, 2**32, print), "ValueError: fori_loop: upper must fit 32 bits, got 4294967296"),
        (
            lambda r: nl.fori_loop(0, 2, print, step=r),
            "TypeError: fori_loop: step must be an integer that is no register, got VirtualRegister",
        ),
        (lambda r: nl.fori_loop(0, 2, print, 0), "ValueError: fori_loop: step must be positive, got 0"),
        (lambda r: nl.fori_loop(0, 2, [print]), "TypeError: fori_loop: body_fun must be a function, got list"),
        (lambda r: nl.fori_loop(0, isa.register_alloc(), print), "RuntimeError: a register is read before it has a"),
        (lambda r: nl.dynamic_range("3"), "TypeError: dynamic_range: stop must be an integer or a register (see"),
        (lambda r: nl.dynamic_range(0, 3, -1), "ValueError: dynamic_range: step must be positive, got -1"),
        (
            lambda r: nl.while_loop(np.ones(1), print),
            "TypeError: while_loop: init must be a register or an integer (see nki.isa.register_load), got ndarray",
        ),
        (lambda r: nl.while_loop(r, None), "TypeError: while_loop: body_fun must be a function, got NoneType"),
        (
            lambda r: nl.while_loop(r, lambda condition: None),
            "TypeError: while_loop: body_fun must return the next condition, a register or an integer, got NoneType",
        ),
        (lambda r: isa.register_load(3, np.ones(1, int)), "TypeError: register_load: dst must be a register (see nki."),
        (lambda r: isa.register_load(r, 3), "TypeError: register_load: src must be a numpy array of one element, got "),
        (lambda r: isa.register_load(r, np.ones(2)), "ValueError: register_load: src must have exactly one element, "),
        (
            lambda r: isa.register_load(r, np.ones(1, int)),
            "TypeError: register_load: src must have numbers of at most 32 bits, got dtype int64; convert it, as in x",
        ),
        (lambda r: isa.register_move(r, 1.5), "TypeError: register_move: src must be an integer or a register (see"),
        (lambda r: isa.register_move(r, -(2**31) - 1), "ValueError: register_move: src must fit 32 bits, got -2147483"),
        (lambda r: isa.register_alloc("3"), "TypeError: register_alloc: x must be an integer or a register (see nki."),
        (
            lambda r: isa.register_store(np.zeros(1, np.int8), 300),
            "ValueError: register_store: 300 does not fit dst of",
        ),
        (lambda r: isa.register_store(np.zeros(2), r), "ValueError: register_store: dst must have exactly one element"),
        (lambda r: isa.register_store(np.broadcast_to(0, 1), r), "ValueError: register_store: dst is read-only; pass "),
    ],
)
def test_refusals(told, call, text):
    assert told(lambda: call(register(1))).startswith(text)


def test_an_error_of_a_body_is_the_programs(ranks):
    """And of the other ranks, which wait in the collective of their body."""

    def run(comm) -> None:
        x, group = np.ones(2), ncc.ReplicaGroup([[0, 1]])

        def body(i):
            ncc.all_reduce([x], [x], group, nl.add)
            if i == 1 and comm.rank:
                raise KeyError("mine")

        nl.fori_loop(0, 3, body)

    one, other = ranks.outcomes(2, run)
    assert isinstance(other.error, KeyError)
    assert isinstance(one.error, shmcoll.RankFailed)
    assert str(one.error).startswith("all_reduce #3 on rank 0: rank 1 raised KeyError")


def test_ranks_that_do_not_agree_on_a_bound(ranks):
    """A rank that has left its loop makes another call: every rank hears of both. If it ends, the others hear that."""

    def run(comm, then) -> None:
        x, group = np.ones(2, np.float32), ncc.ReplicaGroup([[0, 1]])
        nl.fori_loop(0, register(2 + comm.rank), lambda i: ncc.all_reduce([x], [x], group, nl.add))
        if then:
            ncc.all_to_all([x], [x], group, 0)

    for outcome in ranks.outcomes(2, run, True):
        assert isinstance(outcome.error, shmcoll.CollectiveMismatch)
        assert "all_to_all" in str(outcome.error) and "all_reduce" in str(outcome.error)
    one, other = ranks.outcomes(2, run, False)
    assert one.error is None
    assert isinstance(other.error, shmcoll.RankFailed)
