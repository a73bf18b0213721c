"""`mindspore.communication`: joining the job, and who and how many we are.

Before `init()` ranks and sizes come from the environment that the launcher has set (RANK_ID, RANK_SIZE, ...), as in
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
    """Join the job. Again: nothing.

    backend_name: "hccl", "nccl" or "mccl"; it gives the world group its name, and nothing else. None: by the
    `device_target` set in `context`, "hccl" for one that MindSpore does not have. Raises `TypeError` when it is no
    string and `RuntimeError` when it is none of the three.
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
    """Forget `init`: collectives need another one. The rank stays part of its job."""
    GlobalComm.INITED = False


def get_rank(group: str = GlobalComm.WORLD_COMM_GROUP) -> int:
    """This rank's number in the group. Before `init` that of RANK_ID, or 0."""
    check_group("get_rank", group)
    return world().rank if GlobalComm.INITED else int(os.environ.get("RANK_ID", "0"))


def get_local_rank(group: str = GlobalComm.WORLD_COMM_GROUP) -> int:
    """This rank's number on its machine, the only one. Before `init` that of LOCAL_RANK, or 0."""
    check_group("get_local_rank", group)
    return world().rank if GlobalComm.INITED else int(os.environ.get("LOCAL_RANK", "0"))


def get_group_size(group: str = GlobalComm.WORLD_COMM_GROUP) -> int:
    """Number of ranks in the group. Before `init` RANK_SIZE, or 1."""
    check_group("get_group_size", group)
    return world().size if GlobalComm.INITED else int(os.environ.get("RANK_SIZE", "1"))


def get_local_rank_size(group: str = GlobalComm.WORLD_COMM_GROUP) -> int:
    """Number of ranks of the group on this machine. Before `init` LOCAL_RANK_SIZE, or 1."""
    check_group("get_local_rank_size", group)
    return world().size if GlobalComm.INITED else int(os.environ.get("LOCAL_RANK_SIZE", "1"))


def world() -> Communicator:
    """The communicator behind the world group. Raises `RuntimeError` before `init`."""
    if not GlobalComm.INITED:
        raise RuntimeError(
            "Distributed Communication has not been inited."
            "You can't invoke this interface yet. Please call `init()` method first."
        )
    return shmcoll.init()


def check_group(operation: str, group: Any) -> None:
    """`TypeError` when the group is no string, `ValueError` when it is not the world."""
    if not isinstance(group, str):
        raise TypeError(
            f"For '{operation}', the argument 'group' must be type of string, but got 'group' type : {type(group)}."
        )
    check_exists(operation, group)


def check_exists(operation: str, group: str) -> None:
    """`ValueError` when the group is not the world."""
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
