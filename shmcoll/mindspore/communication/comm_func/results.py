"""The tensors that the functions return."""

from typing import Any

from shmcoll.mindspore.memory import memory_of, new_like
from shmcoll.mindspore.mint.distributed.handle import CommHandle
from shmcoll.mindspore.tensor import Tensor

Result = tuple[Any, CommHandle | None]


def copied(tensor: Any) -> Any:
    """Return a new tensor like another one, with the same elements."""
    if type(tensor) is Tensor:  # the common call
        return tensor.copy()
    found = memory_of(tensor)
    out, place = new_like(tensor, found.shape)
    place[...] = found
    return out


def nothing_like(tensor: Any) -> Any:
    """Return what stands for no result: a tensor of the element type of another one, of shape (1,), that is zero."""
    out, place = new_like(tensor, (1,))
    place[...] = 0
    return out
