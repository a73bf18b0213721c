"""What the functional APIs of MindSpore refuse: type and text, in MindSpore's order. One rank is enough."""

from functools import partial

import numpy as np

from shmcoll.mindspore import Tensor, communication
from shmcoll.mindspore.communication import comm_func
from shmcoll.mindspore.mint import distributed as d
from shmcoll.mindspore.ops import communication as o

T, INT, BOOL = np.ones(2, np.float32), np.ones(2, np.int32), np.ones(2, bool)
NOT_A_STRING = "TypeError: The argument 'group' must be type of string, but got 'group' type : <class 'int'>."
NOT_A_BOOL = "TypeError: The argument 'async_op' must be a bool, but got <class 'int'>."
UNKNOWN = "RuntimeError: The group no does not exist. Rank 0 has: hccl_world_group, one; create_group makes one."
NO_RANK = "RuntimeError: Group hccl_world_group doesn't contain the global rank 7; its ranks are [0]"
NO_LIST = "TypeError: Expected list or tuple, but got <class 'int'>."
NO_TENSOR = "TypeError: Expected tensor, but got <class 'NoneType'>"
LENGTH = "TypeError: The argument list tensor len must be equal to group rank size, but got 0."
DTYPES = "TypeError: all_to_all input dtype must be the same, but got Float32 and Int32."
ALIKE = "TypeError: tensor_lists dtype must be the same, but got Float32 and Int32."
NOT_SUPPORTED = "ValueError: Non-inplace mode is currently not supported."
OPS = "sum, prod, min, max, avg"


def no(name: str, what: str = "input") -> str:
    return f"TypeError: For {name}, the {what} tensor must be tensor"


def must(name: str, what: str) -> str:
    return f"TypeError: For {name}, the {what} must be int"


def no_op(name: str, known: str = OPS) -> tuple[str, str]:
    return (
        f"TypeError: For {name}, the input op type must be str",
        f"TypeError: For {name}, the input op value must be one of {known}",
    )


