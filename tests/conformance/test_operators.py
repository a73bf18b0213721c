"""Operators of all_reduce on real ranks, beyond the pairs of dtype and name: functions, multiples, pairs, the order."""

from functools import reduce
from itertools import product

import numpy as np
import pytest

import shmcoll
from tests.support import layouts, models
from tests.support.dtypes import BY_NAME, PAIRS
from tests.support.operators import compiled_for

#: small enough to lie beside the header, to lie in a cell, and more than two cells
COUNTS = (1, 5, 3000, 70_001)


def digits(a, b):
    """Not even associative, so that nothing but the strict order gives the digits of ranks 0, 1, 2, ..."""
    return a * 10 + b


def composed(f, g):
    """x -> g(f(x)) for maps x -> a x + b, with a as real and b as imaginary part."""
    return f.real * g.real + 1j * (g.real * f.imag + g.imag)


DIGITS = shmcoll.op(digits, commutative=False, dtypes=[])
COMPOSED = shmcoll.op(composed, commutative=False, dtypes=[])
LARGER = shmcoll.op(lambda a, b: a if a > b else b, dtypes=[])
PLUS = shmcoll.op(lambda a, b: a + b, dtypes=[])

compiled = compiled_for(
    (DIGITS, "int64"), (COMPOSED, "complex128"), (LARGER, "float64"), (PLUS, "float16", "bfloat16", "bool", "uint8")
)


@pytest.mark.slow
def test_the_order_of_ranks_is_kept(ranks):
    """From left to right, whatever runs and however long the arrays are."""

    def fold(comm) -> list[str]:
        wrong = []
        for count in COUNTS:
            numbers = [(np.arange(count) + r) % 9 + 1 for r in range(comm.size)]
            maps = [(x % 3 - 1) + 1j * (x % 5) for x in numbers]
            for inputs, op in ((numbers, DIGITS), (maps, COMPOSED)):
                wanted = reduce(op, inputs)
                for algorithm in (None, "cells", *(("flat",) if count < 5000 else ())):
                    told = layouts.same(comm.all_reduce(inputs[comm.rank], op, algorithm=algorithm), wanted)
                    x = inputs[comm.rank].copy()
                    told = told or layouts.same(comm.all_reduce(x, op, out=x, algorithm=algorithm), wanted)
                    wrong += [f"{count} {op.name} {algorithm}: {told}"] if told else []
        return wrong

    for n in range(1, 9):
        assert ranks(n, fold) == [[]] * n, n


def test_the_ring_does_not_keep_the_order(ranks):
    def refused(comm) -> None:
        with pytest.raises(
            ValueError, match=rf"all_reduce on rank {comm.rank}: the ring starts each slice with another"
        ):
            comm.all_reduce(np.arange(3), DIGITS, algorithm="ring")
        assert comm.all_reduce(np.ones(100_000), LARGER, algorithm="ring").max() == 1

    ranks(2, refused)


def test_a_commutative_function_by_every_algorithm(ranks, n, seed):
    def largest(comm) -> list[str]:
        wrong = []
        for count in COUNTS:
            inputs = np.random.default_rng(seed).standard_normal((n, count))
            for algorithm in (None, "ring", "cells", *(("flat",) if count < 5000 else ())):
                got = comm.all_reduce(inputs[comm.rank], LARGER, algorithm=algorithm)
                told = layouts.same(got, inputs.max(axis=0))
                wrong += [f"{count} {algorithm}: {told}"] if told else []
        return wrong

    assert ranks(n, largest) == [[]] * n


def test_results_are_converted_and_half_types_rounded_once(ranks):
    """In float16, 2048 + 1 is 2048; in uint8 sums wrap; a bool is true when it is not 0."""

    def add(comm) -> list[list]:
        half = [2048, 1, 1][comm.rank]
        return [
            comm.all_reduce(np.array([half], BY_NAME[name].numpy), PLUS).astype(float).tolist()
            for name in ("float16", "bfloat16")
        ] + [
            comm.all_reduce(np.array([100, comm.rank], np.uint8), PLUS).tolist(),
            comm.all_reduce(np.array([comm.rank == 1, False]), PLUS).tolist(),
        ]

    assert ranks(3, add) == [[[2050], [2048], [44, 3], [True, False]]] * 3


