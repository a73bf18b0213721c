"""scan and exscan on real ranks."""

import hashlib

import numpy as np

import shmcoll
from tests.support import layouts, switches
from tests.support.operators import compiled_for

#: each rank's digit behind those of the ranks before it
APPEND = shmcoll.op(lambda a, b: a * 10 + b, commutative=False, dtypes=[])

compiled = compiled_for((APPEND, "int64"))


def digests(comm, seed: int) -> list[str]:
    rng = np.random.default_rng([seed, comm.rank])
    found = []
    for count in (1, 7, 60, 1000, 8193, 60_000):
        for dtype in (np.float32, np.float16, np.complex64):
            x = rng.standard_normal(count).astype(dtype)
            for op in ("sum", "prod"):
                for call in (comm.scan, comm.exscan):
                    results = [call(x, op, algorithm=a) for a in (None, "flat", "chain")]
                    (digest,) = {hashlib.sha256(b"" if r is None else r.tobytes()).hexdigest() for r in results}
                    found.append(digest)
    return found


def test_the_bits_are_the_same_in_every_run_and_by_either_algorithm(ranks, n, seed):
    told = ranks(n, digests, seed)
    assert ranks(n, digests, seed, environment=switches.CUT | switches.slices(8192)) == told


def test_exscan_of_a_rank_is_scan_of_the_one_before(ranks, n, seed):
    told = ranks(n, digests, seed)
    scans, exscans = [of_rank[0::2] for of_rank in told], [of_rank[1::2] for of_rank in told]
    assert exscans[1:] == scans[:-1]


def in_order(comm) -> list[str]:
    digits = [int("".join(str(r + 1) for r in range(ranks))) for ranks in range(1, comm.size + 1)]
    wrong = []
    for count in (1, 5, 9000, 100_001):
        x = np.full(count, comm.rank + 1)
        wrong.append(layouts.same(comm.scan(x, APPEND), np.full(count, digits[comm.rank])))
        before = comm.exscan(x, APPEND)
        wrong.append(layouts.same(before, np.full(count, digits[comm.rank - 1])) if comm.rank else "")
    return [told for told in wrong if told]


def test_an_operator_that_is_not_commutative_sees_the_ranks_in_order(ranks, n):
    assert ranks(n, in_order) == [[]] * n