#: function: arguments and the error. Each call has later mistakes as well.
REDUCING = {
    name: [
        ((*[None] * tensors, *rank, 5, 3, 4), no(name)),
        *([((T, "0", 5, 3, 4), must(name, "dst"))] if rank else []),
        ((*[T] * tensors, *rank, 5, 3, 4), no_op(name)[0]),
        ((*[T] * tensors, *rank, "xor", 3, 4), no_op(name)[1]),
        ((*[T] * tensors, *rank, "sum", 3, 4), NOT_A_STRING),
        ((*[T] * tensors, *rank, "sum", "no", 4), NOT_A_BOOL),
        ((*[T] * tensors, *rank, "sum", "no"), UNKNOWN),
        (
            (*[BOOL] * tensors, *rank, "sum"),
            f"TypeError: For {name}, the type of tensor must be an integer or floating type, but got Bool.",
        ),
    ]
    for name, tensors, rank in (("all_reduce", 1, ()), ("reduce", 1, (0,)), ("reduce_scatter_tensor", 2, ()))
}
PLACED = {
    "all_gather_into_tensor": [
        ((None, None), no("all_gather_into_tensor")),
        ((None, T, 3), no("all_gather_into_tensor", "output")),
        ((T, T, 3, 4), NOT_A_STRING),
        ((T, T, None, 4), NOT_A_BOOL),
        (
            (np.ones(3), T),
            "ValueError: For 'all_gather_into_tensor', output_tensor shape must be equal to (2,), but got (3,)",
        ),
        (
            (INT, T),
            "ValueError: For 'all_gather_into_tensor', output_tensor type must be equal to Float32, but got Int32",
        ),
    ],
    "all_gather_into_tensor_uneven": [
        ((None, None, None, 3, 4), NOT_A_STRING),
        ((None, None, None, None, 4), NOT_A_BOOL),
        ((None, None), no("all_gather_into_tensor_uneven")),
        (
            (np.ones((3, 2)), np.ones((1, 2)), [1]),
            "ValueError: For 'all_gather_into_tensor_uneven', output_tensor shape must be equal to (1, 2), "
            "but got (3, 2)",
        ),
    ],
    "reduce_scatter_tensor_uneven": [
        ((None, None, None, 5), no_op("reduce_scatter_tensor_uneven")[0]),
        ((None, None, None, "prod"), no_op("reduce_scatter_tensor_uneven", "sum, min, max, avg")[1]),
        ((None, None, None, "sum", 3, 4), NOT_A_STRING),
        ((None, None, None, "sum", None, 4), NOT_A_BOOL),
        ((None, None), no("reduce_scatter_tensor_uneven")),
    ],
    "broadcast": [
        ((None, "0"), no("broadcast")),
        ((T, "0", 3), must("broadcast", "src")),
        ((T, 7, 3, 4), NOT_A_STRING),
        ((T, 7, None, 4), NOT_A_BOOL),
        ((T, 7, "no"), UNKNOWN),
        ((T, 7), NO_RANK),
    ],
    "barrier": [((3, 4), NOT_A_STRING), ((None, 4), NOT_A_BOOL), (("no",), UNKNOWN)],
    "gather_into_tensor": [
        ((None, None, "0"), no("gather_into_tensor")),
        ((None, T, "0"), no("gather_into_tensor", "output")),
        ((T, T, "0", 3), must("gather_into_tensor", "dst")),
        ((T, T, 7, 3, 4), NOT_A_STRING),
        ((T, T, 7), NO_RANK),
    ],
    "scatter_tensor": [
        ((None, None, "0"), no("scatter_tensor")),
        ((None, T, "0"), no("scatter_tensor", "output")),
        ((T, T, "0", 3), must("scatter_tensor", "src")),
        ((T, T, 7, None, 4), NOT_A_BOOL),
        ((T, T, 7), NO_RANK),
        (
            (T, np.ones((), np.float32), 0),
            "ValueError: For 'scatter_tensor', the first dimension for 'input_shape' must be divided by 'rank_size', "
            "but got 'input_shape' (), 'rank_size' 1.",
        ),
    ],
}
LISTS = {
    "all_gather": [
        ((5, None), NO_LIST),
        (([None], None), NO_TENSOR),
        (([T, INT], None), DTYPES),
        (([], None), no("all_gather_into_tensor")),
        (([], T, 3, 4), NOT_A_STRING),
        (([], T, None, 4), NOT_A_BOOL),
        (([], T), LENGTH),
        (([np.ones(3)], INT), "TypeError: For all_gather, the output shape should be (3,), but got (2,)."),
        (([T], INT), "TypeError: For all_gather, the output dtype should be Float32, but got Int32."),
    ],
    "reduce_scatter": [
        ((None, 5), NO_LIST),
        ((None, [None]), NO_TENSOR),
        ((None, [T, INT]), DTYPES),
        ((None, []), no("reduce_scatter", "output")),
        ((T, [], 5, 3), NOT_A_STRING),
        ((T, [], 5, None, 4), NOT_A_BOOL),
        ((T, [], 5, "no"), no_op("reduce_scatter")[0]),
        ((T, [], "xor", "no"), no_op("reduce_scatter")[1]),
        ((T, []), LENGTH),
        ((T, [np.ones(3)]), "TypeError: For reduce_scatter, the output shape should be (3,), but got (2,)."),
        ((T, [INT]), "TypeError: For reduce_scatter, the output dtype should be Int32, but got Float32."),
    ],
    "scatter": [
        ((None, 5), NO_LIST),
        ((None, [T, INT]), ALIKE),
        ((None, []), no("scatter_tensor", "output")),
        ((T, [], "0"), must("scatter_tensor", "src")),
        ((T, [], 7, 3), NOT_A_STRING),
        ((T, [], 7), NO_RANK),
        ((T, []), LENGTH),
        ((T, [INT]), "TypeError: The argument list tensor type must be equal to tensor type, but got Int32."),
        (
            (T, [np.ones(3, np.float32)]),
            "TypeError: The argument list tensor shape must be equal to tensor shape, but got (3,).",
        ),
    ],
    "all_to_all": [
        ((5, 5, 3), NOT_A_STRING),
        ((5, 5, None, 4), NOT_A_BOOL),
        ((5, 5), NO_LIST),
        (([T], [None]), NO_TENSOR),
        (([None], [T, INT]), NO_TENSOR),
        (([T], [T, INT]), DTYPES),
        (([INT, T], [T]), "TypeError: all_to_all input dtype must be the same, but got Int32 and Float32."),
        (
            ([T], [T, T]),
            "ValueError: For all_to_all, there must be a tensor for each of 1 ranks, but got 2 inputs and 1 outputs",
        ),
        (
            ([INT], [T]),
            "ValueError: For all_to_all, the outputs must be of the type of the inputs, Float32, but got Int32",
        ),
    ],
    "all_to_all_single": [
        ((T, None), NO_TENSOR),
        ((None, T), NO_TENSOR),
        ((T, T, None, None, 3), NOT_A_STRING),
        ((T, T, None, None, None, 4), NOT_A_BOOL),
    ],
    "all_to_all_v_c": [
        ((T, None, 5), NO_TENSOR),
        ((T, T, 5, 3), NOT_A_STRING),
        ((T, T, 5), "TypeError: send_count_matrix must be list, but got <class 'int'>"),
        ((T, T, [1.0]), "TypeError: send_count_matrix elements must be of type int"),
        ((T, T, [1, 1]), "TypeError: send_count_matrix must be square matrix, but got 2."),
        (
            (T, T.reshape(1, 2), [1]),
            "ValueError: The input and output dimensions except 0 must be of equal size, but got 2 and 1.",
        ),
    ],
}
SELF = (
    "ValueError: Invalid destination rank: destination rank should not be the same as the rank of the current process."
)
NOT_FOUND = (
    "KeyError: \"For 'get_group_rank_from_world_rank_from_cache', the argument 'group' is not found in GROUP_RANKS, "
    "'group' : no, 'world_rank_id' : 7\""
)
MESSAGES = {
    "send": [
        ((None, "0"), no("send")),
        ((T, "0", 3), must("send", "dst")),
        ((T, 0, 3), NOT_A_STRING),
        ((T, 0, "no"), SELF),
        ((T, 7, "no"), NOT_FOUND),
        ((T, 7), NO_RANK),
        (
            (T, 7, "one"),
            "KeyError: \"For 'get_group_rank_from_world_rank_from_cache', the argument 'world_rank_id' is not found in "
            "GROUP_RANKS, 'group' : one, 'world_rank_id' : 7\"",
        ),
    ],
    "isend": [((None, "0"), no("isend")), ((T, "0", 3), must("isend", "dst")), ((T, 0, "no"), SELF)],
    "recv": [
        ((None, "0"), no("recv")),
        ((T, "0", 3), must("recv", "src")),
        ((T, 7, 3), NOT_A_STRING),
        ((T, 7, "no"), NOT_FOUND),
    ],
    "irecv": [
        ((None, "0"), no("irecv")),
        ((T, "0", 3), NOT_A_STRING),
        ((T, "0"), must("irecv", "src")),
        ((T, 7, "no"), NOT_FOUND),
    ],
    "P2POp": [
        (("send", None, "0"), "TypeError: Expected op to be of type isend or irecv, but got send"),
        ((len, None, "0"), "TypeError: Expected op to be of type isend or irecv, but got <built-in function len>"),
        (("isend", None, "0"), "TypeError: Expected tensor to be Tensor, but got <class 'NoneType'>."),
        (("isend", T, "0", None, 1), must("P2POp", "peer")),
        (("isend", T, 0, None, 1), "NotImplementedError: tag is not support yet."),
    ],
    "batch_isend_irecv": [
        (([],), "TypeError: p2p_op_list can not be empty list."),
        (([T],), "TypeError: The elements in p2p_op_list must be type of P2POp."),
        (
            ([d.P2POp("isend", T, 0), d.P2POp("isend", T, 0, "one")],),
            "TypeError: The group name in p2p_op_list must be consistent.",
        ),
        (([d.P2POp("isend", T, 7)],), NO_RANK),
    ],
}
OBJECTS = {
    "all_gather_object": [
        ((5, 5, 3), "TypeError: For 'all_gather_object', the argument 'group' must be type of string, but got 'group' "
        "type : <class 'int'>."),
        (([], 5), "TypeError: The len of argument object_list must be equal to group rank size, but got 0."),
    ],
    "gather_object": [
        ((5, 5, "0"), must("gather_object", "dst")),
        ((5, [], 7), NO_RANK),
        ((5, []), "TypeError: The len of object_gather_list must be equal to group rank size, but got 0."),
        (
            (5,),
            "TypeError: The len of object_gather_list must be equal to group rank size, but got <class 'NoneType'>.",
        ),
    ],
    "broadcast_object_list": [
        (([], "0"), must("broadcast_object_list", "src")),
        (([], 7), "TypeError: The object_list can not be empty."),
        (([1], 7), NO_RANK),
    ],
    "scatter_object_list": [
        (([], [], "0"), "TypeError: The scatter_object_output_list can not be empty."),
        (([1], [], "0"), must("scatter_object_list", "src")),
        (([1], []), "TypeError: The len of scatter_object_input_list must be equal to group rank size, but got 0."),
    ],
    "send_object_list": [
        ((5, "0", 3), must("send_object_list", "dst")),
        ((5, 0, 3), NOT_A_STRING),
        ((5, 0), "TypeError: For send_object_list, the object_list must be a list"),
        (([], 0), SELF),
    ],
    "recv_object_list": [
        ((5, "0", 3), must("recv_object_list", "src")),
        ((5, 0), "TypeError: For recv_object_list, the object_list must be a list"),
    ],
}  # fmt: skip
P2P = comm_func.P2POp
RETURNING = {
    "all_reduce": [
        ((None, 5), no("all_reduce")),
        ((T, 5), no_op("all_reduce")[0]),
        ((T, "avg"), no_op("all_reduce", "sum, prod, min, max")[1]),
        ((T, "sum", 3), NOT_A_STRING),
        ((T, "sum", "no"), UNKNOWN),
    ],
    "all_gather_into_tensor": [((None,), no("all_gather_into_tensor")), ((T, "no"), UNKNOWN)],
    "reduce_scatter_tensor": [((None,), no("reduce_scatter_tensor")), ((T, "xor"), no_op("reduce_scatter_tensor")[1])],
    "reduce": [((None, 0), no("reduce")), ((T, 7), NO_RANK)],
    "broadcast": [((None,), no("broadcast")), ((T, "0"), must("broadcast", "src"))],
    "gather_into_tensor": [((None,), no("gather_into_tensor")), ((T, "0"), must("gather_into_tensor", "dst"))],
    "scatter_tensor": [((None,), no("scatter_tensor")), ((T, "0"), must("scatter_tensor", "src"))],
    "barrier": [((3,), "TypeError: group must be type of string, but got <class 'int'>")],
    "recv": [((None,), no("recv")), ((T, "0"), must("recv", "src"))],
    "irecv": [((None,), no("irecv"))],
    "all_to_all_with_output_shape": [
        ((5, 5), NO_LIST),
        ((5, [T]), NO_LIST),
        (([5], [T]), "TypeError: Expected tensor or tuple, but got <class 'int'>"),
    ],
    "all_to_all_single_with_output_shape": [
        ((5, None), NO_TENSOR),
        ((5, T), "TypeError: Expected tensor or tuple, but got <class 'int'>"),
    ],
    "P2POp": [
        ((5, 5, "0"), "TypeError: op must be type of string or function, but got type of <class 'int'>"),
        (("send", 5, "0"), "ValueError: Expected ``op`` to be of type ``isend`` or `irecv``, but got send"),
        (("isend", 5, "0"), "TypeError: Expected ``tensor`` to be type of tuple or Tensor, but got <class 'int'>."),
        (("isend", T, "0", None, 1), "NotImplementedError: ``tag`` not support yet."),
        (("isend", T, "0"), "TypeError: peer must be type of int, but got type of <class 'str'>"),
    ],
    "batch_isend_irecv": [
        (((),), "TypeError: p2p_op_list must be type of list, but got type of ()."),
        (([],), "TypeError: p2p_op_list can not be empty list."),
        (([T],), "TypeError: must be type of P2POp"),
        (
            ([P2P("irecv", (2,), 0)],),
            "ValueError: 'recv_dtype' of 0th P2POp in p2p_op_list is None but op_types is'irecv' and P2POp.tensor is "
            "a tuple type.",
        ),
    ],
}