def test_a_dtype_for_which_a_function_does_not_compile_is_refused_before_anything_is_published(ranks):
    bits = shmcoll.op(lambda a, b: a ^ b, dtypes=["int64"])

    def refused(comm) -> int:
        if comm.rank == 1:
            with pytest.raises(TypeError, match="all_reduce on rank 1: <lambda> does not compile for float32: No impl"):
                comm.all_reduce(np.ones(3, np.float32), bits)
            with pytest.raises(TypeError, match="all_reduce on rank 1: op must be a string, got function; make an op"):
                comm.all_reduce(np.ones(3), digits)
        return int(comm.all_reduce(np.array(comm.rank + 1), bits))

    assert ranks(2, refused) == [3, 3]


# --- multiples --------------------------------------------------------------------------------------------------------


def test_multiples(ranks, n):
    """Every rank has its own factor; half types are rounded once; integers wrap."""

    def multiply(comm) -> list[str]:
        wrong = []
        for name, factors in (
            ("float16", [0.1 * (r + 1) for r in range(n)]),
            ("bfloat16", [0.1 * (r + 1) for r in range(n)]),
            ("float32", [1 / 3 + r for r in range(n)]),
            ("float64", [1 / 3 + r for r in range(n)]),
            ("complex64", [1 + r * 1j for r in range(n)]),
            ("int8", [100 * r - 7 for r in range(n)]),
            ("uint64", [-r for r in range(n)]),
        ):
            dtype = BY_NAME[name]
            x = np.arange(1, 9).reshape(2, 4).astype(dtype.numpy)
            kind = (lambda f: np.array(f % 256).astype(np.int8)) if name == "int8" else dtype.accumulator.type
            if name == "uint64":
                kind = lambda f: np.uint64(f % (1 << 64))  # noqa: E731
            multiples = [x.astype(dtype.accumulator) * kind(f) for f in factors]
            wanted = models.all_reduce(multiples, "sum").astype(dtype.numpy)
            operator = shmcoll.premul_sum(factors[comm.rank])
            told = layouts.same(comm.all_reduce(x, operator), wanted)
            out = np.zeros_like(x)
            told = told or layouts.same(comm.all_reduce(x, operator, out=out), wanted)
            told = told or layouts.same(out, wanted)
            told = told or layouts.same(comm.all_reduce(x, operator, out=x), wanted)
            wrong += [f"{name}: {told}"] if told else []
        return wrong

    assert ranks(n, multiply) == [[]] * n


# --- pairs ------------------------------------------------------------------------------------------------------------

LAYOUTS = {
    "packed": [("value", np.float64), ("index", np.int64)],
    "int32 index": [("value", np.float64), ("index", np.int32)],
    "other names": [("distance", np.float32), ("rank", np.int64)],
    "packed halves": [("v", np.float16), ("i", np.int32)],
    "foreign": [("value", ">f8"), ("index", ">i8")],
    "short": [("value", np.int16), ("index", np.int32)],
}


def test_pairs_of_any_layout(ranks, n, seed):
    """Results have the dtype of x; `out` must have it."""

    def find(comm) -> list[str]:
        wrong = []
        for (layout, fields), op in product(LAYOUTS.items(), ("argmin", "argmax")):
            own = np.dtype(fields)
            native = shmcoll.pair_dtype(own[0].newbyteorder("="))
            inputs = list(layouts.values(np.random.default_rng(seed), native, (n, 6, 2), "argmin"))
            wanted = models.all_reduce(inputs, op).astype(own)
            x = inputs[comm.rank].astype(own)
            out = np.zeros((6, 4), own)[:, ::2]
            for got in (comm.all_reduce(x, op), comm.all_reduce(x, op, out=out), comm.all_reduce(x, op, out=x)):
                told = layouts.same(got.astype(native), wanted.astype(native))
                wrong += [f"{layout} {op}: {told}"] if told or got.dtype != own else []
        return wrong

    assert ranks(n, find) == [[]] * n


