"""all_reduce on real ranks."""

import hashlib

import numpy as np

from tests.support import layouts, models, switches
from tests.support.dtypes import BY_NAME


def test_min_and_max_are_nan_when_any_rank_has_one(ranks, n):
    def with_nan(comm) -> list[str]:
        wrong = []
        for name in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128"):
            inputs = [np.full(max(n, 5), r, BY_NAME[name].numpy) for r in range(n)]
            for r, x in enumerate(inputs):
                x[r] = np.nan
            for op in ("min", "max"):
                told = layouts.same(comm.all_reduce(inputs[comm.rank], op), models.all_reduce(inputs, op))
                wrong += [f"{name} {op}: {told}"] if told else []
        return wrong

    assert ranks(n, with_nan) == [[]] * n


def digests(comm, seed: int) -> list[str]:
    rng = np.random.default_rng([seed, comm.rank])
    found = []
    for count in (1, 7, 31, 32, 1000, 8192, 8193, 60_000, 300_001):
        for dtype in (np.float32, np.float16, np.complex64):
            x = rng.standard_normal(count).astype(dtype)
            for op in ("sum", "prod", "avg"):
                found.append(hashlib.sha256(comm.all_reduce(x, op).tobytes()).hexdigest())
    return found


def test_the_bits_are_the_same_on_every_rank_in_every_run_and_by_either_algorithm(ranks, n, seed):
    """The order of additions is a function of the ranks, the count and the index alone."""
    slices = switches.slices(8192)
    around = switches.RING | slices
    ring = ranks(n, digests, seed, environment=around)
    again = ranks(n, digests, seed, environment=around)
    cells = ranks(n, digests, seed, environment=around | {"SHMCOLL_RING_BYTES": str(256 << 10)})
    flat = ranks(n, digests, seed, environment=switches.FLAT | slices)
    assert ring[1:] == ring[:-1]
    assert again == ring
    assert flat == ring
    assert cells == ring
