"""`mindspore.communication`: join the job, make groups, and learn the numbers of ranks.

Before `init()`, ranks and sizes come from the environment that the launcher has set (RANK_ID, RANK_SIZE, ...), as in
MindSpore. Checks, their order and the types of errors are those of MindSpore 2.10.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

from shmcoll.mindspore import context
from shmcoll.mindspore.communication import groups
from shmcoll.mindspore.communication.groups import (
    HCCL_WORLD_COMM_GROUP,
    MCCL_WORLD_COMM_GROUP,
    NCCL_WORLD_COMM_GROUP,
    WORLD_GROUPS,
    GlobalComm,
)

_BACKEND_OF_TARGET = {"Ascend": "hccl", "GPU": "nccl", "CPU": "mccl"}


def init(backend_name: str | None = None) -> None:
    """Join the job. Calling it again has no effect.

    Sets RANK_ID, RANK_SIZE and DEVICE_ID in the environment, where the launcher has not set them. So programs that read
    them run under mpiexec, torchrun and srun as well.

    Args:
        backend_name: "hccl", "nccl" or "mccl". It only decides the name of the world group. By default the
            `device_target` of `context` decides.

    Raises:
        TypeError: the name is not a string.
        RuntimeError: the name is not one of the three.

    Errors of joining are those of `shmcoll.init`.
    """
    if backend_name is None:
        target = sys.modules.get("mindspore", context).get_context("device_target")  # MindSpore's own, if it is there
        backend_name = _BACKEND_OF_TARGET.get(target, "hccl")
    if not isinstance(backend_name, str):
        raise TypeError(
            f"For 'init', the argument 'backend_name' must be a string, but got the type : {type(backend_name)}"
        )
    if backend_name not in WORLD_GROUPS:
        raise RuntimeError(
            "For 'init', the argument 'backend_name' must be one of 'hccl', 'nccl' and 'mccl', "
            f"but got 'backend_name' : {backend_name}"
        )
    groups.join_world(backend_name)
    set_environment()


def set_environment() -> None:
    """Set the variables that MindSpore's launcher sets, where they are not set."""
    comm = groups.world()
    for name, value in (("RANK_ID", comm.rank), ("RANK_SIZE", comm.size), ("DEVICE_ID", comm.rank)):
        os.environ.setdefault(name, str(value))


def release() -> None:
    """Undo `init`: collectives need another `init` first, and groups must be made again. The rank stays part of its
    job."""
    groups.leave_world()


def get_rank(group: str = GlobalComm.WORLD_COMM_GROUP) -> int:
    """Return this rank's number in a group.

    Args:
        group: its name.

    Returns:
        The number; before `init`, RANK_ID or 0.

    Raises:
        TypeError: the group is not a string.
        RuntimeError: there is no such group, or this rank is not a member of it.
    """
    return _number("get_rank", group, _rank, "RANK_ID", 0)


def get_local_rank(group: str = GlobalComm.WORLD_COMM_GROUP) -> int:
    """Return this rank's number among the ranks of a group on this machine, which are all: there is one machine.

    Args:
        group: its name.

    Returns:
        The number; before `init`, LOCAL_RANK or 0.

    Raises:
        TypeError: the group is not a string.
        RuntimeError: there is no such group, or this rank is not a member of it.
    """
    return _number("get_local_rank", group, _rank, "LOCAL_RANK", 0)


def get_group_size(group: str = GlobalComm.WORLD_COMM_GROUP) -> int:
    """Return the number of ranks in a group.

    Args:
        group: its name.

    Returns:
        The number; before `init`, RANK_SIZE or 1.

    Raises:
        TypeError: the group is not a string.
        RuntimeError: there is no such group.
    """
    return _number("get_group_size", group, _size, "RANK_SIZE", 1)


def get_local_rank_size(group: str = GlobalComm.WORLD_COMM_GROUP) -> int:
    """Return the number of ranks of a group on this machine, which is the size of the group.

    Args:
        group: its name.

    Returns:
        The number; before `init`, LOCAL_RANK_SIZE or 1.

    Raises:
        TypeError: the group is not a string.
        RuntimeError: there is no such group.
    """
    return _number("get_local_rank_size", group, _size, "LOCAL_RANK_SIZE", 1)


