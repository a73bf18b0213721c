"""How operators print, which attributes they have, and what they refuse.

MindSpore 2.10 printed the texts of `PRINTED` and `MADE`.
"""

import numpy as np
import pytest

import shmcoll.mindspore as ms
from shmcoll.mindspore import Tensor, communication, ops
from shmcoll.mindspore.ops.operations import comm_ops

WORLD = "group=hccl_world_group"
NOWHERE = [-1] * 8
NO_BORDER = [0] * 4
TYPES = (
    "[mindspore.float16, mindspore.float32, mindspore.float64, mindspore.bfloat16, mindspore.int8, mindspore.int16, "
    "mindspore.int32, mindspore.int64, mindspore.uint8, mindspore.uint16, mindspore.uint32, mindspore.uint64]"
)

PRINTED = [
    ("AllReduce", (), f"op=sum, {WORLD}, fusion=0, index=0, no_eliminate=True"),
    ("AllReduce", ("max", "nope"), "op=max, group=nope, fusion=0, index=0, no_eliminate=True"),
    ("Reduce", (5,), f"dest_rank=5, op=sum, {WORLD}"),
    ("ReduceScatter", (), f"op=sum, {WORLD}, rank_size=1, fusion=0, no_eliminate=True"),
    ("ReduceScatterV", (), f"op=sum, {WORLD}, rank_size=1, rank_id=0"),
    ("AllGather", (), f"{WORLD}, rank_size=1, fusion=0, mean_flag=False, no_eliminate=True"),
    ("AllGatherV", (), f"{WORLD}, rank_size=1, mean_flag=False, rank_id=0"),
    ("Broadcast", (-1,), f"root_rank=-1, {WORLD}, no_eliminate=True"),
    ("CollectiveScatter", (), f"src_rank=0, {WORLD}, rank_id=0, rank_size=1"),
    ("CollectiveGather", (0,), f"dest_rank=0, {WORLD}, rank_size=1, rank_id=0"),
    ("Barrier", (3,), "group=3, side_effect_mem=True"),
    ("AlltoAll", (1, 0, 0), f"split_count=1, split_dim=0, concat_dim=0, {WORLD}, no_eliminate=True, rank_size=1"),
    ("AlltoAllV", (None,), f"{WORLD}, block_size=1"),
    ("AlltoAllVC", (), f"{WORLD}, block_size=1, transpose=False, rank_size=1, rank_id=0"),
    (
        "NeighborExchange",
        ([0], [0], ([1],), ([1],), ms.float32),
        f"send_rank_ids=[0], recv_rank_ids=[0], recv_shapes=([1],), send_shapes=([1],), recv_type=Float32, {WORLD}, "
        "no_eliminate=True",
    ),
    (
        "NeighborExchangeV2",
        (NOWHERE, NO_BORDER, NOWHERE, NO_BORDER, "NHWC"),
        f"send_rank_ids={NOWHERE}, send_lens={NO_BORDER}, recv_rank_ids={NOWHERE}, recv_lens={NO_BORDER}, "
        f"data_format=NHWC, {WORLD}, no_eliminate=True",
    ),
    ("Send", (0, 0), f"sr_tag=0, dest_rank=0, {WORLD}, group_back=hccl_world_group, no_eliminate=True"),
    (
        "Receive",
        (0, 0, [1], ms.float32),
        f"sr_tag=0, src_rank=0, shape=[1], dtype=Float32, {WORLD}, group_back=hccl_world_group, no_eliminate=True",
    ),
    (
        "BatchISendIRecv",
        (["isend"], [0]),
        f"op_types=['isend'], remote_ranks=[0], receive_shapes=(), receive_dtypes=(), {WORLD}, no_eliminate=True",
    ),
]


def type_text(operator: str, argument: str, wanted: str, got: str) -> str:
    return f"TypeError: For '{operator}', the type of '{argument}' should be {wanted}, but got type '{got}'."


