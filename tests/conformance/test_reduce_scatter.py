"""reduce_scatter and reduce_scatter_v on real ranks."""

import hashlib

import numpy as np
import pytest

import shmcoll
from tests.support import layouts, switches

#: each rank's digit behind those of the ranks before it; compiled before the ranks are forked
APPEND = shmcoll.op(lambda a, b: a * 10 + b, commutative=False, dtypes=["int64"])


def digests(comm, seed: int, counts: tuple[int, ...]) -> list[str]:
    """Of each form and algorithm; all of the same block must be alike."""
    rng = np.random.default_rng([seed, comm.rank])
    found = []
    for count in counts:
        for dtype in (np.float32, np.float16, np.complex64):
            x = rng.standard_normal(count * comm.size).astype(dtype)
            for op in ("sum", "prod", "avg"):
                results = [comm.reduce_scatter(x, op, algorithm=a) for a in (None, "flat", "ring", "cells")]
                results.append(comm.reduce_scatter(list(x.reshape(comm.size, count)), op))
                results.append(comm.reduce_scatter_v(x, [count] * comm.size, op))
                (digest,) = {hashlib.sha256(result.tobytes()).hexdigest() for result in results}
                found.append(digest)
    return found


@pytest.mark.slow
def test_the_bits_are_the_same_in_every_run_and_form_and_by_any_algorithm(ranks, n, seed):
    few = (1, 7, 1000, 4097)  # many slices of 512 bytes each already
    told = ranks(n, digests, seed, (*few, 60_000))
    cut = ranks(n, digests, seed, few, environment=switches.CUT | switches.slices(512))
    assert cut == [whole[: len(cut[0])] for whole in told]
    assert len(cut[0]) == 9 * len(few)
    assert ranks(n, digests, seed, (*few, 60_000), environment=switches.FLAT) == told


def in_order(comm) -> list[str]:
    digits = int("".join(str(r + 1) for r in range(comm.size)))
    wrong = []
    for count in (1, 5, 9000, 40_001):
        for algorithm in (None, "flat", "cells"):
            got = comm.reduce_scatter(np.full(count * comm.size, comm.rank + 1), APPEND, algorithm=algorithm)
            told = layouts.same(got, np.full(count, digits))
            wrong += [f"{count} {algorithm}: {told}"] if told else []
    return wrong


def test_an_operator_that_is_not_commutative_sees_the_ranks_in_order(ranks, n):
    assert ranks(n, in_order) == [[]] * n
