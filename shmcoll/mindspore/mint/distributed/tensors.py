"""Collectives on one tensor of each rank, which is written in place: all_reduce, reduce, broadcast; and barrier."""

from typing import Any

from shmcoll.mindspore.communication.groups import root_in
from shmcoll.mindspore.mint.distributed.checks import (
    array_of,
    check_int,
    check_moved,
    check_operator,
    group_of,
    rooted,
)
from shmcoll.mindspore.mint.distributed.handle import CommHandle, handle_of


def all_reduce(tensor: Any, op: str = "sum", group: str | None = None, async_op: bool = False) -> CommHandle | None:
    """Reduce the tensors of all ranks element by element; every rank's tensor gets the result.

    Args:
        tensor: tensor of any shape, of an integer or floating type; shape and type are equal on all ranks.
        op: "sum", "prod", "min", "max" or "avg".
        group: the name of the group; None for the world.
        async_op: return a `CommHandle` at once. Leave the tensor alone until its `wait()` returns.

    Returns:
        None, or a `CommHandle` for `async_op=True`.

    Raises:
        TypeError: an argument is not as above.
        RuntimeError: before `init`; or there is no such group, or this rank is not a member of it.
    """
    x = array_of("all_reduce", tensor)
    check_operator("all_reduce", op)
    comm = group_of(group, async_op)
    check_moved("all_reduce", x)
    return handle_of(comm.all_reduce(x, op, out=x, async_op=async_op), async_op)


def reduce(
    tensor: Any, dst: int, op: str = "sum", group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """Reduce the tensors of all ranks element by element; the tensor of rank `dst` gets the result.

    Args:
        tensor: as for `all_reduce`. Other ranks than `dst` keep theirs.
        dst: a rank, as it is numbered in the world.
        op: as for `all_reduce`.
        group: as for `all_reduce`.
        async_op: as for `all_reduce`.

    Returns:
        As `all_reduce`.

    Raises:
        TypeError: an argument is not as above.
        RuntimeError: as for `all_reduce`, or `dst` is not a rank of the group.
    """
    x = array_of("reduce", tensor)
    check_int("reduce", "dst", dst)
    check_operator("reduce", op)
    comm = group_of(group, async_op)
    root = root_in(group, dst)
    check_moved("reduce", x)
    out = x if comm.rank == root else None
    return handle_of(comm.reduce(x, root, op, out=out, async_op=async_op), async_op)


def broadcast(tensor: Any, src: int, group: str | None = None, async_op: bool = False) -> CommHandle | None:
    """Write the tensor of rank `src` into the tensors of all ranks.

    Args:
        tensor: tensor of any shape, of an integer or floating type; shape and type are equal on all ranks.
        src: a rank, as it is numbered in the world.
        group: as for `all_reduce`.
        async_op: as for `all_reduce`.

    Returns:
        As `all_reduce`.

    Raises:
        TypeError: an argument is not as above.
        RuntimeError: as for `all_reduce`, or `src` is not a rank of the group.
    """
    x = array_of("broadcast", tensor)
    comm, root = rooted("broadcast", "src", src, group, async_op)
    check_moved("broadcast", x)
    return handle_of(comm.broadcast(x, root, async_op=async_op), async_op)


def barrier(group: str | None = None, async_op: bool = False, device_ids: Any = None) -> CommHandle | None:
    """Wait until all ranks of the group have called it.

    Args:
        group: as for `all_reduce`.
        async_op: return a `CommHandle` at once; its `wait()` waits for the ranks.
        device_ids: has no effect.

    Returns:
        As `all_reduce`.

    Raises:
        TypeError: an argument is not as above.
        RuntimeError: as for `all_reduce`.
    """
    return handle_of(group_of(group, async_op).barrier(async_op=async_op), async_op)


__all__ = ["all_reduce", "barrier", "broadcast", "reduce"]