def get_world_rank_from_group_rank(group: str, group_rank_id: int) -> int:
    """Return the number in the world of a rank of a group.

    Args:
        group: the name of the group.
        group_rank_id: a rank of it.

    Raises:
        TypeError: the group is not a string, or the rank is not an integer or is negative.
        RuntimeError: before `init`; or there is no such group, or it has no such rank.
    """
    check_name("get_world_rank_from_group_rank", group)
    return groups.world_rank_of(group, group_rank_id)


def get_group_rank_from_world_rank(world_rank_id: int, group: str) -> int:
    """Return the number in a group of a rank of the world.

    Args:
        world_rank_id: a rank of the world.
        group: the name of the group.

    Raises:
        TypeError: the group is not a string, or the rank is not an integer or is negative.
        RuntimeError: before `init`; or there is no such group, or the rank is not a member of it.
    """
    check_name("get_group_rank_from_world_rank", group)
    return groups.rank_in(group, world_rank_id)


def get_process_group_ranks(group: str = GlobalComm.WORLD_COMM_GROUP) -> list[int]:
    """Return the ranks of a group, as they are numbered in the world, in ascending order.

    Args:
        group: its name.

    Raises:
        TypeError: the group is not a string.
        RuntimeError: before `init`, or there is no such group.
    """
    groups.check_inited()
    if not isinstance(group, str):
        raise TypeError(f"The parameter 'group' should be str or None, but got the type : {type(group)}")
    return groups.ranks_of(group)


def get_comm_name(group: str = GlobalComm.WORLD_COMM_GROUP) -> str:
    """Return the name that shmcoll has for a group in its messages: "world", or its ranks.

    Args:
        group: its name.

    Raises:
        TypeError: the group is not a string.
        RuntimeError: before `init`; or there is no such group, or this rank is not a member of it.
    """
    check_name("get_comm_name", group)
    return groups.communicator(group).name


def create_group(group: str, rank_ids: list[int], options: Any = None) -> None:
    """Make a group of ranks. Only its members need to call it, in any order.

    Ranks are numbered in ascending order. Groups of different names are different groups, also if their ranks are the
    same. If the group exists and has these ranks, nothing is done. A member waits for the one with the lowest rank. A
    rank that is not a member may call it, too; it can then ask for the group's size and ranks.

    Args:
        group: its name.
        rank_ids: ranks of the world.
        options: None, or `GroupOptions`, which have no effect.

    Raises:
        TypeError: the group is not a string, `rank_ids` is not a list of integers that are not negative, or `options`
            is of another type.
        ValueError: the list is empty or has a rank twice, or the group exists with other ranks.
        RuntimeError: before `init`; or the name is that of the world, or the world has no such rank.

    Errors of making the group are those of `Communicator.subgroup`.
    """
    check_name("create_group", group)
    groups.create(group, rank_ids, options)


def destroy_group(group: str) -> None:
    """Leave a group. Its name can then be used again. Its memory is freed when all members have left it.

    Args:
        group: its name.

    Raises:
        TypeError: the group is not a string.
        ValueError: it is the world.
        KeyError: there is no such group.
        RuntimeError: before `init`.
    """
    check_name("destroy_group", group)
    groups.destroy(group)


def _number(operation: str, group: Any, after: Callable[[str], int], variable: str, otherwise: int) -> int:
    """Return a number of a group. Before `init` it is that of the launcher, and `otherwise` without one."""
    check_name(operation, group)
    return after(group) if GlobalComm.INITED else int(os.environ.get(variable, otherwise))


def _rank(group: str) -> int:
    return groups.communicator(group).rank


def _size(group: str) -> int:
    return len(groups.ranks_of(group))


def check_name(operation: str, group: Any, otherwise: str = "") -> None:
    """Raise `TypeError` if the group is not a string. otherwise: what else the operation takes, such as " or None"."""
    if not isinstance(group, str):
        raise TypeError(
            f"For '{operation}', the argument 'group' must be type of string{otherwise}, "
            f"but got 'group' type : {type(group)}."
        )


__all__ = [
    "HCCL_WORLD_COMM_GROUP",
    "MCCL_WORLD_COMM_GROUP",
    "NCCL_WORLD_COMM_GROUP",
    "create_group",
    "destroy_group",
    "get_comm_name",
    "get_group_rank_from_world_rank",
    "get_group_size",
    "get_local_rank",
    "get_local_rank_size",
    "get_process_group_ranks",
    "get_rank",
    "get_world_rank_from_group_rank",
    "init",
    "release",
]
