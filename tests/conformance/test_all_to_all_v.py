"""all_to_all_v on real ranks."""

import numpy as np
import pytest

from tests.support import layouts
from tests.support.cases_all_to_all_v import sample
from tests.support.suite import judge, run_cases


def run(comm, seed: int, factor: int) -> tuple[int, list[str]]:
    return run_cases(comm, sample(seed, comm.size, factor))


def test_all_to_all_v(ranks, n, seed, factor):
    judge(ranks(n, run, seed, factor, deadline=40 * factor), at_least=40)


@pytest.mark.parametrize("n16", [16])
def test_all_to_all_v_of_sixteen_ranks(ranks, n16, seed):
    judge(ranks(n16, run, seed, 1), at_least=40)


def test_all_to_all_v_by_the_other_ways(ranks, n, seed, factor, the_other_ways):
    judge(ranks(n, run, seed, factor, deadline=40 * factor), at_least=40)


def test_shapes_of_several_dimensions_are_flattened(ranks, n):
    def flattened(comm) -> tuple[str, tuple]:
        x = np.arange(2 * 3 * comm.size).reshape(2, 3, comm.size) + 100 * comm.rank
        out = np.full((comm.size, 6), -1)
        got, _ = comm.all_to_all_v(x.transpose(1, 0, 2), [6] * comm.size, out=out.T.T)
        flat = [(np.arange(6 * comm.size).reshape(2, 3, comm.size) + 100 * r).transpose(1, 0, 2) for r in range(n)]
        return layouts.same(got, np.stack([f.reshape(-1)[comm.rank * 6 :][:6] for f in flat])), got.shape

    assert ranks(n, flattened) == [("", (n, 6))] * n
