"""`mindspore.communication.comm_func`: collectives that return a new tensor, and a handle if they may be asynchronous.

Each makes a tensor for the result and calls the function of `mint.distributed` that writes it. So both have the same
checks. MindSpore's `ops.communication` has these results, too, after `set_comm_ops_inplace(False)`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from shmcoll.mindspore import arrays, dtypes
from shmcoll.mindspore.communication import GlobalComm
from shmcoll.mindspore.communication.groups import communicator, rank_in
from shmcoll.mindspore.memory import memory_of, new_like
from shmcoll.mindspore.mint import distributed
from shmcoll.mindspore.mint.distributed import messages, tensors
from shmcoll.mindspore.mint.distributed.checks import array_of, arrays_of, check_int, check_operator, group_name
from shmcoll.mindspore.mint.distributed.handle import CommHandle
from shmcoll.mindspore.mint.distributed.lists import all_to_all_v_c, elements_of, row_size
from shmcoll.mindspore.mint.distributed.messages import isend, send

Result = tuple[Any, CommHandle | None]

_WORLD = GlobalComm.WORLD_COMM_GROUP
_OPERATORS = ("sum", "prod", "min", "max")


def all_reduce(tensor: Any, op: str = "sum", group: str = _WORLD, async_op: bool = False) -> Result:
    """Reduce the tensors of all ranks element by element, on every rank.

    Args:
        tensor: tensor of any shape, of an integer or floating type; shape and type are equal on all ranks.
        op: "sum", "prod", "min" or "max".
        group: the name of the group.
        async_op: return a `CommHandle` at once. Leave both tensors alone until its `wait()` returns.

    Returns:
        (tensor, handle). The tensor is new and like the argument. The handle is None, unless `async_op=True`.

    Raises:
        TypeError: an argument is not as above.
        RuntimeError: before `init`; or there is no such group, or this rank is not a member of it.
    """
    array_of("all_reduce", tensor)
    check_operator("all_reduce", op, _OPERATORS)
    return _reduced(tensor, op, group, async_op)


def _reduced(tensor: Any, op: str, group: str | None, async_op: bool) -> Result:
    out, place = new_like(tensor, memory_of(tensor).shape)
    place[...] = memory_of(tensor)
    return out, distributed.all_reduce(out, op, group, async_op)


def all_gather_into_tensor(tensor: Any, group: str | None = _WORLD, async_op: bool = False) -> Result:
    """Return the tensors of all ranks, concatenated along dimension 0, on every rank.

    Args:
        tensor: tensor of an integer or floating type; shape and type are equal on all ranks.
        group: as for `all_reduce`.
        async_op: as for `all_reduce`.

    Returns:
        (tensor, handle), as `all_reduce`. The shape is (n * d, ...) for n ranks and tensors of shape (d, ...).

    Raises:
        TypeError: an argument is not as above.
        RuntimeError: as for `all_reduce`.
    """
    array_of("all_gather_into_tensor", tensor)
    size = communicator(group_name(group, async_op)).size
    out, _ = new_like(tensor, tensors.joined_shape(tuple(tensor.shape), size))
    return out, distributed.all_gather_into_tensor(out, tensor, group, async_op)


def reduce_scatter_tensor(tensor: Any, op: str = "sum", group: str | None = _WORLD, async_op: bool = False) -> Result:
    """Reduce the tensors of all ranks element by element; return block r of the result on rank r.

    Args:
        tensor: tensor of an integer or floating type; shape and type are equal on all ranks.
        op: "sum", "prod", "min", "max" or "avg".
        group: as for `all_reduce`.
        async_op: as for `all_reduce`.

    Returns:
        (tensor, handle), as `all_reduce`. The shape is (d / n, ...) for n ranks and tensors of shape (d, ...).

    Raises:
        TypeError: an argument is not as above.
        ValueError: the first dimension is not divisible by n.
        RuntimeError: as for `all_reduce`.
    """
    array_of("reduce_scatter_tensor", tensor)
    check_operator("reduce_scatter_tensor", op)
    size = communicator(group_name(group, async_op)).size
    out, _ = new_like(tensor, tensors.part_shape("reduce_scatter_tensor", tuple(tensor.shape), size))
    return out, distributed.reduce_scatter_tensor(out, tensor, op, group, async_op)


def reduce(tensor: Any, dst: int, op: str = "sum", group: str = _WORLD) -> Any:
    """Reduce the tensors of all ranks element by element, on rank `dst`.

    Args:
        tensor: as for `all_reduce`.
        dst: a rank, as it is numbered in the world.
        op: as for `all_reduce`.
        group: as for `all_reduce`.

    Returns:
        On `dst`, a new tensor like the argument. On the other ranks, a tensor of shape (1,) that is zero.

    Raises:
        TypeError: an argument is not as above.
        RuntimeError: as for `all_reduce`, or `dst` is not a rank of the group.
    """
    array_of("reduce", tensor)
    out, place = new_like(tensor, memory_of(tensor).shape)
    place[...] = memory_of(tensor)
    distributed.reduce(out, dst, op, group)
    return out if _is_here(dst, group) else _nothing(tensor)


def broadcast(tensor: Any, src: int = 0, group: str = _WORLD) -> Any:
    """Return the tensor of rank `src` on every rank.

    Args:
        tensor: tensor of any shape, of an integer or floating type; shape and type are equal on all ranks.
        src: a rank, as it is numbered in the world.
        group: as for `all_reduce`.

    Returns:
        A new tensor.

    Raises:
        TypeError: an argument is not as above.
        RuntimeError: as for `all_reduce`, or `src` is not a rank of the group.
    """
    array_of("broadcast", tensor)
    out, place = new_like(tensor, memory_of(tensor).shape)
    place[...] = memory_of(tensor)
    distributed.broadcast(out, src, group)
    return out


def gather_into_tensor(tensor: Any, dst: int = 0, group: str = _WORLD) -> Any:
    """Return the tensors of all ranks, concatenated along dimension 0, on rank `dst`.

    Args:
        tensor: as for `all_gather_into_tensor`.
        dst: a rank, as it is numbered in the world.
        group: as for `all_reduce`.

    Returns:
        On `dst`, a new tensor of the shape of `all_gather_into_tensor`. On the other ranks, a tensor of shape (1,) that
        is zero.

    Raises:
        TypeError: an argument is not as above.
        RuntimeError: as for `all_reduce`, or `dst` is not a rank of the group.
    """
    array_of("gather_into_tensor", tensor)
    check_int("gather_into_tensor", "dst", dst)
    out = _nothing(tensor)
    if _is_here(dst, group):
        out, _ = new_like(tensor, tensors.joined_shape(tuple(tensor.shape), communicator(group).size))
    tensors.gather_into_tensor(out, tensor, dst, group)
    return out


def scatter_tensor(tensor: Any, src: int = 0, group: str = _WORLD) -> Any:
    """Split the tensor of rank `src` along dimension 0; return block r on rank r.

    Args:
        tensor: tensor of an integer or floating type; shape and type are equal on all ranks.
        src: a rank, as it is numbered in the world.
        group: as for `all_reduce`.

    Returns:
        A new tensor of shape (d / n, ...) for n ranks and a tensor of shape (d, ...).

    Raises:
        TypeError: an argument is not as above.
        ValueError: the first dimension is not divisible by n.
        RuntimeError: as for `all_reduce`, or `src` is not a rank of the group.
    """
    array_of("scatter_tensor", tensor)
    check_int("scatter_tensor", "src", src)
    size = communicator(group_name(group)).size
    out, _ = new_like(tensor, tensors.part_shape("scatter_tensor", tuple(tensor.shape), size))
    tensors.scatter_tensor(out, tensor, src, group)
    return out


def barrier(group: str = _WORLD) -> None:
    """Wait until all ranks of the group have called it.

    Args:
        group: as for `all_reduce`.

    Raises:
        TypeError: the group is not a string.
        RuntimeError: as for `all_reduce`.
    """
    if not isinstance(group, str):
        raise TypeError(f"group must be type of string, but got {type(group)}")
    distributed.barrier(group)


def recv(tensor: Any, src: int = 0, group: str | None = _WORLD, tag: int = 0) -> Any:
    """Receive a tensor from rank `src`.

    Args:
        tensor: a tensor of the type and shape of that which was sent. It stays as it is.
        src: a rank, as it is numbered in the world.
        group: as for `all_reduce`.
        tag: the sender names the same; 0 to 2**31 - 1.

    Returns:
        The tensor received.

    Raises:
        TypeError: an argument is not as above.
        ValueError: the message has another number of elements.
        KeyError: there is no such group, or `src` is not a rank of it.
        RuntimeError: as for `all_reduce`.
    """
    array_of("recv", tensor)
    out, _ = new_like(tensor, tuple(tensor.shape))
    messages.recv(out, src, group, tag)
    return out


def irecv(tensor: Any, src: int = 0, group: str | None = _WORLD, tag: int = 0) -> Result:
    """Begin to receive a tensor from rank `src`.

    Args:
        tensor: as for `recv`.
        src: as for `recv`.
        group: as for `recv`.
        tag: as for `recv`.

    Returns:
        (tensor, handle): the tensor is received when `wait()` of the handle returns.

    Raises:
        TypeError: an argument is not as above.
        KeyError: as for `recv`.
        RuntimeError: as for `all_reduce`.
    """
    array_of("irecv", tensor)
    out, _ = new_like(tensor, tuple(tensor.shape))
    return out, messages.irecv(out, src, group, tag)


class P2POp:
    """A message for `batch_isend_irecv`.

    Args:
        op: "isend" or "irecv", or the function.
        tensor: the tensor to send; for "irecv" a tensor like that which comes, or its shape as a tuple.
        peer: the other rank, as it is numbered in the world.
        group: the name of the group; None for the world.
        tag: 0.
        recv_dtype: the element type of what comes, if `tensor` is a shape.

    Raises:
        TypeError: an argument is of another type.
        ValueError: `op` is another function.
        NotImplementedError: the tag is not 0.
    """

    def __init__(
        self, op: Any, tensor: Any, peer: int, group: str | None = None, tag: int = 0, *, recv_dtype: Any = None
    ):
        if not (isinstance(op, str) or callable(op)):
            raise TypeError(f"op must be type of string or function, but got type of {type(op)}")
        name = op if isinstance(op, str) else op.__name__
        if name not in ("isend", "irecv"):
            raise ValueError(f"Expected ``op`` to be of type ``isend`` or `irecv``, but got {name}")
        if not (arrays.is_tensor(tensor) or isinstance(tensor, tuple)):
            raise TypeError(f"Expected ``tensor`` to be type of tuple or Tensor, but got {type(tensor)}.")
        if tag != 0:
            raise NotImplementedError("``tag`` not support yet.")
        if not isinstance(peer, int):
            raise TypeError(f"peer must be type of int, but got type of {type(peer)}")
        if recv_dtype is not None and dtypes.BY_PRINTED.get(str(recv_dtype)) is None:
            raise TypeError(f"recv_dtype must be type of mindspore dtype, but got type of {type(recv_dtype)}")
        self.op = op
        self.tensor = tensor
        self.peer = peer
        self.group = group
        self.tag = tag
        self.recv_dtype = recv_dtype


def batch_isend_irecv(p2p_op_list: Any) -> tuple[Any, ...]:
    """Send and receive several tensors. No message waits for another one of the list.

    Args:
        p2p_op_list: a list of `P2POp`; the group is that of the first.

    Returns:
        A tuple with a tensor for each of the list: what was received; for what was sent, a tensor of shape (1,) that is
        zero.

    Raises:
        TypeError: it is not a list, is empty, or has something else.
        ValueError: a shape is given without `recv_dtype`.
        RuntimeError: before `init`; or there is no such group, or it has no such rank.
    """
    if not isinstance(p2p_op_list, list):
        raise TypeError(f"p2p_op_list must be type of list, but got type of {p2p_op_list}.")
    if not p2p_op_list:
        raise TypeError("p2p_op_list can not be empty list.")
    group = p2p_op_list[0].group if isinstance(p2p_op_list[0], P2POp) else None
    started, results = [], []
    for i, one in enumerate(p2p_op_list):
        if not isinstance(one, P2POp):
            raise TypeError("must be type of P2POp")
        name = one.op if isinstance(one.op, str) else one.op.__name__
        if name == "irecv":
            tensor = _room(i, one)
            results.append(tensor)
        else:
            array_of("isend", one.tensor)
            tensor = one.tensor
            results.append(_nothing(tensor))
        started.append(messages.P2POp(name, tensor, one.peer, group))
    for handle in messages.batch_isend_irecv(started):
        handle.wait()
    return tuple(results)


def all_to_all_with_output_shape(
    output_shape_list: Any, input_tensor_list: Any, group: str | None = None, async_op: bool = False
) -> tuple[tuple[Any, ...], CommHandle | None]:
    """Send the r-th tensor of the list to rank r; return what comes from the ranks.

    Args:
        output_shape_list: for each rank the shape of what comes from it, or a tensor of that shape.
        input_tensor_list: a tensor for each rank, of one integer or floating type.
        group: the name of the group; None for the world.
        async_op: as for `all_reduce`.

    Returns:
        (tensors, handle): a tuple of a tensor for each rank; the handle is None, unless `async_op=True`.

    Raises:
        TypeError: an argument is not as above.
        ValueError: there is not a tensor and a shape for each rank. On every rank, before a byte moves: a shape has not
            as many elements as are sent to it.
        RuntimeError: as for `all_reduce`.
    """
    arrays_of(input_tensor_list)
    _check_shapes(output_shape_list)
    like = input_tensor_list[0] if input_tensor_list else None
    out = [] if like is None else [new_like(like, _shape(one))[0] for one in output_shape_list]
    handle = distributed.all_to_all(out, input_tensor_list, group, async_op)
    return tuple(out), handle


def all_to_all_single_with_output_shape(
    output_shape: Any,
    tensor: Any,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: str | None = None,
    async_op: bool = False,
) -> Result:
    """Split a tensor along dimension 0, send part r to rank r, and return what comes from the ranks, concatenated.

    Args:
        output_shape: the shape of the result, or a tensor of that shape.
        tensor: tensor of an integer or floating type.
        output_split_sizes: the number of rows that come from each rank. By default from each as many.
        input_split_sizes: the number of rows for each rank. By default for each as many.
        group: the name of the group; None for the world.
        async_op: as for `all_reduce`.

    Returns:
        (tensor, handle), as `all_reduce`. The tensor has as many rows as come.

    Raises:
        TypeError: an argument is not as above.
        ValueError: as `mint.distributed.all_to_all_single`.
        RuntimeError: as for `all_reduce`.
    """
    arrays_of([tensor])
    _check_shapes([output_shape])
    return _exchanged(_shape(output_shape), tensor, output_split_sizes, input_split_sizes, group, async_op)


def _exchanged(
    shape: tuple[int, ...],
    tensor: Any,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: str | None,
    async_op: bool,
) -> Result:
    size = communicator(group_name(group, async_op)).size
    _, recv = elements_of(tuple(tensor.shape), shape, output_split_sizes, input_split_sizes, size)
    rows = sum(recv) // max(1, row_size(shape))
    out, _ = new_like(tensor, (rows, *shape[1:]))
    return out, distributed.all_to_all_single(out, tensor, output_split_sizes, input_split_sizes, group, async_op)


# --- what `ops.communication` returns without writing in place --------------------------------------------------------


def _ops_all_gather(output_tensor: Any, input_tensor: Any, group: str | None = None, async_op: bool = False) -> Result:
    return all_gather_into_tensor(input_tensor, group, async_op)


def _ops_all_reduce(tensor: Any, op: str = "sum", group: str | None = None, async_op: bool = False) -> Result:
    array_of("all_reduce", tensor)
    return _reduced(tensor, op, group, async_op)


def _ops_reduce_scatter(
    output: Any, input: Any, op: str = "sum", group: str | None = None, async_op: bool = False
) -> Result:
    return reduce_scatter_tensor(input, op, group, async_op)


def _ops_all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: str | None = None,
    async_op: bool = False,
) -> Result:
    arrays_of([input])
    return _exchanged(tuple(input.shape), input, output_split_sizes, input_split_sizes, group, async_op)


#: by the name in `ops.communication`
RETURNING: dict[str, Callable[..., Any]] = {
    "all_reduce": _ops_all_reduce,
    "all_gather_into_tensor": _ops_all_gather,
    "reduce_scatter_tensor": _ops_reduce_scatter,
    "all_to_all": all_to_all_with_output_shape,
    "all_to_all_single": _ops_all_to_all_single,
    "barrier": distributed.barrier,
    "send": send,
    "isend": isend,
    "recv": recv,
    "irecv": irecv,
}


def _is_here(rank: int, group: str) -> bool:
    return rank_in(group, rank) == communicator(group).rank


def _nothing(tensor: Any) -> Any:
    out, place = new_like(tensor, (1,))
    place[...] = 0
    return out


def _room(i: int, one: P2POp) -> Any:
    """Return a tensor for what is received."""
    if not isinstance(one.tensor, tuple):
        return new_like(one.tensor, tuple(one.tensor.shape))[0]
    if one.recv_dtype is None:
        raise ValueError(
            f"'recv_dtype' of {i}th P2POp in p2p_op_list is None but op_types is'irecv' and P2POp.tensor is a tuple "
            f"type."
        )
    return arrays.new(np.empty(one.tensor, dtypes.as_numpy_dtype(one.recv_dtype)))


def _check_shapes(shapes: Any) -> None:
    if not isinstance(shapes, (list, tuple)):
        raise TypeError(f"Expected list or tuple, but got {type(shapes)}.")
    for one in shapes:
        if not (arrays.is_tensor(one) or isinstance(one, (list, tuple))):
            raise TypeError(f"Expected tensor or tuple, but got {type(one)}")


def _shape(given: Any) -> tuple[int, ...]:
    return tuple(given.shape) if arrays.is_tensor(given) else tuple(given)


__all__ = [
    "P2POp",
    "all_gather_into_tensor",
    "all_reduce",
    "all_to_all_single_with_output_shape",
    "all_to_all_v_c",
    "all_to_all_with_output_shape",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "gather_into_tensor",
    "irecv",
    "isend",
    "recv",
    "reduce",
    "reduce_scatter_tensor",
    "scatter_tensor",
    "send",
]
