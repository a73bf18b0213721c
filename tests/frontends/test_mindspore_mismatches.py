"""Calls that differ between ranks: an error on all ranks of the group, and other groups go on."""

import numpy as np
import pytest

from shmcoll.errors import CollectiveMismatch, RankFailed
from shmcoll.mindspore import Tensor, communication, ops
from shmcoll.mindspore.mint.distributed import all_reduce, gather


def test_different_shapes_and_types_are_an_error_on_all_ranks(ranks):
    """Each call ends a group of its own. The arrays are so long that no sender runs ahead."""

    def run(comm) -> list:
        communication.init()
        n, r = comm.size, comm.rank
        shaped = Tensor(np.ones((n, 100 + r), np.float32))
        typed = Tensor(np.ones((n, 100), (np.float32, np.int32)[r]))

        def gathered(x: Tensor, group: str) -> None:
            gather(x, [Tensor(np.zeros(x.shape), x.dtype) for _ in range(n)], group=group)

        calls = [
            *(lambda g, x=x: ops.AllReduce(group=g)(x) for x in (shaped, typed)),
            *(lambda g, x=x: ops.AlltoAll(n, 0, 1, g)(x) for x in (shaped, typed)),
            *(lambda g, x=x: gathered(x, g) for x in (shaped, typed)),
        ]
        found = []
        for i, call in enumerate(calls):
            communication.create_group(f"group {i}", [0, 1])
            try:
                call(f"group {i}")
            except CollectiveMismatch as error:
                found.append("rank 0" in str(error) and "rank 1" in str(error))
        return [*found, ops.AllReduce()(Tensor([1.0])).tolist()]

    assert ranks(2, run) == [[True] * 6 + [[2]]] * 2


@pytest.mark.parametrize("wrong", ["type", "list", "operator"])
def test_a_rank_that_refuses_and_ends_makes_the_others_fail(ranks, wrong):
    """Their error names it; nobody waits for the time-out."""

    def run(comm) -> None:
        communication.init()
        x, bad = Tensor([1.0, 2.0]), comm.rank == 1
        if wrong == "type":
            ops.AllReduce()(Tensor([True]) if bad else x)
        elif wrong == "list":
            gather(x, [Tensor([0.0])] if bad else [x, x], dst=1)
            ops.Barrier()()
        else:
            all_reduce(x, "xor" if bad else "sum")

    one, other = ranks.outcomes(2, run)
    assert isinstance(other.error, TypeError)
    assert isinstance(one.error, RankFailed)
    assert "rank 1 raised TypeError" in str(one.error)
