"""Every collective on real ranks: random cases, compared with == with what plain numpy makes of the same arrays.

The thresholds that choose an algorithm are settings of a run. So are the two ways that few machines take by themselves:
in through `PlainEntry`, for interpreters whose arrays have their fields elsewhere, and out past the caches, for results
longer than those of the samples.
"""

from typing import Any

import pytest

from tests.support.patience import PATIENCE
from tests.support.suite import judge, run_cases
from tests.support.suites import ALGORITHMS, SUITES, mixed, sample

MANY = 16  # ranks


def run(comm: Any, name: str, seed: int, factor: int) -> tuple[int, list[str]]:
    return run_cases(comm, sample(name)(seed, comm.size, factor))


def check(ranks: Any, n: int, name: str, seed: int, factor: int, **settings: str) -> None:
    told = ranks(n, run, name, seed, factor, environment=settings, deadline=PATIENCE * factor)
    judge(told, at_least=SUITES[name].at_least)


@pytest.mark.parametrize("collective", SUITES)
def test_results_are_those_of_numpy(ranks, several, collective, seed, factor):
    check(ranks, several, collective, seed, factor)


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "usual"])
@pytest.mark.parametrize("collective", [name for name, suite in SUITES.items() if suite.has_algorithms])
def test_results_are_the_same_by_each_algorithm(ranks, few, collective, algorithm, seed, factor):
    check(ranks, few, collective, seed, factor, **ALGORITHMS[algorithm])


@pytest.mark.stress
@pytest.mark.parametrize("collective", [name for name in SUITES if name.endswith("_v")])
def test_sixteen_ranks(ranks, collective, seed):
    check(ranks, MANY, collective, seed, 1)


@pytest.mark.slow
def test_results_of_all_are_the_same_by_the_other_ways(ranks, seed, the_other_ways):
    judge(ranks(3, lambda comm: run_cases(comm, mixed(seed, comm.size, 300))), at_least=140)


@pytest.mark.stress
@pytest.mark.parametrize("collective", SUITES)
def test_results_are_the_same_by_the_other_ways(ranks, few, collective, seed, factor, the_other_ways):
    check(ranks, few, collective, seed, factor)
