"""Reductions of objects and all_to_all_object on real ranks: every kind of object, operators that do not commute, that
change what they get, and that raise."""

import operator
from functools import reduce
from itertools import accumulate

import numpy as np
import pytest

from shmcoll.errors import OperatorFailed
from tests.support.drawn_objects import drawn, same
from tests.support.patience import PATIENCE
from tests.support.suite import judge, run_cases


def case(seed: int, n: int, operation: str):
    """`operator.add` of lists tells the order, so nothing else needs to be compared."""

    def check(comm) -> str:
        rng = np.random.default_rng(seed)
        rows = [[drawn(rng) for _ in range(n)] for _ in range(n)]
        root, later, rank = int(rng.integers(n)), bool(rng.random() < 0.2), comm.rank
        mine, keywords = rows[rank], {"async_op": later}
        if operation == "all_to_all_object":
            wanted = [row[rank] for row in rows]
        elif operation == "all_reduce_object":
            wanted = reduce(operator.add, rows)
        elif operation == "reduce_object":
            keywords["root"] = root
            wanted = reduce(operator.add, rows) if rank == root else None
        elif operation == "scan_object":
            wanted = list(accumulate(rows))[rank]
        else:
            wanted = [None, *accumulate(rows)][rank]
        got = getattr(comm, operation)(mine, **keywords)
        got = got.wait() if later else got
        return "" if same(got, wanted) else f"got {got!r:.200}, wanted {wanted!r:.200}"

    return f"{operation} {n=} {seed=}", check


OPERATIONS = ("all_to_all_object", "reduce_object", "all_reduce_object", "scan_object", "exscan_object")


def run(comm, seed: int, factor: int):
    rng = np.random.default_rng(seed)
    cases = [case(int(rng.integers(1 << 32)), comm.size, op) for _ in range(6 * factor) for op in OPERATIONS]
    return run_cases(comm, cases)


def test_what_is_drawn(ranks, n, seed, factor):
    judge(ranks(n, run, seed, factor, deadline=PATIENCE * factor), at_least=30)


def extended(left, right):
    left += right
    return left


def operators(comm) -> list:
    """The operator may change its first argument: what the user has given stays, and so does every other result."""
    given = np.full(3_000, comm.rank)
    whole = comm.all_reduce_object(given, extended)
    prefix, before = comm.scan_object(given, extended), comm.exscan_object(given, extended)
    prefix[1:] += 1
    comm.barrier()
    calls = iter(range(99))
    bits = comm.all_reduce_object(0, lambda left, right: (left, next(calls), id(comm)))
    return [
        [int(given[0]), int(whole[0]), int(prefix[0]), None if before is None else int(before[0])],
        comm.all_reduce_object(str(comm.rank), max),
        comm.reduce_object(str(comm.rank), lambda left, right: f"({left}-{right})", 1),
        bits,
    ]


def test_operators(ranks):
    results = ranks(3, operators)
    assert [row[0] for row in results] == [[0, 3, 0, None], [1, 3, 1, 0], [2, 3, 3, 1]]
    assert [row[1] for row in results] == ["2"] * 3
    assert [row[2] for row in results] == [None, "((0-1)-2)", None]
    assert results[0][3] == results[1][3] == results[2][3]  # whatever it returns, all ranks get the same


