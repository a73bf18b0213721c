"""Every function of MindSpore's functional APIs that communicates: before `init`, on a group that does not exist, on a
group that this rank is not a member of, and with a root that is not in the group."""

from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll.mindspore import communication
from shmcoll.mindspore.communication import comm_func
from shmcoll.mindspore.mint import distributed
from shmcoll.mindspore.ops import communication as ops_communication

T, PAIR = np.ones(2), np.ones(4)

#: right arguments for rank 0 of 2, where rank 1 is the root or the peer
IN_PLACE: dict[str, tuple[Any, ...]] = {
    "all_reduce": (T,), "reduce": (T, 1), "broadcast": (T, 1), "barrier": (),
    "all_gather_into_tensor": (PAIR, T), "all_gather_into_tensor_uneven": (PAIR, T),
    "reduce_scatter_tensor": (T, PAIR), "reduce_scatter_tensor_uneven": (T, PAIR),
    "gather_into_tensor": (PAIR, T, 1), "scatter_tensor": (T, PAIR, 1),
    "all_gather": ([T, T], T), "reduce_scatter": (T, [T, T]), "gather": (T, [T, T], 1), "scatter": (T, [T, T], 1),
    "all_to_all": ([T, T], [T, T]), "all_to_all_single": (PAIR, PAIR), "all_to_all_v_c": (PAIR, PAIR, [2] * 4),
    "send": (T, 1), "recv": (T, 1), "isend": (T, 1), "irecv": (T, 1),
    "all_gather_object": ([None, None], 5), "gather_object": (5, None, 1), "broadcast_object_list": ([None], 1),
    "scatter_object_list": ([None], None, 1), "send_object_list": ([5], 1), "recv_object_list": ([None], 1),
}  # fmt: skip
RETURNING: dict[str, tuple[Any, ...]] = {
    "all_reduce": (T,), "reduce": (T, 1), "broadcast": (T, 1), "barrier": (),
    "all_gather_into_tensor": (T,), "reduce_scatter_tensor": (PAIR,), "gather_into_tensor": (T, 1),
    "scatter_tensor": (PAIR, 1), "all_to_all_with_output_shape": ([(2,), (2,)], [T, T]),
    "all_to_all_single_with_output_shape": ((4,), PAIR), "all_to_all_v_c": (PAIR, PAIR, [2] * 4),
    "send": (T, 1), "recv": (T, 1), "isend": (T, 1), "irecv": (T, 1),
}  # fmt: skip
PER_MESSAGE = {"send", "recv", "isend", "irecv", "send_object_list", "recv_object_list"}
ROOT = {"reduce", "broadcast", "gather", "scatter", "gather_into_tensor", "scatter_tensor", "gather_object",
        "broadcast_object_list", "scatter_object_list"}  # fmt: skip


def calls() -> list[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """The names, functions and arguments. A batch of messages has its group in its members."""

    def batch(api: Any) -> Callable[..., Any]:
        return lambda group=None: api.batch_isend_irecv([api.P2POp("isend", T, 1, group)])

    return [
        *(("mint " + name, getattr(ops_communication, name), given) for name, given in IN_PLACE.items()),
        *(("comm_func " + name, getattr(comm_func, name), given) for name, given in RETURNING.items()),
        *((f"{api.__name__} batch_isend_irecv", batch(api), ()) for api in (distributed, comm_func)),
    ]


def test_every_function_is_tried():
    assert {*IN_PLACE, "batch_isend_irecv"} == set(ops_communication._is_in_place)
    assert {*RETURNING, "P2POp", "batch_isend_irecv"} == set(comm_func.__all__)


def test_groups_that_cannot_be_used(ranks, told):
    """Nothing is sent: in the end the world works."""

    def run(comm) -> list[str]:
        wrong: list[str] = []

        def check(text: str, wanted: str, name: str) -> None:
            if not text.startswith(wanted):
                wrong.append(f"{name}: {text}, not {wanted}")

        if comm.rank == 0:
            for name, function, given in calls():
                not_inited = told(lambda: function(*given))  # noqa: B023
                check(not_inited, "RuntimeError: Distributed Communication has not been inited", name)
        communication.init()
        if comm.rank == 0:
            communication.create_group("theirs", [1])
            for name, function, given in calls():
                message = name.split()[1] in PER_MESSAGE
                unknown = told(lambda: function(*given, group="no"))  # noqa: B023
                check(unknown, "KeyError: " if message else "RuntimeError: The group no does not exist", name)
                theirs = told(lambda: function(*given, group="theirs"))  # noqa: B023
                check(theirs, "RuntimeError: Group theirs doesn't contain the global rank 0", name)
                if name.split()[1] in ROOT:
                    far = (*given[:-1], 7)
                    check(told(lambda: function(*far)), "RuntimeError: Group hccl_world_group doesn't", name)  # noqa: B023
        x = np.ones(1)
        distributed.all_reduce(x)
        return [*wrong, str(x.tolist())]

    assert ranks(2, run) == [["[2.0]"], ["[2.0]"]]
