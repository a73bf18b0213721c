"""`mindspore.communication`: join the job, and learn this rank's number and the number of ranks.

Before `init()`, ranks and sizes come from the environment that the launcher has set (RANK_ID, RANK_SIZE, ...), as in
MindSpore. "hccl_world_group", "nccl_world_group" and "mccl_world_group" all mean the world.
"""

import os
from typing import Any

import shmcoll
from shmcoll.communicator import Communicator
from shmcoll.mindspore import context

HCCL_WORLD_COMM_GROUP = "hccl_world_group"
NCCL_WORLD_COMM_GROUP = "nccl_world_group"
MCCL_WORLD_COMM_GROUP = "mccl_world_group"
WORLD_GROUPS = {"hccl": HCCL_WORLD_COMM_GROUP, "nccl": NCCL_WORLD_COMM_GROUP, "mccl": MCCL_WORLD_COMM_GROUP}
_BACKEND_OF_TARGET = {"Ascend": "hccl", "GPU": "nccl", "CPU": "mccl"}


class GlobalComm:
    """The state of communication in this process: backend by name, name of the world group, whether `init` was called.

    CHECK_ENVS is kept for scripts that set it; nothing here needs such variables.
    """

    BACKEND = "hccl"
    WORLD_COMM_GROUP = HCCL_WORLD_COMM_GROUP
    INITED = False
    CHECK_ENVS = True


def init(backend_name: str | None = None) -> None:
    """Join the job. Calling it again has no effect.

    Args:
        backend_name: "hccl", "nccl" or "mccl". It only decides the name of the world group. By default the
            `device_target` of `context` decides; "hccl" for one that MindSpore does not have.

    Raises:
        TypeError: the name is not a string.
        RuntimeError: the name is not one of the three.

    Errors of joining are those of `shmcoll.init`.
    """
    if backend_name is None:
        backend_name = _BACKEND_OF_TARGET.get(context.get_context("device_target"), "hccl")
    if not isinstance(backend_name, str):
        raise TypeError(
            f"For 'init', the argument 'backend_name' must be a string, but got the type : {type(backend_name)}"
        )
    if backend_name not in WORLD_GROUPS:
        raise RuntimeError(
            "For 'init', the argument 'backend_name' must be one of 'hccl', 'nccl' and 'mccl', "
            f"but got 'backend_name' : {backend_name}"
        )
    shmcoll.init()
    GlobalComm.BACKEND = backend_name
    GlobalComm.WORLD_COMM_GROUP = WORLD_GROUPS[backend_name]
    GlobalComm.INITED = True


def release() -> None:
    """Undo `init`: collectives need another `init` first. The rank stays part of its job."""
    GlobalComm.INITED = False


def get_rank(group: str = GlobalComm.WORLD_COMM_GROUP) -> int:
    """Return this rank's number in the group.

    Args:
        group: the world's name.

    Returns:
        The number; before `init`, RANK_ID or 0.

    Raises:
        TypeError: the group is not a string.
        ValueError: the group is not the world.
    """
    check_group("get_rank", group)
    return world().rank if GlobalComm.INITED else int(os.environ.get("RANK_ID", "0"))


def get_local_rank(group: str = GlobalComm.WORLD_COMM_GROUP) -> int:
    """Return this rank's number on its machine, which is its number in the group: there is one machine.

    Args:
        group: the world's name.

    Returns:
        The number; before `init`, LOCAL_RANK or 0.

    Raises:
        TypeError: the group is not a string.
        ValueError: the group is not the world.
    """
    check_group("get_local_rank", group)
    return world().rank if GlobalComm.INITED else int(os.environ.get("LOCAL_RANK", "0"))


def get_group_size(group: str = GlobalComm.WORLD_COMM_GROUP) -> int:
    """Return the number of ranks in the group.

    Args:
        group: the world's name.

    Returns:
        The number; before `init`, RANK_SIZE or 1.

    Raises:
        TypeError: the group is not a string.
        ValueError: the group is not the world.
    """
    check_group("get_group_size", group)
    return world().size if GlobalComm.INITED else int(os.environ.get("RANK_SIZE", "1"))


def get_local_rank_size(group: str = GlobalComm.WORLD_COMM_GROUP) -> int:
    """Return the number of ranks of the group on this machine, which is the size of the group.

    Args:
        group: the world's name.

    Returns:
        The number; before `init`, LOCAL_RANK_SIZE or 1.

    Raises:
        TypeError: the group is not a string.
        ValueError: the group is not the world.
    """
    check_group("get_local_rank_size", group)
    return world().size if GlobalComm.INITED else int(os.environ.get("LOCAL_RANK_SIZE", "1"))


def world() -> Communicator:
    """Return the communicator behind the world group. Raises `RuntimeError` before `init`."""
    if not GlobalComm.INITED:
        raise RuntimeError(
            "Distributed Communication has not been inited."
            "You can't invoke this interface yet. Please call `init()` method first."
        )
    return shmcoll.init()


def check_group(operation: str, group: Any) -> None:
    """Raise `TypeError` if the group is not a string, `ValueError` if it is not the world."""
    if not isinstance(group, str):
        raise TypeError(
            f"For '{operation}', the argument 'group' must be type of string, but got 'group' type : {type(group)}."
        )
    check_exists(operation, group)


def check_exists(operation: str, group: str) -> None:
    """Raise `ValueError` if the group is not the world."""
    if group not in WORLD_GROUPS.values():
        raise ValueError(
            f"For '{operation}', the group '{group}' does not exist: only the world group exists in this release; "
            f"use GlobalComm.WORLD_COMM_GROUP ({', '.join(map(repr, WORLD_GROUPS.values()))} all mean it)."
        )


__all__ = [
    "HCCL_WORLD_COMM_GROUP",
    "MCCL_WORLD_COMM_GROUP",
    "NCCL_WORLD_COMM_GROUP",
    "GlobalComm",
    "get_group_size",
    "get_local_rank",
    "get_local_rank_size",
    "get_rank",
    "init",
    "release",
]
