"""barrier, and operations of all kinds one after the other: headers, cells and tables alternate between them."""

import pytest

from tests.support.patience import PATIENCE
from tests.support.suite import judge, run_cases
from tests.support.suites import ALGORITHMS, mixed


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


def run_mixed(comm, seed: int, count: int, factor: int):
    return run_cases(comm, mixed(seed, comm.size, count, factor))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_all_collectives_mixed(ranks, few, algorithm, seed, factor):
    told = ranks(
        few, run_mixed, seed, 300 * factor, factor, environment=ALGORITHMS[algorithm], deadline=PATIENCE * factor
    )
    judge(told, at_least=140)


@pytest.mark.slow
def test_all_collectives_mixed_on_8_ranks(ranks, seed):
    judge(ranks(8, run_mixed, seed, 150, 1), at_least=140)