def test_what_is_no_pair_is_refused(ranks):
    def refused(comm) -> None:
        for dtype, op, text in (
            (
                [("index", np.int64), ("value", np.int64)],
                "argmin",
                r"dtype .* cannot be reduced; .* as of x\['index'\]; pairs .* shmcoll.pair_dtype",
            ),
            ([("value", complex), ("index", np.int64)], "argmin", "cannot be reduced"),
            ([("value", float), ("index", float)], "argmin", "cannot be reduced"),
            ([("value", float), ("index", int), ("more", int)], "argmin", "cannot be reduced"),
            (shmcoll.pair_dtype(float), "sum", "sum of pair of float64 is not defined; use argmin or argmax"),
            (float, "argmax", r"argmax of float64 is not defined; pass pairs .*\(see shmcoll.pair_dtype\)"),
            (float, "bxor", "bxor of float64 is not defined; convert to an integer dtype, or use land, lor, lxor"),
            (shmcoll.pair_dtype(float), shmcoll.premul_sum(2), "premul_sum of pair of float64 is not defined"),
            (shmcoll.pair_dtype(float), LARGER, "<lambda> of pair of float64 is not defined"),
            (bool, shmcoll.premul_sum(2), "premul_sum of bool is not defined"),
        ):
            with pytest.raises(TypeError, match=f"^all_reduce on rank 0: .*{text}"):
                comm.all_reduce(np.zeros(3, dtype), op)

    ranks(1, refused)


def test_pairs_can_be_moved(ranks):
    def move(comm) -> list[str]:
        x = np.zeros((2, 3), PAIRS[-1].numpy)
        x["value"], x["index"] = comm.rank + 0.5, np.arange(6).reshape(2, 3)
        wholes = [x.copy() for _ in range(2)]
        for rank, whole in enumerate(wholes):
            whole["value"] = rank + 0.5
        got = [comm.gather(x), comm.all_to_all(x), comm.all_to_all(layouts.strided(x))]
        wanted = [models.gather(wholes), *[models.all_to_all(wholes, 0, 0)[comm.rank]] * 2]
        return [layouts.same(g, w) for g, w in zip(got, wanted, strict=True) if g is not None]

    assert ranks(2, move) == [["", "", ""], ["", ""]]


# --- the native way, and signs ----------------------------------------------------------------------------------------


def test_all_named_operators_take_the_native_way(ranks):
    """Once their kernels are loaded: nothing in Python looks at the arguments."""

    def run(comm) -> list:
        pairs = np.zeros(3, shmcoll.pair_dtype(np.int32))
        calls = [
            (np.arange(3), op) for op in ("sum", "prod", "min", "max", "band", "bor", "bxor", "land", "lor", "lxor")
        ]
        calls += [(pairs, "argmin"), (pairs, "argmax"), (np.arange(3.0), "avg")]
        for x, op in calls:
            comm.all_reduce(x, op)
        comm._dispatcher.run = None
        return [comm.all_reduce(x, op).tolist() for x, op in calls][4:7]

    assert ranks(2, run) == [[[0, 1, 2], [0, 1, 2], [0, 0, 0]]] * 2


def test_signs_of_zeros(ranks, n):
    """Every combination of signs over the ranks. Min and max keep the zero of rank 0, where slice 0 starts."""

    def run(comm) -> list[str]:
        negative = np.array([[i >> r & 1 for i in range(1 << min(n, 8))] for r in range(n)], bool)
        wanted = {
            "sum": negative.all(axis=0),
            "prod": np.bitwise_xor.reduce(negative, axis=0),
            "min": negative[0],
            "max": negative[0],
        }
        wrong = []
        for name, (op, signs) in product(("float16", "bfloat16", "float32", "float64"), wanted.items()):
            x = np.where(negative, -0.0, 0.0).astype(BY_NAME[name].numpy)[comm.rank]
            got = comm.all_reduce(x, op).astype(np.float64)
            wrong += [] if (got == 0).all() and (np.signbit(got) == signs).all() else [f"{name} {op}"]
        return wrong

    assert ranks(n, run) == [[]] * n
