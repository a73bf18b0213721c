"""Every collective under SHMCOLL_SHARE_ARRAYS=1: all arrays that numpy makes, results too, are in shared memory.

Only arrays from some KiB on are shared by default, and only longer ones are read where they are. Here those of a cache
line are, so that the random cases take these ways.
"""

from typing import Any

import numpy as np
import pytest

from tests.support.patience import PATIENCE
from tests.support.suite import judge, run_cases
from tests.support.suites import ALGORITHMS, SUITES, mixed, sample

SHARED = {"SHMCOLL_SHARE_ARRAYS": "1", "SHMCOLL_DIRECT_BYTES": "1", "SHMCOLL_SHARED_BYTES": "1"}


def random_cases(comm: Any, name: str, seed: int, factor: int) -> tuple[int, list[str]]:
    assert comm.is_shared(np.ones(100)), "numpy shares nothing"
    return run_cases(comm, sample(name)(seed, comm.size, factor))


@pytest.fixture
def from_a_line_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of at least two cache lines are shared."""
    monkeypatch.setattr("shmcoll.runtime.array_sharing.THRESHOLD", 128)


def mixed_cases(comm: Any, seed: int) -> tuple[int, list[str]]:
    assert comm.is_shared(np.ones(100)), "numpy shares nothing"
    return run_cases(comm, mixed(seed, comm.size, 300))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["usual", "ring"])
def test_results_of_all_are_those_of_numpy(ranks: Any, seed: int, algorithm: str, from_a_line_on: None) -> None:
    judge(ranks(3, mixed_cases, seed, environment=SHARED | ALGORITHMS[algorithm]), at_least=140)


@pytest.mark.stress
@pytest.mark.parametrize("name", SUITES)
def test_results_are_those_of_numpy(
    ranks: Any, few: int, name: str, seed: int, factor: int, from_a_line_on: None
) -> None:
    environment = SHARED | (ALGORITHMS["ring"] if SUITES[name].has_algorithms else {})
    told = ranks(few, random_cases, name, seed, factor, environment=environment, deadline=PATIENCE * factor)
    judge(told, at_least=SUITES[name].at_least)
