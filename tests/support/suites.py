"""The random cases of every collective, by its name, from which the conformance tests and the long runs draw."""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tests.support.suite import Case

Sample = Callable[[int, int, int], Iterator[Case]]


@dataclass(frozen=True)
class Suite:
    """`at_least`: so many cases a sample has, whatever the number of ranks. `has_algorithms`: thresholds choose one."""

    at_least: int
    has_algorithms: bool = False


#: settings that make short arrays take the way of long ones, and the other way round
ALGORITHMS = {
    "usual": {},
    "ring": {"SHMCOLL_FLAT_BYTES": "128", "SHMCOLL_RING_BYTES": "1", "SHMCOLL_SLICE_BYTES": "4096"},
    "flat": {"SHMCOLL_FLAT_BYTES": str(256 << 10), "SHMCOLL_SLICE_BYTES": "4096"},
}

SUITES = {
    "all_gather": Suite(140),
    "all_gather_v": Suite(40),
    "all_reduce": Suite(162, has_algorithms=True),
    "all_to_all": Suite(40),
    "all_to_all_v": Suite(40),
    "broadcast": Suite(140),
    "collective_permute": Suite(140),
    "gather": Suite(100),
    "gather_v": Suite(40),
    "grid": Suite(16),
    "reduce": Suite(100, has_algorithms=True),
    "reduce_scatter": Suite(100, has_algorithms=True),
    "scan": Suite(150, has_algorithms=True),
    "scatter": Suite(140),
    "scatter_v": Suite(40),
    "shared_results": Suite(80),
}


def sample(name: str) -> Sample:
    """Return `sample(seed, n, factor)`, which yields the cases of a collective for n ranks, the same on all of them."""
    found: Sample = importlib.import_module(f"tests.support.cases_{name}").sample
    return found


def mixed(seed: int, n: int, count: int, factor: int = 1) -> list[Case]:
    """Return so many cases of all collectives for n ranks, shuffled alike on all of them."""
    cases = [case for name in SUITES for case in sample(name)(seed, n, factor)]
    order = np.random.default_rng(seed).permutation(len(cases))
    return [cases[i] for i in order[:count]]
