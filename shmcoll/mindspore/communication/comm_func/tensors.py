"""Functions of one tensor of each rank: reductions, broadcast, barrier, and moves of blocks along dimension 0."""

from collections.abc import Sequence
from typing import Any

from shmcoll.mindspore.communication import GlobalComm
from shmcoll.mindspore.memory import new_like, nothing_like
from shmcoll.mindspore.mint import distributed
from shmcoll.mindspore.mint.distributed.checks import (
    array_of,
    check_int,
    check_moved,
    check_operator,
    group_of,
    rooted,
)
from shmcoll.mindspore.mint.distributed.handle import Result, handle_of
from shmcoll.mindspore.mint.distributed.parts import joined_shape, part_shape

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
    return reduced(tensor, op, _OPERATORS, group, async_op)


def reduced(tensor: Any, op: str, known: Sequence[str], group: str | None, async_op: bool) -> Result:
    """Do as `all_reduce`, with one of the `known` operators.

    Args:
        tensor: as for `all_reduce`.
        op: one of `known`.
        known: names of operators.
        group: as for `all_reduce`.
        async_op: as for `all_reduce`.
    """
    x = array_of("all_reduce", tensor)
    check_operator("all_reduce", op, known)
    comm = group_of(group, async_op)
    check_moved("all_reduce", x)
    out, place = new_like(tensor, x.shape)
    return out, handle_of(comm.all_reduce(x, op, out=place, async_op=async_op), async_op)


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
    x = array_of("all_gather_into_tensor", tensor)
    comm = group_of(group, async_op)
    check_moved("all_gather_into_tensor", x)
    out, place = new_like(tensor, joined_shape(x.shape, comm.size))
    return out, handle_of(comm.all_gather(x, out=place, async_op=async_op), async_op)


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
    x = array_of("reduce_scatter_tensor", tensor)
    check_operator("reduce_scatter_tensor", op)
    comm = group_of(group, async_op)
    check_moved("reduce_scatter_tensor", x)
    out, place = new_like(tensor, part_shape("reduce_scatter_tensor", x.shape, comm.size))
    return out, handle_of(comm.reduce_scatter(x, op, out=place, async_op=async_op), async_op)


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
    x = array_of("reduce", tensor)
    check_int("reduce", "dst", dst)
    check_operator("reduce", op)
    comm, root = rooted("reduce", "dst", dst, group)
    check_moved("reduce", x)
    out, place = new_like(tensor, x.shape) if comm.rank == root else (nothing_like(tensor), None)
    comm.reduce(x, root, op, out=place)
    return out


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
    x = array_of("broadcast", tensor)
    comm, root = rooted("broadcast", "src", src, group)
    check_moved("broadcast", x)
    out, place = new_like(tensor, x.shape)
    if comm.rank == root:
        place[...] = x
    comm.broadcast(place, root)
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
    x = array_of("gather_into_tensor", tensor)
    comm, root = rooted("gather_into_tensor", "dst", dst, group)
    check_moved("gather_into_tensor", x)
    if comm.rank != root:
        comm.gather(x, root)
        return nothing_like(tensor)
    out, place = new_like(tensor, joined_shape(x.shape, comm.size))
    comm.gather(x, root, out=place)
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
    x = array_of("scatter_tensor", tensor)
    comm, root = rooted("scatter_tensor", "src", src, group)
    check_moved("scatter_tensor", x)
    out, place = new_like(tensor, part_shape("scatter_tensor", x.shape, comm.size))
    comm.scatter(x if comm.rank == root else None, root, out=place)
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


__all__ = [
    "all_gather_into_tensor",
    "all_reduce",
    "barrier",
    "broadcast",
    "gather_into_tensor",
    "reduce",
    "reduce_scatter_tensor",
    "scatter_tensor",
]
