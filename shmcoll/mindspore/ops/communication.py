"""`mindspore.ops.communication`: the functions of `mint.distributed`, with a switch.

After `set_comm_ops_inplace(False)` some of them return a new tensor and a handle, instead of writing into the tensors
given to them; the others refuse the call then.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from shmcoll.mindspore.communication import comm_func
from shmcoll.mindspore.communication.comm_func.exchanges import exchanged
from shmcoll.mindspore.communication.comm_func.tensors import reduced
from shmcoll.mindspore.mint.distributed import distributed
from shmcoll.mindspore.mint.distributed.checks import OPERATORS, member_of
from shmcoll.mindspore.mint.distributed.exchanges import *  # noqa: F403
from shmcoll.mindspore.mint.distributed.handle import Result
from shmcoll.mindspore.mint.distributed.lists import *  # noqa: F403
from shmcoll.mindspore.mint.distributed.messages import *  # noqa: F403
from shmcoll.mindspore.mint.distributed.objects import *  # noqa: F403
from shmcoll.mindspore.mint.distributed.parts import *  # noqa: F403
from shmcoll.mindspore.mint.distributed.process_group import *  # noqa: F403
from shmcoll.mindspore.mint.distributed.tcp_store import TCPStore as TCPStore
from shmcoll.mindspore.mint.distributed.tensors import *  # noqa: F403

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


def _all_gather(output_tensor: Any, input_tensor: Any, group: str | None = None, async_op: bool = False) -> Result:
    return comm_func.all_gather_into_tensor(input_tensor, group, async_op)


def _all_reduce(tensor: Any, op: str = "sum", group: str | None = None, async_op: bool = False) -> Result:
    return reduced(tensor, op, OPERATORS, group, async_op)


def _reduce_scatter(
    output: Any, input: Any, op: str = "sum", group: str | None = None, async_op: bool = False
) -> Result:
    return comm_func.reduce_scatter_tensor(input, op, group, async_op)


def _all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: str | None = None,
    async_op: bool = False,
) -> Result:
    x = member_of("all_to_all_single", input)
    return exchanged(tuple(input.shape), input, x, output_split_sizes, input_split_sizes, group, async_op)


#: for each name, what returns a tensor: as `comm_func`, with the arguments of `mint.distributed`
_RETURNING: dict[str, Callable[..., Any]] = {
    "all_reduce": _all_reduce,
    "all_gather_into_tensor": _all_gather,
    "reduce_scatter_tensor": _reduce_scatter,
    "all_to_all": comm_func.all_to_all_with_output_shape,
    "all_to_all_single": _all_to_all_single,
    "barrier": distributed.barrier,
    "send": comm_func.send,
    "isend": comm_func.isend,
    "recv": comm_func.recv,
    "irecv": comm_func.irecv,
}


def _switched(in_place: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `in_place`, or its counterpart that returns a tensor."""
    name = in_place.__name__
    returning = _RETURNING.get(name)
    _is_in_place[name] = True

    @wraps(in_place)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if _is_in_place[name]:
            return in_place(*arguments, **keywords)
        if returning is None:
            raise ValueError("Non-inplace mode is currently not supported.")
        return returning(*arguments, **keywords)

    return call


_SWITCHED = {name: _switched(getattr(distributed, name)) for name in distributed.COLLECTIVES if name != "P2POp"}
globals().update(_SWITCHED)

__all__ = [*sorted({*distributed.__all__, *_SWITCHED, "set_comm_ops_inplace"} - {"CommHandle"})]
