"""Sizes that are bools count as integers, as in MindSpore: a program may compute them by a comparison."""

import numpy as np

from shmcoll.mindspore import Tensor
from shmcoll.mindspore.mint import distributed as d
from shmcoll.mindspore.ops import communication


def test_sizes_of_an_exchange_may_be_bools(ranks):
    """Each rank sends a row to rank 1 only; rows of one element, and of two."""

    def run(comm) -> list:
        d.init_process_group()
        me, found = comm.rank, []
        to, come = [rank == 1 for rank in range(2)], [me == 1] * 2
        for width in (1, 2):
            x = Tensor(np.full((1, width), me + 5))
            singly, together = Tensor(np.zeros((2 * me, width), int)), Tensor(np.zeros((2 * me, width), int))
            d.all_to_all_single(singly, x, come, to)
            communication.all_to_all_v_c(together, x, to * 2)
            found += [singly.tolist(), together.tolist()]
        return found

    assert ranks(2, run) == [[[]] * 4, [[[5], [6]]] * 2 + [[[5, 5], [6, 6]]] * 2]
