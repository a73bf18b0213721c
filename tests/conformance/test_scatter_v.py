"""scatter_v on real ranks."""

import numpy as np
import pytest

from tests.support import layouts
from tests.support.cases_scatter_v import sample
from tests.support.suite import judge, run_cases


def run(comm, seed: int, factor: int) -> tuple[int, list[str]]:
    return run_cases(comm, sample(seed, comm.size, factor))


def test_scatter_v(ranks, n, seed, factor):
    judge(ranks(n, run, seed, factor, deadline=40 * factor), at_least=40)


@pytest.mark.parametrize("n16", [16])
def test_scatter_v_of_sixteen_ranks(ranks, n16, seed):
    judge(ranks(n16, run, seed, 1), at_least=40)


def test_scatter_v_by_the_other_ways(ranks, n, seed, factor, the_other_ways):
    judge(ranks(n, run, seed, factor, deadline=40 * factor), at_least=40)


def test_scatter_v_into_the_array_that_is_scattered(ranks, n):
    def in_place(comm) -> str:
        x = np.arange(2 * comm.size + 1)
        begin = [r + 1 for r in range(comm.size)]
        wrong = []
        for root in range(comm.size):
            mine = x.copy()
            block = [comm.size] * comm.size
            if comm.rank == root:
                got = comm.scatter_v(mine, block, begin, root, out=mine[: comm.size])
            else:
                got = comm.scatter_v(None, None, root=root)
            wrong.append(layouts.same(got, x[comm.rank + 1 :][: comm.size]))
        return "".join(wrong)

    assert ranks(n, in_place) == [""] * n
