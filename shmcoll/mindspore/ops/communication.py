"""`mindspore.ops.communication`: the functions of `mint.distributed`, with a switch.

After `set_comm_ops_inplace(False)` some of them return a new tensor and a handle, instead of writing into the tensors
given to them; the others refuse the call then.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from shmcoll.mindspore.communication import comm_func
from shmcoll.mindspore.mint.distributed import distributed, lists
from shmcoll.mindspore.mint.distributed.distributed import (
    P2POp,
    TCPStore,
    destroy_process_group,
    get_backend,
    get_global_rank,
    get_group_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    init_process_group,
    is_available,
    is_initialized,
    new_group,
)

_is_in_place: dict[str, bool] = {}


def set_comm_ops_inplace(is_enable: bool, func_list: Sequence[str] | None = None) -> None:
    """Choose whether functions of this module write into the tensors given to them, as they do at first.

    Without that, all_reduce, all_gather_into_tensor, reduce_scatter_tensor, all_to_all, all_to_all_single and irecv
    return (tensor, handle); recv returns the tensor. Arguments for output tensors are then ignored, except that
    all_to_all takes shapes there. barrier, send and isend do the same as before; the other functions raise
    `ValueError`.

    Args:
        is_enable: whether they write in place.
        func_list: the names of the functions; None for all.

    Raises:
        TypeError: an argument is of another type.
        ValueError: there is no such function. Those before it have been set.
    """
    if not isinstance(is_enable, bool):
        raise TypeError(
            "For 'set_comm_ops_inplace', the argument 'is_enable' must be type of bool, "
            f"but got 'is_enable' type : {type(is_enable)}."
        )
    names = _is_in_place if func_list is None else func_list
    if not isinstance(names, (list, tuple, dict)):
        raise TypeError(f"Expected list or tuple, but got {type(func_list)}.")
    for name in names:
        if name not in _is_in_place:
            raise ValueError(f"The function name in `func_list` must be correct, but got {name}.")
        _is_in_place[name] = is_enable


def _switched(in_place: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `in_place`, or its counterpart that returns a tensor."""
    name = in_place.__name__
    returning = comm_func.RETURNING.get(name)
    _is_in_place[name] = True

    @wraps(in_place)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if _is_in_place[name]:
            return in_place(*arguments, **keywords)
        if returning is None:
            raise ValueError("Non-inplace mode is currently not supported.")
        return returning(*arguments, **keywords)

    return call


all_gather = _switched(distributed.all_gather)
all_gather_into_tensor = _switched(distributed.all_gather_into_tensor)
all_gather_into_tensor_uneven = _switched(distributed.all_gather_into_tensor_uneven)
all_gather_object = _switched(distributed.all_gather_object)
all_reduce = _switched(distributed.all_reduce)
all_to_all = _switched(distributed.all_to_all)
all_to_all_single = _switched(distributed.all_to_all_single)
all_to_all_v_c = _switched(lists.all_to_all_v_c)
barrier = _switched(distributed.barrier)
batch_isend_irecv = _switched(distributed.batch_isend_irecv)
broadcast = _switched(distributed.broadcast)
broadcast_object_list = _switched(distributed.broadcast_object_list)
gather = _switched(distributed.gather)
gather_into_tensor = _switched(distributed.gather_into_tensor)
gather_object = _switched(distributed.gather_object)
irecv = _switched(distributed.irecv)
isend = _switched(distributed.isend)
recv = _switched(distributed.recv)
recv_object_list = _switched(distributed.recv_object_list)
reduce = _switched(distributed.reduce)
reduce_scatter = _switched(distributed.reduce_scatter)
reduce_scatter_tensor = _switched(distributed.reduce_scatter_tensor)
reduce_scatter_tensor_uneven = _switched(distributed.reduce_scatter_tensor_uneven)
scatter = _switched(distributed.scatter)
scatter_object_list = _switched(distributed.scatter_object_list)
scatter_tensor = _switched(distributed.scatter_tensor)
send = _switched(distributed.send)
send_object_list = _switched(distributed.send_object_list)

__all__ = [
    "P2POp",
    "TCPStore",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_into_tensor_uneven",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "all_to_all_v_c",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "gather",
    "gather_into_tensor",
    "gather_object",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "irecv",
    "is_available",
    "is_initialized",
    "isend",
    "new_group",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_uneven",
    "scatter",
    "scatter_object_list",
    "scatter_tensor",
    "send",
    "send_object_list",
    "set_comm_ops_inplace",
]
