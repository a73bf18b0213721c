"""barrier, and operations of all kinds one after the other: headers, cells and tables alternate between them."""

import numpy as np
import pytest

from tests.support.patience import PATIENCE
from tests.support.suite import judge, run_cases
from tests.support.suites import ALGORITHMS, SUITES, sample


def test_nobody_leaves_before_all_have_entered(ranks, n, board, factor):
    def count(comm, rounds: int) -> list[str]:
        wrong = []
        for k in range(1, rounds + 1):
            board[comm.rank] = k
            comm.barrier()
            if board[:n].min() < k:
                wrong.append(f"round {k}: left while counters were {board[:n].tolist()}")
        return wrong

    assert ranks(n, count, 1000 * factor) == [[]] * n


def test_nobody_leaves_an_asynchronous_barrier_early(ranks, n, board):
    def count(comm) -> list[str]:
        wrong = []
        for k in range(1, 201):
            board[comm.rank] = k
            comm.barrier(async_op=True).wait()
            if board[:n].min() < k:
                wrong.append(f"round {k}: left while counters were {board[:n].tolist()}")
        return wrong

    assert ranks(n, count) == [[]] * n


def mixed(comm, seed: int, factor: int):
    """Cases of all suites, shuffled alike on all ranks."""
    rng = np.random.default_rng(seed)
    cases = [case for name in SUITES for case in sample(name)(seed, comm.size, factor)]
    drawn = [cases[i] for i in rng.permutation(len(cases))[: 300 * factor]]
    return run_cases(comm, drawn)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_all_collectives_mixed(ranks, few, algorithm, seed, factor):
    told = ranks(few, mixed, seed, factor, environment=ALGORITHMS[algorithm], deadline=PATIENCE * factor)
    judge(told, at_least=140)
