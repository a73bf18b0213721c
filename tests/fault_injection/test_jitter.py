"""Collectives under random delays: no lost word, no early exit, no torn data, whoever is late where.

Every element that is sent follows from the number of the operation, the rank that sends it and its index, and every
element that arrives is compared with `==`. Two forms: the plain source with a delay drawn before each operation on
shared words (`engine/fault_injection.py`), and compiled code whose ranks sleep, yield and move between cores at random.

SHMCOLL_STRESS_OPERATIONS    operations of all ranks together in the long form; 10,000,000
"""

import os
import random
import time
from typing import Any

import numpy as np
import pytest

from tests.support import switches

pytestmark = pytest.mark.slow

IN_TOTAL = int(os.environ.get("SHMCOLL_STRESS_OPERATIONS") or 10_000_000)
LENGTHS = (1, 6, 7, 100)  # beside the header, and in a cell


class Trial:
    """One rank's arrays, by length, and what it calls in operation number i."""

    def __init__(self, comm: Any):
        self.comm = comm
        n, me = comm.size, comm.rank
        self.mine = {k: np.arange(k) + 1000 * me for k in LENGTHS}
        self.sums = {k: n * np.arange(k) + 1000 * (n * (n - 1) // 2) for k in LENGTHS}
        self.all = {k: np.concatenate([np.arange(k) + 1000 * r for r in range(n)]) for k in LENGTHS}
        self.out = {k: np.empty(k, np.int64) for k in LENGTHS}
        self.wide = {k: np.empty(n * k, np.int64) for k in LENGTHS}

    def barrier(self, i: int, k: int) -> bool:
        self.comm.barrier()
        return True

    def all_reduce(self, i: int, k: int) -> bool:
        self.comm.all_reduce(self.mine[k] + i, out=self.out[k])
        return bool((self.out[k] == self.sums[k] + self.comm.size * i).all())

    def broadcast(self, i: int, k: int) -> bool:
        root = i % self.comm.size
        got = self.comm.broadcast(self.mine[k] + i, root)
        return bool((got == np.arange(k) + 1000 * root + i).all())

    def all_gather(self, i: int, k: int) -> bool:
        self.comm.all_gather(self.mine[k] + i, out=self.wide[k])
        return bool((self.wide[k] == self.all[k] + i).all())

    def all_to_all(self, i: int, k: int) -> bool:
        n, me = self.comm.size, self.comm.rank
        got = self.comm.all_to_all((np.arange(n)[:, None] + 100 * me + i) + np.zeros((1, k), np.int64))
        return bool((got == me + 100 * np.arange(n)[:, None] + i).all())


CALLS = ("barrier", "barrier", "all_reduce", "broadcast", "all_gather", "all_to_all")


def run_many(comm: Any, times: int, seed: int, restless: bool) -> int:
    """`times` operations drawn alike on all ranks; the delays are each rank's own."""
    shared, own = random.Random(seed), random.Random(f"{seed} {comm.rank}")
    trial, cores = Trial(comm), sorted(os.sched_getaffinity(0))
    for i in range(times):
        call, k = shared.choice(CALLS), shared.choice(LENGTHS)
        if restless and (drawn := own.random()) < 0.002:
            disturb(own, cores, drawn)
        assert getattr(trial, call)(i, k), f"rank {comm.rank}: wrong result of {call} of {k}, operation {i}"
    return times


def disturb(own: random.Random, cores: list[int], drawn: float) -> None:
    if drawn < 0.0005:
        os.sched_setaffinity(0, {own.choice(cores)} if own.random() < 0.7 else cores)
    elif drawn < 0.001:
        time.sleep(own.uniform(1e-6, 1e-4))
    else:
        os.sched_yield()


@pytest.mark.parametrize("n", [2, 3])
def test_delays_before_every_operation_on_shared_words(ranks: Any, seed: int, n: int) -> None:
    environment = switches.fault("*", "jitter", seed)
    assert ranks(n, run_many, 1000, seed, False, environment=environment) == [1000] * n


@pytest.mark.parametrize("n", [2, 3, 5])
def test_restless_ranks(ranks: Any, seed: int, n: int) -> None:
    assert ranks(n, run_many, 3000, seed, True) == [3000] * n


@pytest.mark.stress
def test_delays_at_length(ranks: Any, seed: int) -> None:
    for n in (2, 3, 4):
        ranks(n, run_many, 5000, seed + n, False, environment=switches.fault("*", "jitter", seed), deadline=600.0)


@pytest.mark.stress
def test_restless_ranks_at_length(ranks: Any, seed: int) -> None:
    done, begun = 0, time.monotonic()
    for n in (2, 2, 3, 4):
        times = IN_TOTAL // 4 // n
        done += sum(ranks(n, run_many, times, seed + n + done, True, deadline=3600.0))
    print(f"figure: {done:,} operations of restless ranks in {time.monotonic() - begun:.0f} s, 0 errors")
