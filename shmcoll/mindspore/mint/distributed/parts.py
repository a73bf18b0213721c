"""Collectives on one tensor of each rank that consists of blocks along dimension 0: all_gather_into_tensor,
reduce_scatter_tensor, gather_into_tensor, scatter_tensor, and the uneven forms of the first two."""

from typing import Any

import numpy as np

from shmcoll.mindspore.mint.distributed.checks import (
    array_of,
    check_moved,
    check_operator,
    check_written,
    group_of,
    rooted,
)
from shmcoll.mindspore.mint.distributed.handle import CommHandle, handle_of

_UNEVEN_OPERATORS = ("sum", "min", "max", "avg")


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """Concatenate the tensors of all ranks along dimension 0, on every rank.

    Args:
        output_tensor: tensor of the type of the input, of shape (n * d, ...) for n ranks and inputs of shape (d, ...);
            (n,) for inputs of no dimensions.
        input_tensor: tensor of an integer or floating type; shape and type are equal on all ranks.
        group: the name of the group; None for the world.
        async_op: return a `CommHandle` at once. Leave the tensors alone until its `wait()` returns.

    Returns:
        None, or a `CommHandle` for `async_op=True`.

    Raises:
        TypeError: an argument is not a tensor, or not as above.
        ValueError: `output_tensor` has another shape or type.
        RuntimeError: before `init`; or there is no such group, or this rank is not a member of it.
    """
    name = "all_gather_into_tensor"
    x, out = array_of(name, input_tensor), array_of(name, output_tensor, "output")
    comm = group_of(group, async_op)
    check_moved(name, x)
    check_written(name, out, joined_shape(x.shape, comm.size), x)
    return handle_of(comm.all_gather(x, out=out, async_op=async_op), async_op)