TUPLE = "one of '['tuple', 'list']'"
MADE = [
    *((name, ("sum", 3), type_text(name, "group", "'str'", "int")) for name in ("ReduceScatter", "ReduceScatterV")),
    *((name, (3, 4), type_text(name, "op", "'str'", "int")) for name in ("ReduceScatter", "ReduceScatterV")),
    *((name, (3,), type_text(name, "group", "'str'", "int")) for name in ("AllGather", "AllGatherV")),
    *((name, (0, 3), type_text(name, "group", "'str'", "int")) for name in ("CollectiveScatter", "CollectiveGather")),
    ("AllReduce", (3, 4), "TypeError: For 'AllReduce', the 'op' must be str, but got int."),
    ("Reduce", (0, 3), type_text("Reduce", "op", "'str'", "int")),
    ("Reduce", ("x", 3, 3), type_text("Reduce", "group", "'str'", "int")),
    ("Broadcast", (1.0, 3), type_text("Broadcast", "root_rank", "'int'", "float")),
    ("Broadcast", (True,), type_text("Broadcast", "root_rank", "'int'", "bool")),
    ("Broadcast", (0, 3), type_text("Broadcast", "group", "'str'", "int")),
    *(
        (
            name,
            (3, 1.0),
            "TypeError: For 'get_group_size', the argument 'group' must be type of string, "
            "but got 'group' type : <class 'int'>.",
        )
        for name in ("AlltoAllV", "AlltoAllVC")
    ),
    ("AlltoAllV", (None, 1.0), type_text("AlltoAllV", "block_size", "'int'", "float")),
    ("AlltoAllV", (None, True), type_text("AlltoAllV", "block_size", "'int'", "bool")),
    ("AlltoAllVC", (None, "x"), type_text("AlltoAllVC", "block_size", "'int'", "str")),
    (
        "Receive",
        (0, 0, [1], ms.bool_),
        f"TypeError: For 'Receive', the type of 'dtype' must be in {TYPES}, but got Bool.",
    ),
    ("Receive", (0, 0, [1], 3), f"TypeError: For 'Receive', the type of 'dtype' must be in {TYPES}, but got 3."),
    ("BatchISendIRecv", (3, 3, 3, 3), type_text("BatchISendIRecv", "receive_shapes", TUPLE, "int")),
    ("BatchISendIRecv", (3, 3, [()], 3), type_text("BatchISendIRecv", "receive_dtypes", TUPLE, "int")),
    ("BatchISendIRecv", (3, 3), type_text("BatchISendIRecv", "op_types", TUPLE, "int")),
    ("BatchISendIRecv", (["isend"], 0), type_text("BatchISendIRecv", "remote_ranks", TUPLE, "int")),
    (
        "BatchISendIRecv",
        (["isend"], [], [()], []),
        "ValueError: length of receive_shapes and receive_shapes must be the same, "
        "but got receive_shapes: 1  and receive_shapes: []",
    ),
    ("BatchISendIRecv", (["isend"], []), "ValueError: length of op_types and remote_ranks must be the same."),
    (
        "NeighborExchangeV2",
        ([3], NO_BORDER, [1.0], NO_BORDER, "NCHW"),
        "ValueError: The 'rank_id in send_rank_ids' must be in range of [0, 1), but got 3 with type 'int'.",
    ),
    (
        "NeighborExchangeV2",
        ([-1], NO_BORDER, [1.0], NO_BORDER, "NCHW"),
        "TypeError: The 'rank_id in recv_rank_ids' must be 'int',  but got 'float'.",
    ),
]


@pytest.mark.parametrize(("name", "arguments", "text"), PRINTED)
def test_how_operators_print(name, arguments, text):
    made = getattr(ops, name)(*arguments)
    assert repr(made) == f"Prim[{name}]<{text}>"
    assert getattr(comm_ops, name) is getattr(ops, name)
    for attribute, value in made.get_attr_dict().items():
        if attribute in ("group", "rank_size", "rank_id", "op", "block_size", "dest_rank", "shape", "op_types"):
            assert getattr(made, attribute) == value


@pytest.mark.parametrize(("name", "arguments", "text"), MADE)
def test_refused_when_made(told, name, arguments, text):
    assert told(lambda: getattr(ops, name)(*arguments)) == text


def no_tensor(name: str) -> str:
    return f"TypeError: For '{name}', input must be a Tensor, but got: Int64."


def no_tuple(name: str) -> str:
    return f"TypeError: For primitive[{name}], the input[0] should be a Tuple, but got Tensor[Float32]."


def no_number(name: str) -> str:
    return f"TypeError: For '{name}', the dtype of the input must be a number, but got Bool."


def border(send, send_lens, receive=NOWHERE, receive_lens=NO_BORDER, data_format="NCHW"):
    return ops.NeighborExchangeV2(send, send_lens, receive, receive_lens, data_format)


