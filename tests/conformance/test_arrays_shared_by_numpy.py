"""Every collective under SHMCOLL_SHARE_ARRAYS=1: all arrays that numpy makes, results too, are in shared memory.

Only arrays from some KiB on are shared by default, and only longer ones are read where they are. Here those of a cache
line are, so that the random cases take these ways.
"""

from typing import Any

import numpy as np
import pytest

from tests.support.patience import PATIENCE
from tests.support.suite import judge, run_cases
from tests.support.suites import ALGORITHMS, SUITES, sample

SHARED = {"SHMCOLL_SHARE_ARRAYS": "1", "SHMCOLL_DIRECT_BYTES": "1", "SHMCOLL_SHARED_BYTES": "1"}


def random_cases(comm: Any, name: str, seed: int, factor: int) -> tuple[int, list[str]]:
    assert comm.is_shared(np.ones(100)), "numpy shares nothing"
    return run_cases(comm, sample(name)(seed, comm.size, factor))


@pytest.mark.slow
@pytest.mark.parametrize("name", SUITES)
def test_results_are_those_of_numpy(
    ranks: Any, few: int, name: str, seed: int, factor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shmcoll.runtime.array_sharing.THRESHOLD", 128)
    environment = SHARED | (ALGORITHMS["ring"] if SUITES[name].has_algorithms else {})
    told = ranks(few, random_cases, name, seed, factor, environment=environment, deadline=PATIENCE * factor)
    judge(told, at_least=SUITES[name].at_least)
