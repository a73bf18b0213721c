"""Arguments that numpy would take, or that a user gives without a thought: refused in one clear line, or right."""

import math
import operator
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmcoll
from tests.support.calls import SHORT

X = np.ones((4, 6), np.float32)
MASKED = np.ma.masked_array(X, X > 0)
LOST = "is a masked array, and its mask would be lost; pass"

Call = Callable[[Any], Any]


def folded(*strides: int) -> np.ndarray:
    """An array like X in which elements share memory."""
    return np.lib.stride_tricks.as_strided(np.zeros(64, np.float32), X.shape, strides)


class Raising:
    def __array__(self, *_args: Any, **_keywords: Any) -> np.ndarray:
        raise ZeroDivisionError("in __array__")


#: on rank 1 of 2: the call, the error, and what its message must contain
WRONG: dict[str, tuple[Call, type[Exception], str]] = {
    "masked x": (lambda c: c.all_reduce(MASKED), TypeError, f"all_reduce on rank 1: x {LOST} x.filled(value), x.comp"),
    "masked out": (lambda c: c.all_reduce(X, out=MASKED.copy()), TypeError, f"on rank 1: out {LOST} out.filled(value)"),
    "a list of masked arrays": (lambda c: c.all_to_all([X, MASKED]), TypeError, f"all_to_all on rank 1: x {LOST}"),
    "a masked item": (lambda c: c.all_reduce([np.ma.masked, 1.0]), TypeError, f"an item of x {LOST}"),
    "masked pairs": (lambda c: c.all_reduce(np.ma.zeros(3, "f4,i4"), "argmin"), TypeError, f"x {LOST}"),
    "masked counts": (lambda c: c.all_to_all_v(X, np.ma.array([12, 12])), TypeError, f"send_counts {LOST}"),
    "masked, sent": (lambda c: c.send(MASKED, 0), TypeError, f"send on rank 1: x {LOST}"),
    "masked, received into": (lambda c: c.recv(MASKED.copy(), 1), TypeError, f"recv on rank 1: out {LOST}"),
    "masked, broadcast": (lambda c: c.broadcast(MASKED.copy(), 0), TypeError, f"broadcast on rank 1: x {LOST}"),
    "a masked halo": (lambda c: c.grid(2).exchange(np.ma.ones(9)), TypeError, f"halo_exchange on rank 1: x {LOST}"),
    "rows of out are one": (
        lambda c: c.all_reduce(X, out=folded(0, 4)),
        ValueError,
        "out overlaps itself: of shape (4, 6) and strides (0, 4), several of its elements share memory; pass an array",
    ),
    "rows of out overlap": (lambda c: c.all_reduce(X, out=folded(4, 4)), ValueError, "out overlaps itself: of shape"),
    "elements of out overlap": (lambda c: c.all_reduce(X, out=folded(12, 2)), ValueError, "out overlaps itself: of"),
    "an out of a list": (lambda c: c.gather(X, 1, out=[X.copy(), folded(0, 4)]), ValueError, "out overlaps itself"),
    "received into one place": (lambda c: c.recv(folded(0, 4), 1), ValueError, "recv on rank 1: out overlaps itself"),
    "broadcast to one place": (lambda c: c.broadcast(folded(0, 4), 0), ValueError, "x overlaps itself"),
    "a numpy scalar as out": (
        lambda c: c.all_reduce(1.0, out=np.float64(0)),
        TypeError,
        "out must be an array, got float64",
    ),
    "objects": (
        lambda c: c.all_reduce(np.array([None, 1])),
        TypeError,
        "x is an array of Python objects (NoneType, int); convert it, as in np.array(x, dtype=float); for Python obj",
    ),
    "a dict": (
        lambda c: c.all_reduce({"a": 1}),
        TypeError,
        "x is not an array: dict; pass an array or a number; for Python objects use comm.all_reduce_object(x, func",
    ),
    "a huge integer": (lambda c: c.all_reduce([1 << 70, 1]), TypeError, "x holds an integer that 64 bits cannot hold"),
    "an object that raises": (lambda c: c.all_reduce(Raising()), ZeroDivisionError, "in __array__"),
    "no memory for a copy": (
        lambda c: c.all_reduce(np.broadcast_to(np.float32(0), (1 << 45,))),
        MemoryError,
        "Unable to allocate",
    ),
    "a ufunc that no reduction is": (
        lambda c: c.all_reduce(X, np.hypot),
        TypeError,
        "op must be a string, got ufunc; make an operator of it: shmcoll.op(lambda a, b: numpy.hypot(a, b))",
    ),
    "a builtin that no reduction is": (
        lambda c: c.all_reduce(X, math.gcd),
        TypeError,
        "make an operator of it: shmcoll.op(lambda a, b: math.gcd(a, b))",
    ),
    "a class": (lambda c: c.all_reduce(X, int), TypeError, "got type; pass a function of two values, by shmcoll.op"),
    "op is a number": (lambda c: c.all_reduce(X, 1), TypeError, "op must be a string, got int; use one of sum, prod"),
    "avg of a scan": (lambda c: c.scan(X, np.mean), ValueError, "scan on rank 1: avg has no running form"),
    "a factor beyond float": (
        lambda c: c.all_reduce(X, shmcoll.premul_sum(10**400)),
        TypeError,
        "premul_sum of float32 takes a factor that a float can hold",
    ),
    "an algorithm of bytes": (lambda c: c.all_reduce(X, algorithm=b"flat"), ValueError, "unknown algorithm b'flat'"),
    "algorithms": (lambda c: c.all_reduce(X, algorithm=np.array(["flat", "ring"])), ValueError, "unknown algorithm"),
    "a color beyond 64 bits": (
        lambda c: c.split(1 << 63),
        ValueError,
        "split on rank 1: color 9223372036854775808 is out of range; use -2**63 to 2**63 - 1",
    ),
    "a key beyond 64 bits": (lambda c: c.split(0, -(1 << 63) - 1), ValueError, "split on rank 1: key -922337203685477"),
    "a color that is true": (lambda c: c.split(True), TypeError, "color must be an integer, got bool; use int() if"),
    "a color that is false": (lambda c: c.split(False), TypeError, "color must be an integer, got bool"),
    "a color of zero length": (lambda c: c.split(""), TypeError, "color must be an integer, got str"),
    "a subgroup of a number": (lambda c: c.subgroup(1), TypeError, "ranks must be a sequence of ranks, got int"),
    "a subgroup with another": (
        lambda c: c.subgroup([1, 7]),
        ValueError,
        "rank 7 is not a rank of this group of 2; use 0",
    ),
    "negative length": (lambda c: c.empty(-1), ValueError, "empty on rank 1: shape -1 has a negative length"),
    "negative lengths": (lambda c: c.zeros((2, -1)), ValueError, "zeros on rank 1: shape (2, -1) has a negative"),
    "too large a shape": (lambda c: c.empty((1 << 40, 1 << 40)), ValueError, "more dimensions or elements than an"),
    "too many dimensions": (lambda c: c.empty((1,) * 70), ValueError, "more dimensions or elements than an array can"),
    "no shape": (lambda c: c.empty(3.0), TypeError, "shape must be an integer or a sequence of integers, got 3.0"),
    "no dtype": (lambda c: c.empty(3, "foo"), TypeError, "empty on rank 1: 'foo' is not a dtype: data type 'foo' not"),
    "full of too much": (lambda c: c.full(3, 300, "int8"), ValueError, "full on rank 1: value 300 does not fit dtype"),
    "full of two": (lambda c: c.full(3, [1, 2]), ValueError, "full on rank 1: value of shape (2,) does not fit shape"),
    "no axes": (
        lambda c: c.grid(()),
        ValueError,
        "grid on rank 1: dims is empty; give the number of ranks along each axis, as in (0, 0) for two axes",
    ),
    "coordinates": (lambda c: c.grid(2).rank_at((0.5,)), TypeError, "rank_at on rank 1: coordinate must be an integer"),
    "a coordinate too few": (
        lambda c: c.grid((2, 1)).rank_at(1),
        ValueError,
        "rank_at on rank 1: 1 must be 2 coordinates",
    ),
    "no such axis": (lambda c: c.grid(2).neighbours(3), IndexError, "neighbours on rank 1: axis 3 is out of range"),
    "ragged counts": (lambda c: c.all_to_all_v(X, [[1], [1, 2]]), TypeError, "send_counts must be 2 integers, one for"),
    "no counts": (lambda c: c.all_to_all_v(X, []), ValueError, "must have one entry for each of 2 ranks, got shape (0"),
    "huge counts": (lambda c: c.all_to_all_v(X, [1 << 70, 1]), ValueError, "send_counts has an entry out of range"),
    "counts with a NaN": (lambda c: c.all_to_all_v(X, [math.nan, 1]), TypeError, "must be integers, got float64"),
    "a root that is true": (lambda c: c.broadcast(X, np.True_), TypeError, "root must be an integer, got bool"),
    "a huge root": (lambda c: c.broadcast(X, 1 << 70), ValueError, "is not a rank of this group of 2; use 0 to 1"),
    "no batch": (lambda c: c.batch(shmcoll.Send(X, 0)), TypeError, "messages must be a sequence of shmcoll.Send and"),
    "a plan without x": (lambda c: c.plan("all_reduce"), TypeError, "plan of all_reduce on rank 1: missing a required"),
    "a timeout of words": (lambda c: setattr(c, "timeout", "5"), TypeError, "timeout must be a positive number of se"),
    "a timeout of nothing": (
        lambda c: setattr(c, "timeout", 1e-10),
        ValueError,
        "timeout must be a positive number of seconds, from 1e-6 to 1e9, got 1e-10",
    ),
}


