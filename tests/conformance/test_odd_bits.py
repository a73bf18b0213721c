"""Bits that ordinary arrays do not have: bool whose bytes are neither 0 nor 1, NaN of any sign and payload."""

from functools import reduce
from typing import Any

import numpy as np
import pytest

import shmcoll
from tests.support import switches
from tests.support.dtypes import BY_NAME
from tests.support.operators import compiled_for

COUNTS = (1, 5, 3000, 70_001)
FOLDS = {
    "sum": np.logical_or,
    "prod": np.logical_and,
    "min": np.logical_and,
    "max": np.logical_or,
    "band": np.logical_and,
    "bor": np.logical_or,
    "bxor": np.logical_xor,
    "land": np.logical_and,
    "lor": np.logical_or,
    "lxor": np.logical_xor,
}
XOR = shmcoll.op(lambda a, b: a ^ b, dtypes=[])

compiled = compiled_for((XOR, "bool"))


def bytes_as_bool(seed: int, size: int, count: int) -> list[np.ndarray]:
    chance = np.random.default_rng([seed, count])
    return [np.array([0, 1, 2, 64, 255], np.uint8)[chance.integers(0, 5, count)].view(bool) for _ in range(size)]


def bools_that_differ(comm: Any, seed: int) -> list[str]:
    """Every reducing collective of such arrays, where its bytes are not just those of numpy's fold of their truth."""
    wrong, me = [], comm.rank

    def compare(name: str, got: Any, wanted: np.ndarray) -> None:
        if not np.array_equal(np.asarray(got).view(np.uint8), wanted.view(np.uint8)):
            wrong.append(name)

    for count in COUNTS:
        inputs = bytes_as_bool(seed, comm.size, count * comm.size)
        x, truth = inputs[me], [one.view(np.uint8) != 0 for one in inputs]
        for op in (*FOLDS, XOR):
            fold = np.logical_xor if op is XOR else FOLDS[op]
            name = f"of {count}, {op}"
            whole = reduce(fold, truth)
            for algorithm in (None, "ring", "cells", *(("flat",) if count < 5000 else ())):
                compare(f"all_reduce {name} {algorithm}", comm.all_reduce(x, op, algorithm=algorithm), whole)
                rooted = comm.reduce(x, comm.size - 1, op, algorithm=algorithm)
                if rooted is not None:
                    compare(f"reduce {name} {algorithm}", rooted, whole)
                part = comm.reduce_scatter(x, op, algorithm=algorithm)
                compare(f"reduce_scatter {name} {algorithm}", part, whole[me * count : (me + 1) * count])
            compare(f"in place {name}", comm.all_reduce(y := x.copy(), op, out=y), whole)
            compare(f"reduce_scatter_v {name}", comm.reduce_scatter_v(x, [count] * comm.size, op), part)
            for algorithm in (None, "chain"):
                running = comm.scan(x, op, algorithm=algorithm)
                compare(f"scan {name} {algorithm}", running, reduce(fold, truth[: me + 1]))
                before = comm.exscan(x, op, algorithm=algorithm)
                if before is not None:
                    compare(f"exscan {name} {algorithm}", before, reduce(fold, truth[:me]))
        shared, result = comm.empty(x.shape, "bool"), comm.empty(x.shape, "bool")
        for op in FOLDS:
            shared[...] = False
            shared.view(np.uint8)[...] = x.view(np.uint8)
            compare(f"shared of {count}, {op}", comm.all_reduce(shared, op, out=result), reduce(FOLDS[op], truth))
    return wrong


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_byte_of_a_bool_but_0_is_true_and_results_are_0_or_1(ranks, size, seed):
    assert ranks(size, bools_that_differ, seed, environment=switches.slices(4096)) == [[]] * size


def test_jitted_code_and_other_interpreters_read_them_alike(ranks, seed, monkeypatch):
    from shmcoll import jit

    def differ(comm) -> list[str]:
        x = bytes_as_bool(seed, comm.size, 100)
        wanted = (x[0].view(np.uint8) != 0) & (x[1].view(np.uint8) != 0)
        out = np.zeros(100, bool)
        jit.all_reduce(comm.handle, x[comm.rank], out, jit.PROD)
        return [] if np.array_equal(out.view(np.uint8), wanted.view(np.uint8)) else ["differs"]

    assert ranks(2, differ) == [[]] * 2
    switches.use_entry(monkeypatch, fast=False)
    assert ranks(2, bools_that_differ, seed) == [[]] * 2


def nan_bits(comm: Any, seed: int) -> list[str]:
    """Where another algorithm, or reduce instead of all_reduce, gives other bits for arrays full of NaN."""
    wrong = []
    for name in ("float16", "bfloat16", "float32", "float64", "complex64"):
        for count in (7, 3001, 40_000):
            dtype = BY_NAME[name].numpy
            chance = np.random.default_rng([seed, comm.rank, count])
            raw = chance.integers(0, 256, count * dtype.itemsize, np.uint8)
            part = dtype.itemsize // (2 if dtype.kind == "c" else 1)
            top = raw.reshape(-1, part)[:, -2:]
            top[chance.random(len(top)) < 0.6] |= np.array([0xF0, 0x7F], np.uint8)  # an exponent of ones in every type
            x = raw.view(dtype)
            for op in ("sum", "min", "max"):
                usual = comm.all_reduce(x, op)
                for algorithm in ("ring", "cells", *(("flat",) if count < 5000 else ())):
                    got = comm.all_reduce(x, op, algorithm=algorithm)
                    rooted = comm.reduce(x, 0, op, algorithm=algorithm)
                    for what, one in (("all_reduce", got), ("reduce", rooted)):
                        if one is not None and one.tobytes() != usual.tobytes():
                            wrong.append(f"{what} {name} {op} {count} {algorithm}")
                if comm.scan(x, op).tobytes() != comm.scan(x, op, algorithm="chain").tobytes():
                    wrong.append(f"scan {name} {op} {count}")
    return wrong


@pytest.mark.parametrize("size", [2, 3])
def test_the_bits_of_a_nan_do_not_depend_on_the_algorithm(ranks, size, seed):
    assert ranks(size, nan_bits, seed, environment=switches.slices(8192)) == [[]] * size