def test_refused_by_the_call(ranks, told):
    """In a job of one rank. A text that ends in "..." is the beginning."""

    def differing(comm) -> list[tuple[str, str]]:
        communication.init()
        t, i, yes = Tensor(np.ones((3, 2), np.float32)), Tensor([1, 2, 3]), Tensor([True])
        scalar, image = Tensor(1.0), Tensor(np.ones((1, 1, 2, 2)))
        batch = ops.BatchISendIRecv
        exchange = ops.NeighborExchange([0], [0], ([2],), ([2],), ms.float32)
        not_there = "RuntimeError: The group nope does not exist..."
        calls = [
            *((lambda make=make: make(5), no_tensor(make.name)) for make in (
                ops.AllReduce(), ops.Reduce(0), ops.ReduceScatter(), ops.AllGather(), ops.CollectiveScatter(),
                ops.CollectiveGather(0), ops.AlltoAll(1, 0, 0), ops.Send(0, 0), border(NOWHERE, NO_BORDER),
            )),
            *((lambda make=make: make(yes), no_number(make.name)) for make in (
                ops.AllReduce(), ops.Reduce(0), ops.ReduceScatter(),
            )),
            (lambda: ops.ReduceScatterV()(yes, [1]), no_number("ReduceScatterV")),
            (lambda: ops.AllReduce(group="nope")(t), not_there),
            (lambda: ops.Broadcast(0, "nope")((t,)), not_there),
            (lambda: ops.Barrier("nope")(), not_there),
            (lambda: ops.Send(0, 0, "nope")(t), not_there),
            (lambda: ops.AllReduce("nope")(t), "ValueError: all_reduce on rank 0: unknown op 'nope'..."),
            (lambda: ops.Reduce(1)(t), "ValueError: reduce on rank 0: ..."),
            (lambda: ops.Broadcast(0)(t), no_tuple("Broadcast")),
            (lambda: ops.Broadcast(0)((t, 5)), no_tensor("Broadcast")),
            (lambda: ops.Broadcast(3)((t,)), "ValueError: broadcast on rank 0: ..."),
            (
                lambda: ops.AllGather()(scalar),
                "ValueError: For 'AllGather', the 'x shape' must be int and must > 0, but got '0' with type 'int'.",
            ),
            (
                lambda: ops.CollectiveGather(0)(scalar),
                "ValueError: For 'CollectiveGather', the input must have at least one dimension, but its shape is ().",
            ),
            (lambda: ops.ReduceScatter()(scalar), "ValueError: the shape size of 'input_shape' can not be 0."),
            (lambda: ops.CollectiveScatter()(scalar), "ValueError: the shape size of 'input_shape' can not be 0."),
            (
                lambda: ops.AllGatherV()(i, [1.5]),
                "TypeError: For 'AllGatherV', the 'output_split_sizes' must be integers, but got [1.5].",
            ),
            (lambda: ops.AllGatherV()(i, [2]), "ValueError: all_gather_v..."),
            (lambda: ops.ReduceScatterV()(i, [2]), "ValueError: reduce_scatter_v on rank 0: ..."),
            (lambda: ops.AlltoAllV()(i, [2], [2]), "ValueError: all_to_all_v on rank 0: ..."),
            (lambda: ops.AlltoAllV()(i, [3], [2]), "ValueError: all_to_all_v..."),
            (
                lambda: ops.AlltoAllVC()(i, [3, 0]),
                "ValueError: For 'AlltoAllVC', the 'send_count_matrix' must have 1 * 1 elements, but has 2.",
            ),
            (lambda: exchange(t), no_tuple("NeighborExchange")),
            (
                lambda: exchange((t,)),
                "ValueError: For 'NeighborExchange', the input must be 1 tensors of shapes [(2,)], "
                "but its shapes are [(3, 2)].",
            ),
            (
                lambda: exchange((Tensor([1, 2]),)),
                "TypeError: For 'NeighborExchange', the input must be of 'recv_type' Float32, but got Int64.",
            ),
            (
                lambda: ops.NeighborExchange([9], [0], ([2],), ([2],), ms.int64)((Tensor([1, 2]),)),
                "ValueError: Rank 9 is not in the group: its ranks are 0 to 0.",
            ),
            (
                lambda: border((-1,), NO_BORDER)(image),
                "ValueError: For 'NeighborExchangeV2', the 'send_rank_ids' must have 8 entries, but got (-1,).",
            ),
            (
                lambda: border(NOWHERE, 3)(image),
                "TypeError: For 'NeighborExchangeV2', the 'send_lens' must be a list, but got 3.",
            ),
            (
                lambda: border([0, 0, *NOWHERE[2:]], NO_BORDER)(image),
                "ValueError: For 'NeighborExchangeV2', the 'send_rank_ids' must not repeat a rank, "
                "but got [0, 0, -1, -1, -1, -1, -1, -1].",
            ),
            (
                lambda: border(NOWHERE, NO_BORDER, NOWHERE, [0, -1, 0, 0])(image),
                "ValueError: For 'NeighborExchangeV2', the 'recv_lens' must not be negative, but got [0, -1, 0, 0].",
            ),
            (
                lambda: border(NOWHERE, NO_BORDER, data_format="NHWC")(image),
                "ValueError: For 'NeighborExchangeV2', the 'data_format' must be 'NCHW', but got 'NHWC'.",
            ),
            (
                lambda: border(NOWHERE, NO_BORDER)(t),
                "ValueError: For 'NeighborExchangeV2', the input must have 4 dimensions, but its shape is (3, 2).",
            ),
            (
                lambda: border(NOWHERE, [2, 0, 0, 3])(image),
                "ValueError: For 'NeighborExchangeV2', the 'send_lens' [2, 0, 0, 3] are more than the image "
                "(1, 1, 2, 2) has.",
            ),
            (lambda: ops.Send(0, 9)(t), "ValueError: send on rank 0: ..."),
            (lambda: ops.Receive(0, 9, [1], ms.int32)(), "ValueError: recv on rank 0: ..."),
            (
                lambda: (ops.Send(7, 0)(i), ops.Receive(7, 0, [4], ms.int64)())[1],
                "ValueError: For 'Receive', the 'shape' [4] has 4 elements, but the message of rank 0 with 'sr_tag' 7 "
                "has 3.",
            ),
            (
                lambda: (ops.Send(8, 0)(i), ops.Receive(8, 0, [3], ms.int32)())[1],
                "TypeError: recv(source=0, tag=8) on rank 0: ...",
            ),
            (lambda: batch(["isend"], [0])(t), no_tuple("BatchISendIRecv")),
            (
                lambda: batch(["isend"], [0])((None,)),
                "RuntimeError: For 'BatchISendIRecv', there must be one tensor for each 'isend', "
                "but got 0 tensors and 1 'isend'.",
            ),
            (
                lambda: batch(["irecv"], [0])(),
                "ValueError: For 'BatchISendIRecv', the 'op_types' must be 'isend' or 'irecv', with a shape for each "
                "'irecv', but got ['irecv'] and shapes ().",
            ),
            (
                lambda: batch(["isend", "irecv"], [0, 0], [[4]], [ms.int64])((i,)),
                "ValueError: For 'BatchISendIRecv', a tensor of shape (4,) was expected from rank 0, "
                "but its message has 3 elements.",
            ),
        ]  # fmt: skip
        found = []
        for call, text in calls:
            said = told(call)
            if said != text and not (text.endswith("...") and said.startswith(text[:-3])):
                found.append((text, said))
        return found

    assert ranks(1, differing) == [[]]