def all_gather_into_tensor_uneven(
    output: Any,
    input: Any,
    output_split_sizes: list[int] | None = None,
    group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """Concatenate tensors of different lengths along dimension 0, on every rank.

    Args:
        output: tensor of the type of the input; its rows are those of all inputs together.
        input: tensor of at least one dimension, of an integer or floating type; the number of rows may differ between
            ranks.
        output_split_sizes: the number of rows of each rank. By default all ranks have the same.
        group: as for `all_gather_into_tensor`.
        async_op: as for `all_gather_into_tensor`.

    Returns:
        As `all_gather_into_tensor`.

    Raises:
        TypeError: an argument is not as above.
        ValueError: `output` has more rows than the sizes say. On every rank, before a byte moves: the sizes are not
            those of the inputs, or do not fit the output.
        RuntimeError: as for `all_gather_into_tensor`.
    """
    name = "all_gather_into_tensor_uneven"
    comm = group_of(group, async_op)
    x, out = array_of(name, input), array_of(name, output, "output")
    check_moved(name, x)
    counts = output_split_sizes or even_split("output", out.shape, comm.size)
    if (rows := _integers(counts, comm.size)) and out.shape[:1] > (sum(rows),):  # the call itself allows more rows
        check_written(name, out, (sum(rows), *x.shape[1:]), x)
    return handle_of(comm.all_gather_v(x, recv_counts=counts, out=out, axis=0, async_op=async_op), async_op)


def reduce_scatter_tensor(
    output: Any, input: Any, op: str = "sum", group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """Reduce the tensors of all ranks element by element; rank r gets block r of the result.

    Args:
        output: tensor of the type of the input, of shape (d / n, ...) for n ranks and inputs of shape (d, ...).
        input: tensor of an integer or floating type; shape and type are equal on all ranks.
        op: "sum", "prod", "min", "max" or "avg".
        group: as for `all_gather_into_tensor`.
        async_op: as for `all_gather_into_tensor`.

    Returns:
        As `all_gather_into_tensor`.

    Raises:
        TypeError: an argument is not as above.
        ValueError: the first dimension of the input is not divisible by n, or `output` has another shape or type.
        RuntimeError: as for `all_gather_into_tensor`.
    """
    name = "reduce_scatter_tensor"
    x, out = array_of(name, input), array_of(name, output, "output")
    check_operator(name, op)
    comm = group_of(group, async_op)
    check_moved(name, x)
    check_written(name, out, part_shape(name, x.shape, comm.size), x)
    return handle_of(comm.reduce_scatter(x, op, out=out, async_op=async_op), async_op)


def reduce_scatter_tensor_uneven(
    output: Any,
    input: Any,
    input_split_sizes: list[int] | None = None,
    op: str = "sum",
    group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """Reduce the tensors of all ranks element by element; rank r gets `input_split_sizes[r]` rows of the result.

    Args:
        output: tensor of the type of the input, of shape (input_split_sizes[r], ...) on rank r.
        input: tensor of at least one dimension, of an integer or floating type; shape and type are equal on all ranks.
        input_split_sizes: the number of rows for each rank, the same on all ranks. By default all get as many.
        op: "sum", "min", "max" or "avg".
        group: as for `all_gather_into_tensor`.
        async_op: as for `all_gather_into_tensor`.

    Returns:
        As `all_gather_into_tensor`.

    Raises:
        TypeError: an argument is not as above.
        ValueError: the sizes do not add up to the rows of the input, or `output` has another shape or type.
        RuntimeError: as for `all_gather_into_tensor`.
    """
    name = "reduce_scatter_tensor_uneven"
    check_operator(name, op, _UNEVEN_OPERATORS)
    comm = group_of(group, async_op)
    x, out = array_of(name, input), array_of(name, output, "output")
    check_moved(name, x)
    counts = input_split_sizes or even_split("input", x.shape, comm.size)
    if rows := _integers(counts, comm.size):
        check_written(name, out, (rows[comm.rank], *x.shape[1:]), x)
    return handle_of(comm.reduce_scatter_v(x, counts, op, out=out, axis=0, async_op=async_op), async_op)


def gather_into_tensor(
    output_tensor: Any, input_tensor: Any, dst: int = 0, group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """Concatenate the tensors of all ranks along dimension 0, on rank `dst`.

    Args:
        output_tensor: on `dst`, as for `all_gather_into_tensor`; on the other ranks any tensor, which stays as it is.
        input_tensor: as for `all_gather_into_tensor`.
        dst: a rank, as it is numbered in the world.
        group: as for `all_gather_into_tensor`.
        async_op: as for `all_gather_into_tensor`.

    Returns:
        As `all_gather_into_tensor`.

    Raises:
        TypeError: an argument is not as above.
        ValueError: on `dst`, `output_tensor` has another shape or type.
        RuntimeError: as for `all_gather_into_tensor`, or `dst` is not a rank of the group.
    """
    name = "gather_into_tensor"
    x, out = array_of(name, input_tensor), array_of(name, output_tensor, "output")
    comm, root = rooted(name, "dst", dst, group, async_op)
    check_moved(name, x)
    if comm.rank != root:
        return handle_of(comm.gather(x, root, async_op=async_op), async_op)
    check_written(name, out, joined_shape(x.shape, comm.size), x)
    return handle_of(comm.gather(x, root, out=out, async_op=async_op), async_op)


def scatter_tensor(
    output_tensor: Any, input_tensor: Any, src: int = 0, group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """Split the tensor of rank `src` along dimension 0; rank r gets block r.

    Args:
        output_tensor: tensor of the type of the input, of shape (d / n, ...) for n ranks and an input of shape
            (d, ...).
        input_tensor: on `src`, a tensor of an integer or floating type; on the other ranks any tensor.
        src: a rank, as it is numbered in the world.
        group: as for `all_gather_into_tensor`.
        async_op: as for `all_gather_into_tensor`.

    Returns:
        As `all_gather_into_tensor`.

    Raises:
        TypeError: an argument is not as above.
        ValueError: on `src`, the first dimension is not divisible by n, or `output_tensor` has another shape or type.
        RuntimeError: as for `all_gather_into_tensor`, or `src` is not a rank of the group.
    """
    name = "scatter_tensor"
    x, out = array_of(name, input_tensor), array_of(name, output_tensor, "output")
    comm, root = rooted(name, "src", src, group, async_op)
    check_moved(name, out)
    if comm.rank != root:
        return handle_of(comm.scatter(None, root, out=out, async_op=async_op), async_op)
    check_written(name, out, part_shape(name, x.shape, comm.size), x)
    return handle_of(comm.scatter(x, root, out=out, async_op=async_op), async_op)


def joined_shape(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Return the shape of the tensors of `size` ranks, concatenated along dimension 0."""
    return (size * shape[0], *shape[1:]) if shape else (size,)


def part_shape(operation: str, shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Return the shape of one of `size` blocks along dimension 0. Raise `ValueError` if they are not equal."""
    if not shape or shape[0] % size:
        raise ValueError(
            f"For '{operation}', the first dimension for 'input_shape' must be divided by 'rank_size', "
            f"but got 'input_shape' {shape}, 'rank_size' {size}."
        )
    return (shape[0] // size, *shape[1:])


def even_split(what: str, shape: tuple[int, ...], size: int) -> list[int]:
    """Return the number of rows in each of `size` equal blocks. Raise `ValueError` if they are not equal."""
    return [check_even(what, shape, size)] * size


def _integers(counts: Any, size: int) -> list[int] | None:
    """Return `counts` if they are `size` integers. If they are not, the call will refuse them."""
    found = np.asarray(counts)
    return found.tolist() if found.shape == (size,) and found.dtype.kind in "iu" else None


def check_even(what: str, shape: tuple[int, ...], size: int) -> int:
    """Return the number of rows in one of `size` equal blocks. Raise `ValueError` if they are not equal."""
    rows = shape[0] if shape else 1
    if rows % size:
        raise ValueError(f"{what} shape at dim 0 must be divided by world_size, but got {rows} and {size}.")
    return rows // size


__all__ = [
    "all_gather_into_tensor",
    "all_gather_into_tensor_uneven",
    "gather_into_tensor",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_uneven",
    "scatter_tensor",
]
