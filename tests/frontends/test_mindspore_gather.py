"""mint.distributed.gather: results, what stays untouched, handles, and refusals in MindSpore's words."""

import os

import ml_dtypes
import numpy as np
import pytest

import shmcoll.mindspore as ms
from shmcoll.errors import CollectiveMismatch
from shmcoll.mindspore import Tensor
from shmcoll.mindspore.mint.distributed import CommHandle, gather, init_process_group

NOT_INITED = (
    "RuntimeError: Distributed Communication has not been inited."
    "You can't invoke this interface yet. Please call `init()` method first."
)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_gather(ranks, n, asynchronous):
    def run(comm) -> list:
        init_process_group()
        found = []
        for dtype in (np.int8, np.uint64, np.float16, ml_dtypes.bfloat16, np.float64):
            for shape in ((), (3,), (0, 2), (2, 2)):
                for dst in range(n):
                    x = np.full(shape, comm.rank + 1).astype(dtype)
                    arrays = [np.full(shape, 99).astype(dtype) for _ in range(n)]
                    tensors = tuple(Tensor(one) for one in arrays)
                    handles = [
                        gather(x, arrays, dst, None, asynchronous),
                        gather(Tensor(x), tensors, dst, "hccl_world_group", asynchronous),
                    ]
                    if asynchronous:
                        assert [type(handle) for handle in handles] == [CommHandle] * 2
                        assert [handle.wait() for handle in handles[::-1] * 2] == [None] * 4
                    else:
                        assert handles == [None, None]
                    wanted = [np.full(shape, r + 1 if comm.rank == dst else 99).tolist() for r in range(n)]
                    found += [one.tolist() == value for one, value in zip(arrays, wanted, strict=True)]
                    found += [one.tolist() == value for one, value in zip(tensors, wanted, strict=True)]
        return [len(found), all(found)]

    assert ranks(n, run) == [[5 * 4 * n * 2 * n, True]] * n


def test_what_is_no_contiguous_array_is_written_in_place(ranks):
    def run(comm) -> list:
        init_process_group()
        room = np.zeros((2, 3), np.float32)
        x = np.full(2, comm.rank + 1, np.float32)
        gather(x, [room[:, 0], room[:, 2]], dst=True, async_op=True).wait()  # a bool passes for an int, as upstream
        return room.tolist()

    assert ranks(2, run) == [[[0, 0, 0]] * 2, [[1, 0, 2]] * 2]


def test_a_handle_is_returned_before_the_peers_have_come(ranks):
    """Rank 1 joins in only after it has heard from rank 0, which speaks after the call."""
    hear, speak = os.pipe()

    def run(comm) -> list:
        init_process_group()
        out = [Tensor([0]), Tensor([0])]
        if comm.rank == 1:
            os.read(hear, 1)
        handle = gather(Tensor([comm.rank + 5]), out, async_op=True)
        if comm.rank == 0:
            os.write(speak, b"!")
        handle.wait()
        return [one.tolist() for one in out]

    assert ranks(2, run) == [[[5], [6]], [[0], [0]]]
    os.close(hear)
    os.close(speak)


def test_handles_complete_in_any_order_of_waiting(ranks):
    def run(comm) -> list:
        init_process_group()
        outs = [[Tensor([0]), Tensor([0])] for _ in range(3)]
        handles = [gather(Tensor([comm.rank + 10 * i]), out, async_op=True) for i, out in enumerate(outs)]
        assert repr(handles[0]).startswith("CommHandle(handle=<shmcoll.Work ")
        for handle in reversed(handles):
            handle.wait()
        return [[one.tolist() for one in out] for out in outs]

    assert ranks(2, run) == [[[[10 * i], [10 * i + 1]] for i in range(3)], [[[0], [0]]] * 3]


def test_a_handle_of_nothing_is_complete():
    assert (CommHandle().wait(), repr(CommHandle())) == (None, "CommHandle(handle=None)")


