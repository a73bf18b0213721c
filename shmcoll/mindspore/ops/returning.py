"""What the functions of `ops.communication` return after `set_comm_ops_inplace(False)`: as `comm_func`, with the
arguments of `mint.distributed`."""

from collections.abc import Callable, Sequence
from typing import Any

from shmcoll.mindspore.communication import comm_func
from shmcoll.mindspore.communication.comm_func.exchanges import exchanged
from shmcoll.mindspore.communication.comm_func.results import Result
from shmcoll.mindspore.communication.comm_func.tensors import reduced
from shmcoll.mindspore.mint import distributed
from shmcoll.mindspore.mint.distributed.checks import OPERATORS, member_of


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


#: by the name in `ops.communication`
RETURNING: dict[str, Callable[..., Any]] = {
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
