"""all_to_all of lists of tensors, and of one tensor with counts: all_to_all, all_to_all_single, all_to_all_v_c."""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from shmcoll.mindspore.mint.distributed import list_calls
from shmcoll.mindspore.mint.distributed.checks import (
    arrays_of,
    check_exchanged,
    check_same_dtype,
    group_name,
    group_of,
    member_of,
)
from shmcoll.mindspore.mint.distributed.handle import CommHandle, handle_of
from shmcoll.mindspore.mint.distributed.parts import check_even, even_split


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """Send the r-th tensor of the input list to rank r; write what comes from rank r into the r-th output tensor.

    Args:
        output_tensor_list: a tensor for each rank, of as many elements as that rank sends, of any shape. Tensors behind
            these stay as they are.
        input_tensor_list: a tensor for each rank, of one integer or floating type. The shapes may differ.
        group: the name of the group; None for the world.
        async_op: return a `CommHandle` at once. Leave the tensors alone until its `wait()` returns.

    Returns:
        None, or a `CommHandle` for `async_op=True`.

    Raises:
        TypeError: an argument is not as above.
        ValueError: there is not a tensor for each rank. On every rank, before a byte moves: an output tensor has not as
            many elements as are sent to it.
        RuntimeError: before `init`; or there is no such group, or this rank is not a member of it.
    """
    group_name(group, async_op)
    x, out = arrays_of("all_to_all", input_tensor_list), arrays_of("all_to_all", output_tensor_list)
    check_same_dtype(x)
    check_same_dtype(out)
    comm = group_of(group, async_op)
    size = comm.size
    if len(x) != size or len(out) < size:
        raise ValueError(
            f"For all_to_all, there must be a tensor for each of {size} ranks, "
            f"but got {len(x)} inputs and {len(out)} outputs"
        )
    check_exchanged("all_to_all", x[0], out[0])
    return handle_of(list_calls.all_to_all(comm, x, out[:size], async_op=async_op), async_op)


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: str | None = None,
    async_op: bool = False,
) -> CommHandle | None:
    """Split a tensor along dimension 0, send part r to rank r, and concatenate what comes from the ranks.

    Args:
        output: tensor of the type of the input, with room for what comes.
        input: tensor of an integer or floating type.
        output_split_sizes: the number of rows that come from each rank. By default from each as many.
        input_split_sizes: the number of rows for each rank. By default for each as many.
        group: as for `all_to_all`.
        async_op: as for `all_to_all`.

    Returns:
        As `all_to_all`.

    Raises:
        TypeError: an argument is not as above.
        ValueError: there are no sizes and the rows cannot be split evenly; or the types differ. On every rank, before a
            byte moves: the sizes of the ranks do not fit together, or do not fit the tensors.
        RuntimeError: as for `all_to_all`.
    """
    x, out = member_of("all_to_all_single", input), member_of("all_to_all_single", output)
    return exchange(x, out, output_split_sizes, input_split_sizes, group, async_op)


def exchange(
    x: np.ndarray,
    out: np.ndarray,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: str | None,
    async_op: bool,
) -> CommHandle | None:
    """Do as `all_to_all_single`, with the memory of the tensors."""
    comm = group_of(group, async_op)
    check_exchanged("all_to_all_single", x, out)
    if not output_split_sizes and not input_split_sizes and x.ndim and x.size == out.size:
        check_even("input", x.shape, comm.size)
        if x.shape != out.shape:
            check_even("output", out.shape, comm.size)
            x = x.reshape(out.shape)
        return handle_of(comm.all_to_all(x, out=out, async_op=async_op), async_op)
    send, recv = elements_of(x.shape, out.shape, output_split_sizes, input_split_sizes, comm.size)
    return handle_of(comm.all_to_all_v(x, send, recv_counts=recv, out=out, async_op=async_op), async_op)


def elements_of(
    sent: tuple[int, ...],
    received: tuple[int, ...],
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    size: int,
) -> tuple[Sequence[int], Sequence[int]]:
    """Return how many elements go to each rank, and how many come from it.

    Args:
        sent: the shape of the input.
        received: the shape of the output.
        output_split_sizes: as for `all_to_all_single`.
        input_split_sizes: as for `all_to_all_single`.
        size: the number of ranks.
    """
    rows_out = input_split_sizes or even_split("input", sent, size)
    rows_in = output_split_sizes or even_split("output", received, size)
    return in_elements(rows_out, row_size(sent)), in_elements(rows_in, row_size(received))


def in_elements(rows: Sequence[int], width: int) -> Sequence[int]:
    """Return numbers of rows of `width` elements as numbers of elements."""
    return [one * width for one in rows]  # of bools too, which are integers to MindSpore


def all_to_all_v_c(
    output: Any, input: Any, send_count_matrix: list[int], group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """Do as `all_to_all_single`, with the numbers of rows for all ranks in one matrix.

    Args:
        output: as for `all_to_all_single`.
        input: as for `all_to_all_single`.
        send_count_matrix: n * n integers for n ranks, the same on all ranks: [i * n + j] is the number of rows that
            rank i sends to rank j.
        group: as for `all_to_all`.
        async_op: as for `all_to_all`.

    Returns:
        As `all_to_all`.

    Raises:
        TypeError: an argument is not as above.
        ValueError: the rows of the tensors have different sizes, or their types differ. On every rank, before a byte
            moves: the numbers do not fit the tensors.
        RuntimeError: as for `all_to_all`.
    """
    x, out = member_of("all_to_all_v_c", input), member_of("all_to_all_v_c", output)
    group_name(group, async_op)
    if not isinstance(send_count_matrix, list):
        raise TypeError(f"send_count_matrix must be list, but got {type(send_count_matrix)}")
    for one in send_count_matrix:
        if not isinstance(one, int):
            raise TypeError("send_count_matrix elements must be of type int")
    comm = group_of(group, async_op)
    rank, size = comm.rank, comm.size
    if size * size != len(send_count_matrix):
        raise TypeError(f"send_count_matrix must be square matrix, but got {len(send_count_matrix)}.")
    check_exchanged("all_to_all_v_c", x, out)
    width = row_size(x.shape)
    other = width if x.shape == out.shape else row_size(out.shape)
    if width != other:
        raise ValueError(
            f"The input and output dimensions except 0 must be of equal size, but got {width} and {other}."
        )
    send = in_elements(send_count_matrix[rank * size : (rank + 1) * size], width)
    recv = in_elements(send_count_matrix[rank::size], width)
    return handle_of(comm.all_to_all_v(x, send, recv_counts=recv, out=out, async_op=async_op), async_op)


def row_size(shape: tuple[int, ...]) -> int:
    """Return the number of elements of a row, a part of length 1 of dimension 0."""
    return prod(shape[1:]) if len(shape) > 1 else 1


__all__ = ["all_to_all", "all_to_all_single", "all_to_all_v_c"]
