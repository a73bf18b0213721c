"""reduce on real ranks."""

import hashlib

import numpy as np

import shmcoll
from tests.support import layouts, switches
from tests.support.operators import compiled_for

#: each rank's digit behind those of the ranks before it
APPEND = shmcoll.op(lambda a, b: a * 10 + b, commutative=False, dtypes=[])

compiled = compiled_for((APPEND, "int64"))


def digests(comm, seed: int) -> list[tuple[str, str]]:
    """Of all_reduce, and of reduce by each algorithm to each root in turn."""
    rng = np.random.default_rng([seed, comm.rank])
    found = []
    for count in (7, 1000, 8193, 60_000):
        for dtype in (np.float32, np.float16, np.complex64):
            x = rng.standard_normal(count).astype(dtype)
            for op in ("sum", "prod", "avg"):
                wanted = hashlib.sha256(comm.all_reduce(x, op).tobytes()).hexdigest()
                for i, algorithm in enumerate((None, "flat", "ring", "cells")):
                    got = comm.reduce(x, i % comm.size, op, algorithm=algorithm)
                    if got is not None:
                        found.append((hashlib.sha256(got.tobytes()).hexdigest(), wanted))
    return found


def test_the_bits_are_those_of_all_reduce_at_any_root_and_by_any_algorithm(ranks, n, seed):
    slices = switches.slices(8192)
    told = ranks(n, digests, seed, environment=slices)
    assert sum(map(len, told)) == 4 * 9 * 4
    assert [got for pairs in told for got, _ in pairs] == [wanted for pairs in told for _, wanted in pairs]
    assert ranks(n, digests, seed, environment=switches.CUT | slices) == told


def in_order(comm) -> list[str]:
    digits = int("".join(str(r + 1) for r in range(comm.size)))
    wrong = []
    for count in (1, 5, 9000, 100_001):
        for root in {0, comm.size - 1}:
            for algorithm in (None, "flat", "cells"):
                got = comm.reduce(np.full(count, comm.rank + 1), root, APPEND, algorithm=algorithm)
                told = "" if got is None else layouts.same(got, np.full(count, digits))
                wrong += [f"{count} {root} {algorithm}: {told}"] if told else []
    return wrong


def test_an_operator_that_is_not_commutative_sees_the_ranks_in_order(ranks, n):
    assert ranks(n, in_order, environment=switches.slices(8192)) == [[]] * n
