"""Collectives on a list of tensors: all_gather, reduce_scatter, gather, scatter.

A wrong list of tensors raises on every rank. Tensors that do not fit together raise only on the rank that receives.
"""

from typing import Any

from shmcoll.mindspore.mint.distributed import list_calls
from shmcoll.mindspore.mint.distributed.checks import (
    are_like,
    array_of,
    arrays_of,
    check_alike,
    check_fit,
    check_moved,
    check_operator,
    check_own,
    check_same_dtype,
    group_name,
    group_of,
    rooted,
)
from shmcoll.mindspore.mint.distributed.handle import CommHandle, handle_of


def all_gather(tensor_list: Any, tensor: Any, group: str | None = None, async_op: bool = False) -> CommHandle | None:
    """Write the tensors of all ranks into the tensors of `tensor_list`, in rank order, on every rank.

    Args:
        tensor_list: a tensor like that of each rank. The shapes may differ.
        tensor: tensor of an integer or floating type, which is equal on all ranks.
        group: the name of the group; None for the world.
        async_op: return a `CommHandle` at once. Leave the tensors alone until its `wait()` returns.

    Returns:
        None, or a `CommHandle` for `async_op=True`.

    Raises:
        TypeError: an argument is not as above.
        RuntimeError: before `init`; or there is no such group, or this rank is not a member of it.
    """
    out = arrays_of("all_gather", tensor_list)
    check_same_dtype(out)
    x = array_of("all_gather_into_tensor", tensor)
    comm = group_of(group, async_op)
    if len(out) == comm.size and are_like(out, x):
        check_moved("all_gather", x)
        work = list_calls.collect(comm, comm.all_gather, x, out=out, async_op=async_op)
    else:
        check_own("all_gather", x, out, comm)
        work = list_calls.all_gather_unequal(comm, x, out, async_op=async_op)
    return handle_of(work, async_op)


def reduce_scatter(
    output: Any, input_list: Any, op: str = "sum", group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """Reduce the lists of all ranks tensor by tensor; rank r gets the r-th result.

    Args:
        output: tensor like the r-th tensor of the list on rank r.
        input_list: a tensor for each rank, of one integer or floating type. The shapes may differ, but are the same on
            all ranks.
        op: "sum", "prod", "min", "max" or "avg".
        group: as for `all_gather`.
        async_op: as for `all_gather`.

    Returns:
        As `all_gather`.

    Raises:
        TypeError: an argument is not as above.
        RuntimeError: as for `all_gather`.
    """
    blocks = arrays_of("reduce_scatter", input_list)
    check_same_dtype(blocks)
    out = array_of("reduce_scatter", output, "output")
    group_name(group, async_op)
    check_operator("reduce_scatter", op)
    comm = group_of(group, async_op)
    check_own("reduce_scatter", out, blocks, comm)
    counts = [one.size for one in blocks]
    work = comm.reduce_scatter_v(list_calls.joined(blocks), counts, op, out=out, async_op=async_op)
    return handle_of(work, async_op)


def gather(
    tensor: Any, gather_list: Any, dst: int = 0, group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """Write the tensors of all ranks into the tensors of `gather_list` on rank `dst`, in rank order.

    Args:
        tensor: tensor of any shape, 0-d included, of an integer or floating type; shape and type are equal on all
            ranks.
        gather_list: on every rank, a list of tensors of equal shape and type. On `dst` it has one tensor like `tensor`
            for each rank; on the other ranks it stays as it is. Tensors may share memory: then what is written last
            stays.
        dst: a rank, as it is numbered in the world.
        group: as for `all_gather`.
        async_op: as for `all_gather`.

    Returns:
        As `all_gather`.

    Raises:
        TypeError: an argument is not as above.
        RuntimeError: as for `all_gather`, or `dst` is not a rank of the group.
    """
    x = array_of("gather", tensor)
    out = arrays_of("gather", gather_list)
    fit = are_like(out, x)
    if not fit:
        check_alike(out)
    comm, root = rooted("gather", "dst", dst, group, async_op)
    on_root = comm.rank == root
    if on_root and not (fit and len(out) == comm.size):
        check_fit(out, x, comm.size)
    check_moved("gather", x)
    if not on_root:
        return handle_of(comm.gather(x, root, async_op=async_op), async_op)
    return handle_of(list_calls.collect(comm, comm.gather, x, root, out=out, async_op=async_op), async_op)


def scatter(
    tensor: Any, scatter_list: Any, src: int = 0, group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """Send the r-th tensor of the list of rank `src` to rank r.

    Args:
        tensor: tensor for the result, of an integer or floating type; shape and type are equal on all ranks.
        scatter_list: on every rank, a list of tensors of equal shape and type. On `src` it has one tensor like `tensor`
            for each rank.
        src: a rank, as it is numbered in the world.
        group: as for `all_gather`.
        async_op: as for `all_gather`.

    Returns:
        As `all_gather`.

    Raises:
        TypeError: an argument is not as above.
        RuntimeError: as for `all_gather`, or `src` is not a rank of the group.
    """
    x = arrays_of("scatter", scatter_list)
    check_alike(x)
    out = array_of("scatter_tensor", tensor, "output")  # MindSpore's text has this name
    comm, root = rooted("scatter_tensor", "src", src, group, async_op)
    given = None
    if comm.rank == root:
        check_fit(x, out, comm.size)
        given = x
    check_moved("scatter", out)
    return handle_of(comm.scatter(given, root, out=out, async_op=async_op), async_op)


__all__ = ["all_gather", "gather", "reduce_scatter", "scatter"]
