"""`mindspore.mint.distributed`: collectives that write into tensors given to them, and may be asynchronous.

Checks, their order and their words are those of MindSpore 2.10: nearly everything is a `TypeError`, and what is wrong
with a list of tensors is said on every rank, but what does not fit together only on the rank that receives.
"""

import logging
from datetime import timedelta
from typing import Any

import numpy as np

from shmcoll.mindspore import arrays, communication, dtypes
from shmcoll.mindspore.communication import GlobalComm, groups
from shmcoll.mindspore.communication.groups import communicator, world
from shmcoll.mindspore.mint.handle import CommHandle

_log = logging.getLogger("shmcoll.mindspore")


def init_process_group(
    backend: str = "hccl",
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: int | None = None,
) -> None:
    """Join the job.

    The launcher has decided which processes take part, so most arguments are only checked.

    Args:
        backend: "hccl".
        init_method: needs `world_size` and `rank`; not together with `store`.
        timeout: has no effect. In MindSpore it limits the setup of the network.
        world_size: the number of ranks of the job, or -1.
        rank: this rank's number, or -1.
        store: needs `world_size` and `rank`; not together with `init_method`.
        group_name: has no effect.
        pg_options: has no effect; a warning is logged.
        device_id: has no effect; a warning is logged.

    Raises:
        ValueError: an argument is not as above.

    Errors of joining are those of `shmcoll.init`.
    """
    for name, value in (("pg_options", pg_options), ("device_id", device_id)):
        if value is not None:
            _log.warning("%s is ignored, setting is invalid", name)
    if backend != "hccl":
        raise ValueError("Only support hccl now, please setting backend to hccl or using default value")
    if init_method is not None and store is not None:
        raise ValueError("Only one of init_method and store is supported.")
    if init_method is not None or store is not None:
        if world_size <= 0:
            raise ValueError("Specified world_size must be a positive integer.")
        if rank < 0:
            raise ValueError("Specified rank must be a non-negative integer.")
    communication.init(backend)
    if world_size not in (-1, world().size):
        raise ValueError(f"world_size is wrong, please using default value or setting: {world().size}")
    if rank not in (-1, world().rank):
        raise ValueError(f"rank is wrong, please using default value or setting: {world().rank}")


def destroy_process_group(group: str | None = None) -> None:
    """Undo `init_process_group`: collectives need another one first.

    Args:
        group: the world's name, or None.

    Raises:
        RuntimeError: before `init_process_group`.
        TypeError: the group is not a string.
        ValueError: the group is not the world; others do not exist in this release.
    """
    if group is None or group in groups.WORLD_GROUPS.values():
        groups.check_inited()
        communication.release()
    else:
        communication.destroy_group(group)


def get_rank(group: str | None = None) -> int:
    """Return this rank's number; before `init_process_group`, RANK_ID or 0.

    Args:
        group: the world's name, or None.

    Raises:
        TypeError: the group is not a string.
        ValueError: the group is not the world.
    """
    return communication.get_rank(GlobalComm.WORLD_COMM_GROUP if group is None else group)


def get_world_size(group: str | None = None) -> int:
    """Return the number of ranks; before `init_process_group`, RANK_SIZE or 1.

    Args:
        group: the world's name, or None.

    Raises:
        TypeError: the group is not a string.
        ValueError: the group is not the world.
    """
    group = GlobalComm.WORLD_COMM_GROUP if group is None else group
    return communication.get_group_size(group)


def gather(
    tensor: Any, gather_list: Any, dst: int = 0, group: str | None = None, async_op: bool = False
) -> CommHandle | None:
    """Write the tensors of all ranks into the tensors of `gather_list` on rank `dst`, in rank order.

    Args:
        tensor: tensor of any shape, 0-d included, of an integer or floating type; shape and type are equal on all
            ranks.
        gather_list: on every rank, a list of tensors of equal shape and type. On `dst` it has one tensor like `tensor`
            for each rank; on the other ranks it stays as it is.
        dst: the rank whose list is written.
        group: the world's name, or None.
        async_op: return a `CommHandle` at once. Leave `tensor` and the list alone until its `wait()` returns.

    Returns:
        None, or a `CommHandle` for `async_op=True`.

    Raises:
        TypeError: an argument is not as above.
        ValueError: there is no rank `dst`, or the group is not the world.
        RuntimeError: before `init_process_group`.
    """
    if not arrays.is_tensor(tensor):
        raise TypeError("For gather, the input tensor must be tensor")
    _check_list(gather_list)
    if not isinstance(dst, int):
        raise TypeError("For gather, the dst must be int")
    group = GlobalComm.WORLD_COMM_GROUP if group is None else group
    if not isinstance(group, str):
        raise TypeError(f"The argument 'group' must be type of string, but got 'group' type : {type(group)}.")
    if not isinstance(async_op, bool):
        raise TypeError(f"The argument 'async_op' must be a bool, but got {type(async_op)}.")
    comm = communicator(group)
    dst = groups.rank_in(group, dst)
    receiving = comm.rank == dst
    if receiving:
        _check_fit(gather_list, tensor, comm.size)
    array = arrays.to_numpy(tensor)
    if array.dtype.kind in "bc":
        got = arrays.dtype_of(tensor)
        raise TypeError(f"For gather, the type of tensor must be an integer or floating type, but got {got}.")
    targets = list(gather_list) if receiving else []
    places = [_place(target) for target in targets]

    def finish() -> None:
        for target, place in zip(targets, places, strict=True):
            if arrays.is_foreign(target):
                arrays.assign(target, place)

    out = places if receiving else None
    if async_op:
        return CommHandle(comm.gather(array, dst, out=out, async_op=True), finish)
    comm.gather(array, dst, out=out)
    finish()
    return None


def _check_list(tensors: Any) -> None:
    """What is checked on every rank: a list of tensors, all of one shape and type."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"Expected list or tuple, but got {type(tensors)}.")
    for one in tensors:
        if not arrays.is_tensor(one):
            raise TypeError(f"Expected tensor, but got {type(one)}")
    for one in tensors[1:]:
        for what, first, other in (
            ("dtype", arrays.dtype_of(tensors[0]), arrays.dtype_of(one)),
            ("shape", tuple(tensors[0].shape), tuple(one.shape)),
        ):
            if first != other:
                raise TypeError(f"tensor_lists {what} must be the same, but got {first} and {other}.")


def _check_fit(tensors: Any, tensor: Any, size: int) -> None:
    """What is checked on the receiving rank: room for one tensor like `tensor` from each rank."""
    if len(tensors) != size:
        raise TypeError(f"The argument list tensor len must be equal to group rank size, but got {len(tensors)}.")
    for what, room, given in (
        ("type", arrays.dtype_of(tensors[0]), arrays.dtype_of(tensor)),
        ("shape", tuple(tensors[0].shape), tuple(tensor.shape)),
    ):
        if room != given:
            raise TypeError(f"The argument list tensor {what} must be equal to tensor {what}, but got {room}.")


def _place(tensor: Any) -> np.ndarray:
    """Where the communicator may write what belongs into `tensor`."""
    if arrays.is_foreign(tensor):
        return np.empty(tuple(tensor.shape), dtypes.as_numpy_dtype(tensor.dtype))
    return arrays.to_numpy(tensor)


__all__ = ["CommHandle", "destroy_process_group", "gather", "get_rank", "get_world_size", "init_process_group"]