def refuse_all(comm) -> list[str]:
    """Rank 1 makes every wrong call; after each, all ranks make right ones."""
    told = []
    for name, (call, kind, words) in WRONG.items():
        if comm.rank == 1:
            try:
                call(comm)
                told.append(f"{name}: accepted")
            except Exception as error:
                if not isinstance(error, kind) or words not in str(error):
                    told.append(f"{name}: {type(error).__name__}: {error}")
        for right in SHORT.values():
            right(comm)
    return told


def test_each_is_refused_in_one_line_and_the_group_goes_on(ranks):
    assert ranks(2, refuse_all) == [[], []]


FUNCTIONS = {
    "sum": (np.add, operator.add, sum, np.sum),
    "prod": (np.multiply, operator.mul, np.prod),
    "min": (np.minimum, min, np.min),
    "max": (np.maximum, max, np.max),
    "band": (np.bitwise_and, operator.and_),
    "bor": (np.bitwise_or, operator.or_),
    "bxor": (np.bitwise_xor, operator.xor),
    "land": (np.logical_and,),
    "lor": (np.logical_or,),
    "lxor": (np.logical_xor,),
}


def test_functions_that_are_reductions_are_taken_for_what_they_are(ranks):
    def differ(comm) -> list[str]:
        x, wrong = np.arange(6) + 5 * comm.rank - 2, []
        for name, functions in FUNCTIONS.items():
            for function in functions:
                for call in (comm.all_reduce, comm.reduce_scatter, comm.scan, lambda x, op: comm.reduce(x, 0, op)):
                    if not np.array_equal(call(x, function), call(x, name)):
                        wrong.append(f"{function}")
        if not np.array_equal(comm.all_reduce(x / 2, np.mean), comm.all_reduce(x / 2, "avg")):
            wrong.append("mean")
        return wrong

    assert ranks(2, differ) == [[], []]


