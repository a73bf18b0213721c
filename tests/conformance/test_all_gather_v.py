"""all_gather_v on real ranks."""

import numpy as np
import pytest

from tests.support import layouts
from tests.support.cases_all_gather_v import sample
from tests.support.suite import judge, run_cases


def run(comm, seed: int, factor: int) -> tuple[int, list[str]]:
    return run_cases(comm, sample(seed, comm.size, factor))


def test_all_gather_v(ranks, n, seed, factor):
    judge(ranks(n, run, seed, factor, deadline=40 * factor), at_least=40)


@pytest.mark.parametrize("n16", [16])
def test_all_gather_v_of_sixteen_ranks(ranks, n16, seed):
    judge(ranks(n16, run, seed, 1), at_least=40)


def test_all_gather_v_by_the_other_ways(ranks, n, seed, factor, the_other_ways):
    judge(ranks(n, run, seed, factor, deadline=40 * factor), at_least=40)


def test_all_gather_v_into_the_array_that_x_is_part_of(ranks, n):
    def in_place(comm) -> str:
        wanted = np.repeat(np.arange(comm.size), np.arange(comm.size) + 2)
        whole = np.where(wanted == comm.rank, wanted, -1)
        begin = sum(range(2, comm.rank + 2))
        got, _ = comm.all_gather_v(whole[begin : begin + comm.rank + 2], out=whole)
        return layouts.same(got, wanted) or ("" if got is whole else "out was not returned")

    assert ranks(n, in_place) == [""] * n
