"""The checks of the collectives of `mint.distributed`, in MindSpore's order and words.

Nearly everything is a `TypeError`. Checks that need nothing of other ranks come first; nothing has been sent when one
raises.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shmcoll.mindspore import arrays
from shmcoll.mindspore.common.tensor import Tensor
from shmcoll.mindspore.communication.groups import GlobalComm, communicator, find, root_in
from shmcoll.mindspore.memory import memory_of

_view = np.ndarray.view  # `Tensor.view` is MindSpore's

OPERATORS = ("sum", "prod", "min", "max", "avg")


def array_of(operation: str, tensor: Any, what: str = "input") -> np.ndarray:
    """Return the memory of a tensor. Raise `TypeError` if this is not a tensor. what: "input" or "output"."""
    kind = type(tensor)
    if kind is np.ndarray:
        return tensor  # type: ignore[no-any-return]
    if kind is Tensor:
        return _view(tensor, np.ndarray)
    if not arrays.is_tensor(tensor):
        raise TypeError(f"For {operation}, the {what} tensor must be tensor{arrays.advice(tensor)}")
    arrays.check_unrecorded(operation, tensor)
    return memory_of(tensor)


def arrays_of(operation: str, tensors: Any) -> list[np.ndarray]:
    """Return the memory of each tensor. Raise `TypeError` if this is not a list or tuple of tensors."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"Expected list or tuple, but got {type(tensors)}.")
    return [_view(one, np.ndarray) if type(one) is Tensor else member_of(operation, one) for one in tensors]


def member_of(operation: str, tensor: Any) -> np.ndarray:
    """Return the memory of a member of a list of tensors. Raise `TypeError` if this is not a tensor."""
    kind = type(tensor)
    if kind is np.ndarray:
        return tensor  # type: ignore[no-any-return]
    if kind is Tensor:
        return _view(tensor, np.ndarray)
    if not arrays.is_tensor(tensor):
        raise TypeError(f"Expected tensor, but got {type(tensor)}{arrays.advice(tensor)}")
    arrays.check_unrecorded(operation, tensor)
    return memory_of(tensor)


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


def group_of(group: Any, async_op: Any = False) -> Any:
    """Return the communicator of a group, that of the world for None. Raise as `group_name` and `communicator`."""
    if group is None or type(group) is str:
        comm = find(group)
        if comm is not None and (async_op is False or async_op is True):
            return comm
    return communicator(group_name(group, async_op))


def rooted(operation: str, name: str, rank: Any, group: Any, async_op: Any = False) -> tuple[Any, int]:
    """Return the communicator of a group, and the number in it of a rank of the world, the argument `name`. Raise as
    `check_int`, `group_of` and `root_in`."""
    if type(rank) is not int:
        check_int(operation, name, rank)
    return group_of(group, async_op), root_in(group, rank)


def check_same_dtype(places: Sequence[np.ndarray]) -> None:
    """Raise `TypeError` if the element types differ. The text is that of all_to_all, in every operation."""
    for one in places[1:]:
        if one.dtype != places[0].dtype:
            first, other = arrays.dtype_of(places[0]), arrays.dtype_of(one)
            raise TypeError(f"all_to_all input dtype must be the same, but got {first} and {other}.")


def check_alike(places: Sequence[np.ndarray]) -> None:
    """Raise `TypeError` if the element types or shapes differ."""
    for one in places[1:]:
        found = _difference(places[0], one)
        if found:
            what, first, other = found
            what = "dtype" if what == "type" else what
            raise TypeError(f"tensor_lists {what} must be the same, but got {first} and {other}.")


def check_length(tensors: Sequence[Any], size: int) -> None:
    """Raise `TypeError` if there is not one tensor for each rank."""
    if len(tensors) != size:
        raise TypeError(f"The argument list tensor len must be equal to group rank size, but got {len(tensors)}.")


def check_fit(places: Sequence[np.ndarray], x: np.ndarray, size: int) -> None:
    """Raise `TypeError` if there is not one array like `x` for each rank. The arrays are alike."""
    check_length(places, size)
    first = places[0]
    if first.shape == x.shape and first.dtype == x.dtype:
        return
    found = _difference(first, x)
    if found:
        what, room, _ = found
        raise TypeError(f"The argument list tensor {what} must be equal to tensor {what}, but got {room}.")


def are_like(places: Sequence[np.ndarray], x: np.ndarray) -> bool:
    """Return whether all arrays have the shape and the element type of `x`."""
    shape, dtype = x.shape, x.dtype
    for one in places:  # noqa: SIM110  # `all` takes longer
        if one.shape != shape or (one.dtype is not dtype and one.dtype != dtype):
            return False
    return True


def check_own(operation: str, x: np.ndarray, places: Sequence[np.ndarray], comm: Any) -> None:
    """Raise `TypeError` if there is not one array for each rank, or `x` is not like that of this rank, or its elements
    are bool or complex."""
    if len(places) != comm.size:
        check_length(places, comm.size)
    wanted = places[comm.rank]
    if wanted.shape != x.shape:
        raise TypeError(f"For {operation}, the output shape should be {wanted.shape}, but got {x.shape}.")
    if wanted.dtype != x.dtype:
        room, given = arrays.dtype_of(wanted), arrays.dtype_of(x)
        raise TypeError(f"For {operation}, the output dtype should be {room}, but got {given}.")
    check_moved(operation, x)


def _difference(a: np.ndarray, b: np.ndarray) -> tuple[str, Any, Any] | None:
    """Return in what two arrays differ first: "type" or "shape", and that of both."""
    if a.dtype != b.dtype:
        return "type", arrays.dtype_of(a), arrays.dtype_of(b)
    return None if a.shape == b.shape else ("shape", a.shape, b.shape)


def check_exchanged(operation: str, x: np.ndarray, out: np.ndarray) -> None:
    """Raise `ValueError` if the element types differ, or `TypeError` if they are bool or complex."""
    dtype = x.dtype
    if dtype is out.dtype and dtype.kind not in "bc":  # the common call
        return
    if dtype != out.dtype:
        given, room = arrays.dtype_of(x), arrays.dtype_of(out)
        raise ValueError(f"For {operation}, the outputs must be of the type of the inputs, {given}, but got {room}")
    check_moved(operation, x)


def check_moved(operation: str, x: np.ndarray) -> None:
    """Raise `TypeError` if the elements are bool or complex."""
    if x.dtype.kind in "bc":
        raise TypeError(
            f"For {operation}, the type of tensor must be an integer or floating type, but got {arrays.dtype_of(x)}."
        )


def check_written(operation: str, out: np.ndarray, shape: tuple[int, ...], x: np.ndarray) -> None:
    """Raise `ValueError` if an array for a result has another shape than this, or another element type than `x`."""
    if out.shape != shape:
        raise ValueError(f"For '{operation}', output_tensor shape must be equal to {shape}, but got {out.shape}")
    if out.dtype != x.dtype:
        wanted, given = arrays.dtype_of(x), arrays.dtype_of(out)
        raise ValueError(f"For '{operation}', output_tensor type must be equal to {wanted}, but got {given}")
