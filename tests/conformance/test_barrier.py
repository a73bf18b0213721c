"""barrier, and operations of all kinds one after the other: headers, cells and tables alternate between them."""

import numpy as np

from tests.support import (
    cases_all_gather,
    cases_all_gather_v,
    cases_all_reduce,
    cases_all_to_all,
    cases_all_to_all_v,
    cases_broadcast,
    cases_gather,
    cases_gather_v,
    cases_reduce,
    cases_reduce_scatter,
    cases_scan,
    cases_scatter,
    cases_scatter_v,
)
from tests.support.suite import judge, run_cases


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
    modules = (
        cases_all_gather,
        cases_all_gather_v,
        cases_all_reduce,
        cases_all_to_all,
        cases_all_to_all_v,
        cases_broadcast,
        cases_gather,
        cases_gather_v,
        cases_reduce,
        cases_reduce_scatter,
        cases_scan,
        cases_scatter,
        cases_scatter_v,
    )
    cases = [case for module in modules for case in module.sample(seed, comm.size, factor)]
    drawn = [cases[i] for i in rng.permutation(len(cases))[: 300 * factor]]
    return run_cases(comm, drawn)


def test_all_collectives_mixed(ranks, n, environment, seed, factor):
    judge(ranks(n, mixed, seed, factor, environment=environment, deadline=40 * factor), at_least=140)