def test_arrays_of_odd_strides_without_common_elements_are_accepted(ranks):
    def use(comm) -> list[float]:
        room = np.zeros(96, np.float32)
        outs = [
            room.reshape(4, 24)[:, ::4],
            room[:24].reshape(6, 4).T,
            room[23::-1].reshape(4, 6),
            np.lib.stride_tricks.as_strided(room, (4, 6), (4, 16)),  # not nested in the order of its axes
            np.lib.stride_tricks.as_strided(room, (4, 6), (20, 32)),  # neither way, and still apart
        ]
        return [float(comm.all_reduce(X, out=out).sum()) for out in outs]

    assert ranks(2, use) == [[48.0] * 5] * 2


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda comm: comm.split(1 << 63), "split on rank 1: color 9223372036854775808 is out of range"),
        (lambda comm: comm.empty(-1), "empty on rank 1: shape -1 has a negative length"),
        (
            lambda comm: comm.scatter_v(X, 1, send_counts=[2, 2]),
            "scatter_v on rank 1: send_counts [2, 2] are 4 elements",
        ),
        (lambda comm: comm.all_reduce(Raising()), "ZeroDivisionError: in __array__"),
    ],
    ids=["split", "empty", "scatter_v", "object"],
)
def test_peers_hear_of_a_refused_call(ranks, call, words):
    def late(comm) -> str:
        if comm.rank == 1:
            with pytest.raises(Exception, match=r"rank 1|__array__"):
                call(comm)
            threading.Event().wait(1.0)
            return ""
        with pytest.raises(shmcoll.CollectiveTimeout) as told:
            comm.barrier()
        return str(told.value)

    told = ranks(2, late, timeout=0.3)[0]
    assert "rank 1's call of " in told
    assert words in told


def test_messages_of_a_group_count_in_the_group_and_say_the_rank_of_the_world(ranks):
    """Root, dest and rank of a call are those of the group; so are all that its errors name."""

    def told(comm) -> list[str]:
        pair = comm.split(int(comm.rank > 1))
        if comm.rank < 2:
            return []
        words = []
        with pytest.raises(ValueError) as refused:
            pair.broadcast(X, 2)
        words.append(str(refused.value))
        with pytest.raises(shmcoll.CollectiveMismatch) as mismatch:
            pair.gather(X, pair.rank)
        words.append(str(mismatch.value).partition(": ")[2].partition(". All")[0])
        return words

    _, _, first, second = ranks(4, told)
    assert first[0] == "broadcast on rank 0 (world rank 2): root 2 is not a rank of this group of 2; use 0 to 1"
    assert second[0] == "broadcast on rank 1 (world rank 3): root 2 is not a rank of this group of 2; use 0 to 1"
    assert first[1] == second[1]
    for rank in range(2):
        name = f"{rank} (world rank {rank + 2})"
        assert f"rank {name} called gather(float32[4, 6], root={name}) at " in first[1]