def failing(comm) -> list:
    """What is raised, and on which rank there is a cause; afterwards the group goes on."""
    told = []
    for call in (
        lambda: comm.all_reduce_object(comm.rank, lambda left, right: left // 0),
        lambda: comm.reduce_object({}, root=1),
        lambda: comm.scan_object(comm.rank, lambda left, right: [].pop()),
        lambda: comm.exscan_object("a", lambda left, right: print),
        lambda: comm.exscan_object("a", lambda left, right: lambda: 0),
        lambda: comm.all_reduce_object("a", lambda left, right: lambda: 0, async_op=True).wait(),
    ):
        try:
            told.append(call())
        except OperatorFailed as error:
            told.append((str(error), type(error.__cause__).__name__))
    return [*told, comm.all_reduce_object(1)]


def test_numbers_by_pythons_own_operators(ranks) -> None:
    """All ranks compute these, with the operator of the rank that would."""

    def check(comm):
        mine = [comm.rank + 1, 2.5 * comm.rank, comm.rank == 1, 1 << 40 * comm.rank, complex(comm.rank, 1)]
        found = [comm.all_reduce_object(one) for one in mine]
        found += [comm.all_reduce_object(one, op) for one in mine[:2] for op in (max, min, operator.mul)]
        first, last = (operator.add if comm.rank == root else (lambda *_: "another") for root in (0, comm.size - 1))
        found += [comm.all_reduce_object(1, first), comm.all_reduce_object(1, last)]
        found += [comm.reduce_object(1, first, root=0), comm.reduce_object(1, last, root=comm.size - 1)]
        for first in (1.5, "text", [], None):  # which operator.add does not take: too large, or of another type
            with pytest.raises(OperatorFailed):
                comm.all_reduce_object(first if comm.rank == 0 else 10**400)
        return found

    n = 3
    mine = [[r + 1, 2.5 * r, r == 1, 1 << 40 * r, complex(r, 1)] for r in range(n)]
    alike = [reduce(operator.add, one) for one in zip(*mine, strict=True)]
    alike += [reduce(op, one) for one in list(zip(*mine, strict=True))[:2] for op in (max, min, operator.mul)]
    alike += [n, "another"]
    told = ranks(n, check)
    assert [one[:-2] for one in told] == [alike] * n
    assert [one[-2:] for one in told] == [[n, None], [None, None], [None, n]]


def test_what_the_operator_raises_is_raised_on_every_rank(ranks):
    results = ranks(3, failing)
    for rank, told in enumerate(results):
        for i, (call, at, cause, text) in enumerate(
            [
                ("all_reduce_object", 0, "ZeroDivisionError", "ZeroDivisionError: integer division or modulo by zero"),
                (
                    "reduce_object",
                    1,
                    "TypeError",
                    "TypeError: unsupported operand type(s) for +: 'dict' and 'dict'; "
                    "pass op, a function of two objects",
                ),
                ("scan_object", 0, "IndexError", "IndexError: pop from empty list"),
            ]
        ):
            where = f"{call} on rank {rank}: the objects could not be combined on rank {at}, which raised {text}"
            assert told[i] == (where, cause if rank == at else "NoneType")
        assert told[3] == [None, "a", print][rank]
        for i, call in ((4, "exscan_object"), (5, "all_reduce_object")):
            assert told[i][0].startswith(f"{call} on rank {rank}: the objects could not be combined on rank 0, which")
            assert "pickle" in told[i][0]
        assert told[-1] == 3


def interrupted(comm) -> str:
    def stop(left, right):
        raise KeyboardInterrupt

    try:
        comm.all_reduce_object(1, stop)
    except BaseException as error:
        return type(error).__name__
    return "nothing"


def test_an_interrupt_of_the_operator_ends_the_group(ranks):
    assert ranks(2, interrupted) == ["KeyboardInterrupt", "RankFailed"]


def refused(comm) -> list[str]:
    told = []
    for call in (
        lambda: comm.all_reduce_object(1, "sum"),
        lambda: comm.reduce_object(1, root=2),
        lambda: comm.scan_object(lambda: 0),
        lambda: comm.all_to_all_object([1]),
        lambda: comm.all_to_all_object({1, 2}),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            call()
        told.append(f"{type(caught.value).__name__}: {caught.value}")
    comm.barrier()
    return told


def test_bad_arguments_are_refused_before_a_byte_moves(ranks):
    told = ranks(2, refused)[1]
    assert told[2].startswith("TypeError: scan_object on rank 1: a function cannot be pickled: ")
    assert told[:2] + told[3:] == [
        "TypeError: all_reduce_object on rank 1: op must be a function of two objects, such as operator.add or max, "
        "got 'sum'; did you mean op=operator.add?",
        "ValueError: reduce_object on rank 1: root 2 is not a rank of this group of 2; use 0 to 1",
        "ValueError: all_to_all_object on rank 1: 1 objects for 2 ranks",
        "TypeError: all_to_all_object on rank 1: this rank gives a sequence of 2 objects, got {1, 2}",
    ]