def test_what_is_refused(ranks, told):
    def run(comm) -> list[str]:
        before = told(lambda: d.all_reduce(T))
        communication.init()
        communication.create_group("one", [0])
        found = [] if before.startswith("RuntimeError: Distributed Communication has not been inited") else [before]
        for module, tables in ((o, (REDUCING, PLACED, LISTS, MESSAGES, OBJECTS)), (comm_func, (RETURNING,))):
            for table in tables:
                for name, calls in table.items():
                    for arguments, wanted in calls:
                        got = told(partial(getattr(module, name), *arguments))
                        if got != wanted:
                            found.append(f"{name}{arguments}: {got!r}, not {wanted!r}")
        keyword = told(lambda: P2P("irecv", (2,), 0, recv_dtype=5))
        assert keyword == "TypeError: recv_dtype must be type of mindspore dtype, but got type of <class 'int'>"
        return found

    assert "\n".join(ranks(1, run)[0]) == ""


def test_what_does_not_fit_together_is_refused_on_every_rank(ranks, told):
    def run(comm) -> list[str]:
        d.init_process_group()
        x, out = np.ones(2), np.zeros(2)
        no_sizes = (3, [1], ["a", 1])
        found = [
            told(lambda: d.all_to_all_single(out, np.ones(3))),
            told(lambda: d.all_to_all_single(np.ones(3), x)),
            told(lambda: d.all_to_all([np.ones(1), np.ones(1)], [np.ones(1), np.ones(1 + comm.rank)])),
            told(lambda: d.all_to_all_single(out, x, [2, 0], [1, 1])),
            told(lambda: d.all_gather_into_tensor_uneven(np.ones(3), np.ones(2), [1, 2])),
            *(told(partial(d.all_gather_into_tensor_uneven, np.ones(4), np.ones(1), one)) for one in no_sizes),
            *(told(partial(d.reduce_scatter_tensor_uneven, np.ones(1), np.ones(2), one)) for one in no_sizes),
            told(lambda: d.broadcast_object_list([comm.rank] * (comm.rank + 1))),
        ]
        if comm.rank:
            d.send_object_list([1], 0)
        else:
            found.append(told(lambda: d.recv_object_list([1, 2], 1)))
        d.all_reduce(x)
        return [*found, x.tolist()]

    for rank, found in enumerate(ranks(2, run)):
        assert found[:2] == [
            "ValueError: input shape at dim 0 must be divided by world_size, but got 3 and 2.",
            "ValueError: output shape at dim 0 must be divided by world_size, but got 3 and 2.",
        ]
        assert [one.split(":")[0] for one in found[2:5]] == ["ValueError"] * 3
        assert [one.split(":")[0] for one in found[5:11]] == ["ValueError", "ValueError", "TypeError"] * 2
        del found[5:11]
        assert found[5] == (
            "ValueError: For broadcast_object_list, rank 1 has a list of 2 objects, but got 1 objects"
            if rank
            else "nothing wrong: None"
        )
        if rank == 0:
            assert found[6] == "ValueError: For recv_object_list, rank 0 has a list of 2 objects, but got 1 objects"
        assert found[-1] == [2.0, 2.0]