def test_a_first_dimension_that_is_not_divisible(told, monkeypatch):
    monkeypatch.setenv("RANK_SIZE", "4")
    for made in (ops.ReduceScatter(), ops.CollectiveScatter()):
        assert told(lambda made=made: made(np.ones(6))) == (
            "ValueError: the first dimension for 'input_shape' must be divided by 'rank_size', "
            "but got input_shape[0]: 6, rank_size: 4"
        )


def test_counts_that_do_not_fit_are_refused_on_all_ranks(ranks, told):
    """And the group goes on."""

    def refusals(comm) -> list[str]:
        communication.init()
        x = np.ones(2)
        return [
            told(lambda: ops.AlltoAllV()(x, [1, 1], [1, 1 + comm.rank])),
            told(lambda: ops.AllGatherV()(x, [2, 3])),
            told(lambda: ops.NeighborExchange([], [], (), (), ms.float64)(())),
            told(lambda: ops.NeighborExchange([1 - comm.rank], [1 - comm.rank], ([1],), ([2],), ms.float64)((x,))),
            told(lambda: ops.CollectiveScatter(0)(np.ones(200 + 2 * comm.rank))),
            told(lambda: ops.AllReduce()(x)),
        ]

    for found in ranks(2, refusals):
        assert [text.partition(":")[0] for text in found] == [
            "ValueError", "ValueError", "nothing wrong", "ValueError", "ValueError", "nothing wrong",
        ]  # fmt: skip