def test_a_handle_raises_the_error_every_time(ranks, told):
    def run(comm) -> list:
        init_process_group()
        x = np.zeros(100 + comm.rank)  # so many that the sender does not run ahead
        handle = gather(x, [np.zeros_like(x)] * 2 if comm.rank else [x.copy(), x.copy()], async_op=True)
        errors = []
        for _ in range(2):
            try:
                handle.wait()
            except CollectiveMismatch as error:
                errors.append(str(error))
        return errors

    for first, again in ranks(2, run):
        assert first == again
        assert "gather" in first


def test_refusals_on_every_rank_in_order(ranks, told):
    """Each call has every later mistake as well; the group is used at the end."""

    def refusals(comm) -> list[str]:
        t, f = Tensor([1.0, 2.0]), np.zeros((2, 2), np.float32)
        before = told(lambda: gather(t, [t]))
        init_process_group()
        calls = (
            (1, 2, "0", 3, 4),
            (t, 2, "0", 3, 4),
            (t, [t, None], "0", 3, 4),
            (t, [t, np.zeros(3, int)], "0", 3, 4),
            (t, [t, f], "0", 3, 4),
            (t, [], "0", 3, 4),
            (t, [], 9, 3, 4),
            (t, [], 9, "mine", 4),
            (t, [], 9, "mine", True),
            (t, [], 9),
            (t, [], -1),
        )
        told_them = [told(lambda call=call: gather(*call)) for call in calls]
        for bad in (np.zeros(2, bool), np.zeros(2, complex)):
            told_them.append(told(lambda bad=bad: gather(bad, [bad.copy() for _ in range(comm.size)])))
        told_them.append(told(lambda: gather(t, [Tensor([0.0, 0.0]) for _ in range(comm.size)])))
        return [before, *told_them]

    for rank, found in enumerate(ranks(2, refusals)):
        assert found == [
            NOT_INITED,
            "TypeError: For gather, the input tensor must be tensor",
            "TypeError: Expected list or tuple, but got <class 'int'>.",
            "TypeError: Expected tensor, but got <class 'NoneType'>",
            "TypeError: tensor_lists dtype must be the same, but got Float32 and Int64.",
            "TypeError: tensor_lists shape must be the same, but got (2,) and (2, 2).",
            "TypeError: For gather, the dst must be int",
            "TypeError: The argument 'group' must be type of string, but got 'group' type : <class 'int'>.",
            "TypeError: The argument 'async_op' must be a bool, but got <class 'int'>.",
            f"RuntimeError: The group mine does not exist. Rank {rank} has: hccl_world_group; create_group makes one.",
            "RuntimeError: Group hccl_world_group doesn't contain the global rank 9; its ranks are [0, 1]",
            "TypeError: For 'get_group_rank_from_world_rank', the argument 'world_rank_id' must not be negative, but "
            "got -1.",
            "TypeError: For gather, the type of tensor must be an integer or floating type, but got Bool.",
            "TypeError: For gather, the type of tensor must be an integer or floating type, but got Complex128.",
            "nothing wrong: None",
        ]


def test_refusals_on_the_receiving_rank(ranks, told):
    def refusals(comm) -> list[str]:
        init_process_group()
        t = Tensor([1.0, 2.0])
        return [
            told(lambda: gather(t, [])),
            told(lambda: gather(t, [t] * 3)),
            told(lambda: gather(t, [Tensor([1])])),
            told(lambda: gather(t, [Tensor([1.0])])),
            told(lambda: gather(t, [Tensor([0.0, 0.0])], dst=True)),
        ]

    assert ranks(1, refusals) == [
        [
            "TypeError: The argument list tensor len must be equal to group rank size, but got 0.",
            "TypeError: The argument list tensor len must be equal to group rank size, but got 3.",
            "TypeError: The argument list tensor type must be equal to tensor type, but got Int64.",
            "TypeError: The argument list tensor shape must be equal to tensor shape, but got (1,).",
            "RuntimeError: Group hccl_world_group doesn't contain the global rank 1; its ranks are [0]",
        ]
    ]


def test_only_the_receiving_rank_needs_room(ranks):
    def run(comm) -> list:
        init_process_group()
        mine = [Tensor([0], ms.int32), Tensor([0], ms.int32)] if comm.rank else []
        gather(Tensor([comm.rank + 5], ms.int32), mine, dst=1)
        return [one.tolist() for one in mine]

    assert ranks(2, run) == [[], [[5], [6]]]
