"""all_to_all with given shapes of the results, and with a matrix of counts."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shmcoll.mindspore import arrays
from shmcoll.mindspore.common.tensor import Tensor
from shmcoll.mindspore.memory import new_like
from shmcoll.mindspore.mint import distributed
from shmcoll.mindspore.mint.distributed.checks import arrays_of, member_of
from shmcoll.mindspore.mint.distributed.exchanges import all_to_all_v_c, exchange
from shmcoll.mindspore.mint.distributed.handle import CommHandle, Result


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
    arrays_of("all_to_all_with_output_shape", input_tensor_list)
    if not isinstance(output_shape_list, (list, tuple)):
        raise TypeError(f"Expected list or tuple, but got {type(output_shape_list)}.")
    shapes = [_shape(one) for one in output_shape_list]
    like = input_tensor_list[0] if input_tensor_list else None
    out = [] if like is None else [new_like(like, one)[0] for one in shapes]
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
    x = member_of("all_to_all_single_with_output_shape", tensor)
    return exchanged(_shape(output_shape), tensor, x, output_split_sizes, input_split_sizes, group, async_op)


def exchanged(
    shape: tuple[int, ...],
    tensor: Any,
    x: np.ndarray,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: str | None,
    async_op: bool,
) -> Result:
    """Do as `all_to_all_single_with_output_shape`, with a shape that has been checked. x: the memory of the tensor."""
    if output_split_sizes:
        shape = (sum(output_split_sizes), *shape[1:])
    out, place = new_like(tensor, shape or (1,))
    return out, exchange(x, place, output_split_sizes, input_split_sizes, group, async_op)


def _shape(given: Any) -> tuple[int, ...]:
    """Return a shape that is given itself or by a tensor. Raise `TypeError` for anything else."""
    if type(given) is Tensor:  # the common call
        return given.shape
    if arrays.is_tensor(given):
        return tuple(given.shape)
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"Expected tensor or tuple, but got {type(given)}")
    return tuple(given)


__all__ = [
    "all_to_all_single_with_output_shape",
    "all_to_all_v_c",
    "all_to_all_with_output_shape",
]
