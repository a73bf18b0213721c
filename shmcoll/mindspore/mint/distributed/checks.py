"""What the collectives of `mint.distributed` check, in MindSpore's order and words.

Nearly everything is a `TypeError`. Checks that need nothing of other ranks come first; nothing has been sent when one
raises.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shmcoll.mindspore import arrays
from shmcoll.mindspore.communication import GlobalComm
from shmcoll.mindspore.memory import memory_of

OPERATORS = ("sum", "prod", "min", "max", "avg")


def check_tensor(operation: str, tensor: Any, what: str = "input") -> None:
    """Raise `TypeError` if this is not a tensor. what: "input" or "output"."""
    if not arrays.is_tensor(tensor):
        raise TypeError(f"For {operation}, the {what} tensor must be tensor")


def check_int(operation: str, name: str, value: Any) -> None:
    """Raise `TypeError` if this is not an integer. A bool passes, as upstream."""
    if not isinstance(value, int):
        raise TypeError(f"For {operation}, the {name} must be int")


def check_operator(operation: str, op: Any, known: Sequence[str] = OPERATORS) -> None:
    """Raise `TypeError` if `op` is not one of the names of operators."""
    if op not in known or not isinstance(op, str):
        if not isinstance(op, str):
            raise TypeError(f"For {operation}, the input op type must be str")
        raise TypeError(f"For {operation}, the input op value must be one of {', '.join(known)}")


def group_name(group: Any, async_op: Any = False) -> str:
    """Return the name of the group, the world's for None. Raise `TypeError` if it is not a string, or `async_op` is not
    a bool."""
    name = GlobalComm.WORLD_COMM_GROUP if group is None else group
    if not isinstance(name, str):
        raise TypeError(f"The argument 'group' must be type of string, but got 'group' type : {type(group)}.")
    if async_op is not True and async_op is not False:
        raise TypeError(f"The argument 'async_op' must be a bool, but got {type(async_op)}.")
    return name


def check_tensors(tensors: Any) -> None:
    """Raise `TypeError` if this is not a list or tuple of tensors."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"Expected list or tuple, but got {type(tensors)}.")
    for one in tensors:
        if not arrays.is_tensor(one):
            raise TypeError(f"Expected tensor, but got {type(one)}")


def check_same_dtype(tensors: Sequence[Any]) -> None:
    """Raise `TypeError` if the element types differ. The words are those of all_to_all, in every operation."""
    for one in tensors[1:]:
        first, other = arrays.dtype_of(tensors[0]), arrays.dtype_of(one)
        if first != other:
            raise TypeError(f"all_to_all input dtype must be the same, but got {first} and {other}.")


def check_alike(tensors: Sequence[Any]) -> None:
    """Raise `TypeError` if the element types or shapes differ."""
    for one in tensors[1:]:
        for what, first, other in (
            ("dtype", arrays.dtype_of(tensors[0]), arrays.dtype_of(one)),
            ("shape", tuple(tensors[0].shape), tuple(one.shape)),
        ):
            if first != other:
                raise TypeError(f"tensor_lists {what} must be the same, but got {first} and {other}.")


def check_length(tensors: Sequence[Any], size: int) -> None:
    """Raise `TypeError` if there is not one tensor for each rank."""
    if len(tensors) != size:
        raise TypeError(f"The argument list tensor len must be equal to group rank size, but got {len(tensors)}.")


def check_fit(tensors: Sequence[Any], tensor: Any, size: int) -> None:
    """Raise `TypeError` if there is not one tensor like `tensor` for each rank."""
    check_length(tensors, size)
    for what, room, given in (
        ("type", arrays.dtype_of(tensors[0]), arrays.dtype_of(tensor)),
        ("shape", tuple(tensors[0].shape), tuple(tensor.shape)),
    ):
        if room != given:
            raise TypeError(f"The argument list tensor {what} must be equal to tensor {what}, but got {room}.")


def check_own(operation: str, tensor: Any, tensors: Sequence[Any], rank: int) -> None:
    """Raise `TypeError` if `tensor` is not like the member of the list that belongs to this rank."""
    for what, wanted, given in (
        ("shape", tuple(tensors[rank].shape), tuple(tensor.shape)),
        ("dtype", arrays.dtype_of(tensors[0]), arrays.dtype_of(tensor)),
    ):
        if wanted != given:
            raise TypeError(f"For {operation}, the output {what} should be {wanted}, but got {given}.")


def moved(operation: str, tensor: Any) -> np.ndarray:
    """Return the memory of a tensor. Raise `TypeError` if its elements are bool or complex."""
    array = memory_of(tensor)
    if array.dtype.kind in "bc":
        got = arrays.dtype_of(tensor)
        raise TypeError(f"For {operation}, the type of tensor must be an integer or floating type, but got {got}.")
    return array


def written(operation: str, tensor: Any, shape: tuple[int, ...], like: Any) -> np.ndarray:
    """Return the memory of a tensor for a result. Raise `ValueError` if it has another shape than this, or another
    element type than `like`."""
    array = memory_of(tensor)
    if array.shape != shape:
        raise ValueError(f"For '{operation}', output_tensor shape must be equal to {shape}, but got {array.shape}")
    if array.dtype != memory_of(like).dtype:
        raise ValueError(
            f"For '{operation}', output_tensor type must be equal to {arrays.dtype_of(like)}, "
            f"but got {arrays.dtype_of(tensor)}"
        )
    return array
