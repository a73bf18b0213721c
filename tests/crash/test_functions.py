"""A user's function that raises in a reduction: the exception itself where it was called, its words everywhere."""

import numpy as np
import pytest

import shmcoll
from shmcoll.errors import RankFailed
from tests.support.dtypes import BY_NAME
from tests.support.frames import line_of
from tests.support.operators import compiled_for

pytestmark = pytest.mark.slow


def limited(a, b):
    if a > 1000 or b > 1000:
        raise ValueError("too large")
    return max(a, b)


def small(a, b):
    if a > 1000:
        raise ValueError(f"{a} and {b}")
    return b


def quotient(a, b):
    return a / b if b < 5 else a // (b - b)


LIMITED = shmcoll.op(limited, dtypes=[])
IN_ORDER = shmcoll.op(limited, commutative=False, dtypes=[])
SMALL = shmcoll.op(small, dtypes=[])
QUOTIENT = shmcoll.op(quotient, dtypes=[])

compiled = compiled_for(
    (LIMITED, "int32", "float16"), (IN_ORDER, "int32"), (SMALL, "float16", "bfloat16"), (QUOTIENT, "float64")
)


def collect(comm, dtype, count: int, where: int, op, algorithm, later: bool) -> tuple[str, str, str]:
    """Rank 1 has one element that is too large; what this rank is told, in that call and in the next."""
    comm.barrier()
    x = np.zeros(count, dtype)
    x[where] = 1001 * (comm.rank == 1)
    with pytest.raises((ValueError, RankFailed)) as told:
        got = comm.all_reduce(x, op, algorithm=algorithm, async_op=later)
        got.wait()
    with pytest.raises(RankFailed) as again:
        comm.all_reduce(np.zeros(3))
    return type(told.value).__name__, str(told.value), str(again.value)


@pytest.mark.parametrize("later", [False, True], ids=["", "async"])
@pytest.mark.parametrize(
    ("count", "where", "op", "algorithm"),
    [
        (3, 2, LIMITED, None),
        (5000, 4999, LIMITED, "flat"),
        (200_000, 0, LIMITED, "ring"),
        (200_000, 199_999, LIMITED, "ring"),
        (200_000, 123_456, LIMITED, "cells"),
        (200_000, 77_777, IN_ORDER, None),
    ],
)
def test_a_function_that_raises(ranks, count, where, op, algorithm, later):
    for n in (2, 3):
        told = ranks(n, collect, np.int32, count, where, op, algorithm, later)
        raised = [rank for rank, (name, _, _) in enumerate(told) if name == "ValueError"]
        place = line_of(collect, 6)
        what = f"function limited raised ValueError: too large in all_reduce #2 at {place}"
        words = [f"rank {r}: {what}" for r in raised]
        assert raised
        for rank, (_, text, again) in enumerate(told):
            if rank in raised:
                assert text == "too large"
            else:
                assert any(text == f"all_reduce #2 on rank {rank}: {w}" for w in words)
            assert any(again.endswith(w) for w in words)


def test_half_types(ranks):
    """Accumulated in float32, called with Python's floats."""
    told = ranks(2, collect, np.float16, 3, 1, LIMITED, None, False)
    assert "ValueError" in {name for name, _, _ in told}
    for name, text, _ in told:
        assert text == "too large" if name == "ValueError" else "function limited raised ValueError: too large" in text


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_the_operands_of_half_types(ranks, name):
    """The exception tells the values: with two ranks, neither of them has been widened in memory."""

    def tell(comm) -> str:
        with pytest.raises((ValueError, RankFailed)) as told:
            comm.all_reduce(np.array([1, 96 + 1024 * (comm.rank == 0), 2], BY_NAME[name].numpy), SMALL)
        return str(told.value)

    assert all("1120.0 and 96.0" in text for text in ranks(2, tell))


def test_the_exception_comes_from_the_function_in_python(ranks):
    """It is called again with Python's own numbers: its traceback leads into it."""

    def divide(comm) -> tuple[str, str]:
        with pytest.raises((ZeroDivisionError, RankFailed)) as told:
            comm.all_reduce(np.array([1.0, 5.0]), QUOTIENT)
        return type(told.value).__name__, told.traceback[-1].name

    told = ranks(2, divide)
    assert ("ZeroDivisionError", "quotient") in told


def test_the_operands_are_where_they_were_in_place(ranks):
    """FINISH into x: the element that raises has not been written."""

    def in_place(comm) -> str:
        x = np.full(3, 2000 + comm.rank, np.int32)
        with pytest.raises((ValueError, RankFailed)) as told:
            comm.all_reduce(x, LIMITED, out=x)
        return str(told.value)

    assert all("too large" in text for text in ranks(2, in_place))


@pytest.mark.parametrize("count", [1, 60, 20_000], ids=["few", "without room for sums", "many"])
def test_an_exscan_is_told_to_the_ranks_behind_alone(ranks, count):
    """A rank also adds its own element, for the ranks behind it. Few bytes: what that raises is theirs."""

    def run(comm) -> str:
        x = np.full(count, (1.0, 2.0, 5.0, 2.0)[comm.rank])
        try:
            got = comm.exscan(x, QUOTIENT)
        except (ZeroDivisionError, RankFailed) as error:
            return type(error).__name__
        return "" if got is None else str(set(got.tolist()))

    told = ranks(4, run)
    if count < 1000:
        assert told == ["", "{1.0}", "{0.5}", "ZeroDivisionError"]
    else:
        assert "ZeroDivisionError" in told
