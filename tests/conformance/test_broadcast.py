"""broadcast on real ranks."""

from tests.support.cases_broadcast import sample
from tests.support.suite import judge, run_cases


def run(comm, seed: int, factor: int) -> tuple[int, list[str]]:
    return run_cases(comm, sample(seed, comm.size, factor))


def test_broadcast(ranks, n, seed, factor):
    judge(ranks(n, run, seed, factor, deadline=40 * factor), at_least=140)


def test_broadcast_by_the_other_ways(ranks, n, seed, factor, the_other_ways):
    judge(ranks(n, run, seed, factor, deadline=40 * factor), at_least=140)