def test_set_comm_ops_inplace(ranks, told):
    def run(comm) -> list[str]:
        communication.init()
        found = [
            told(lambda: o.set_comm_ops_inplace(1)),
            told(lambda: o.set_comm_ops_inplace(True, 5)),
            told(lambda: o.set_comm_ops_inplace(True, ["barrier", "no"])),
        ]
        o.set_comm_ops_inplace(False, ["broadcast"])
        found += [told(lambda: o.broadcast(Tensor([1.0]), 0)), told(lambda: o.all_reduce(Tensor([1.0])))]
        o.set_comm_ops_inplace(False)
        refused = [name for name in sorted(o._is_in_place) if told(getattr(o, name)) == NOT_SUPPORTED]
        o.set_comm_ops_inplace(True)
        return [*found, refused, told(lambda: o.broadcast(Tensor([1.0]), 0))]

    assert ranks(1, run) == [
        [
            "TypeError: For 'set_comm_ops_inplace', the argument 'is_enable' must be type of bool, but got 'is_enable' "
            "type : <class 'int'>.",
            "TypeError: Expected list or tuple, but got <class 'int'>.",
            "ValueError: The function name in `func_list` must be correct, but got no.",
            NOT_SUPPORTED,
            "nothing wrong: None",
            [
                "all_gather", "all_gather_into_tensor_uneven", "all_gather_object", "all_to_all_v_c",
                "batch_isend_irecv", "broadcast", "broadcast_object_list", "gather", "gather_into_tensor",
                "gather_object", "recv_object_list", "reduce", "reduce_scatter", "reduce_scatter_tensor_uneven",
                "scatter", "scatter_object_list", "scatter_tensor", "send_object_list",
            ],
            "nothing wrong: None",
        ]
    ]  # fmt: skip
