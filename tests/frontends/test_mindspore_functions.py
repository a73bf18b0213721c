"""The functional APIs of MindSpore against a numpy model: mint.distributed, ops.communication, comm_func."""

import numpy as np
import pytest

from shmcoll.mindspore import Tensor, communication
from shmcoll.mindspore.communication import comm_func, create_group
from shmcoll.mindspore.mint import distributed
from shmcoll.mindspore.ops import communication as ops_communication
from tests.support import cases_mindspore as cases


def mistakes(ranks, n, groups, kinds=(np.array, Tensor)):
    """What is wrong on each rank: on the world, and on the groups that it is in."""

    def run(comm) -> list[str]:
        distributed.init_process_group()
        told = cases.mistakes(None, list(range(n)), comm.rank, kinds)
        assert int(told[0]) > 100 * len(kinds)
        for members in groups:
            if comm.rank in members:
                create_group(str(members), members)
                told += cases.mistakes(str(members), members, comm.rank, kinds)[1:]
        return told[1:]

    return ranks(n, run)


def every_second(n):
    return [list(range(0, n, 2)), list(range(1, n, 2))]


@pytest.mark.parametrize("n", [1, 2, 4, pytest.param(8, marks=pytest.mark.stress)])
def test_every_function_on_the_world_and_on_groups(ranks, n):
    """The groups are the first ranks, every second rank from 0 and from 1, and all ranks once more."""
    groups = [list(range(n // 2 + 1)), *every_second(n), list(range(n))] if n > 1 else []
    assert mistakes(ranks, n, groups) == [[]] * n


@pytest.mark.slow
def test_every_function_at_8_ranks(ranks):
    """With one kind of tensors, and fewer groups."""
    assert mistakes(ranks, 8, every_second(8), (Tensor,)) == [[]] * 8


def test_every_name_has_a_case():
    covered = {case.__name__ for case in (*cases.CASES, *cases.MORE_CASES)} - set(cases.IN_COMMON)
    covered |= set.union(*cases.IN_COMMON.values())
    assert covered >= set(distributed.__all__)
    assert covered | {"TCPStore", "set_comm_ops_inplace"} == set(ops_communication.__all__)
    with open(cases.__file__, encoding="utf-8") as file:
        text = file.read()
    unused = [name for name in comm_func.__all__ if f"f.{name}" not in text]
    assert unused == []
    assert [len(m.__all__) for m in (distributed, ops_communication, comm_func, communication)] == [37, 42, 17, 16]


def test_results_arrive_when_the_handle_is_dropped(ranks):
    """A blocking call of the same group comes after all asynchronous ones."""

    def run(comm) -> list:
        distributed.init_process_group()
        x, outs = Tensor([comm.rank + 1.0]), [Tensor([0.0]), Tensor([0.0])]
        same = [Tensor([0.0])] * 2
        distributed.gather(x, outs, async_op=True)
        distributed.gather(x, same, async_op=True)
        distributed.all_to_all(pair := [Tensor([0.0]), Tensor([0.0])], [x, x], async_op=True)
        distributed.barrier()
        return [[one.asnumpy().tolist() for one in some] for some in (outs, same, pair)]

    assert ranks(2, run) == [
        [[[1.0], [2.0]], [[2.0], [2.0]], [[1.0], [2.0]]],
        [[[0.0]] * 2, [[0.0]] * 2, [[1.0], [2.0]]],
    ]


def test_arrays_that_are_not_contiguous(ranks):
    def run(comm) -> list:
        distributed.init_process_group()
        room = np.zeros((2, 3))
        x = np.arange(4.0).reshape(2, 2).T[comm.rank]
        distributed.all_gather([room[:, 0], room[:, 2]], x)
        distributed.all_reduce(room[:, 1:2])
        distributed.all_to_all_single(out := np.zeros((2, 4))[:, ::2], room.T[:2], async_op=True).wait()
        return [room.tolist(), out.tolist()]

    room = [[0.0, 0.0, 1.0], [2.0, 0.0, 3.0]]
    assert ranks(2, run) == [[room, [[0.0, 2.0]] * 2], [room, [[0.0, 0.0]] * 2]]
