"""The groups of this process by name, and the communicator of each.

A group is made by its members alone, in any order. Ranks of other names are different groups, also if the ranks are the
same: their operations do not meet. A rank that is not a member may make the group, too; then it knows only its ranks.
"hccl_world_group", "nccl_world_group" and "mccl_world_group" all mean the world.
"""

import sys
from typing import Any, NamedTuple

import shmcoll
from shmcoll.communicator import Communicator

HCCL_WORLD_COMM_GROUP = "hccl_world_group"
NCCL_WORLD_COMM_GROUP = "nccl_world_group"
MCCL_WORLD_COMM_GROUP = "mccl_world_group"
WORLD_GROUPS = {"hccl": HCCL_WORLD_COMM_GROUP, "nccl": NCCL_WORLD_COMM_GROUP, "mccl": MCCL_WORLD_COMM_GROUP}

NOT_INITED = (
    "Distributed Communication has not been inited."
    "You can't invoke this interface yet. Please call `init()` method first."
)
_OF_OURS = (
    " This program has MindSpore's own `init()`: start it by shmrun --mindspore, or import `init` from "
    "shmcoll.mindspore.communication."
)


class GlobalComm:
    """The state of communication in this process: backend by name, name of the world group, whether `init` was called.

    CHECK_ENVS is kept for scripts that set it; nothing here needs such variables.
    """

    BACKEND = "hccl"
    WORLD_COMM_GROUP = HCCL_WORLD_COMM_GROUP
    INITED = False
    CHECK_ENVS = True


class GroupOptions:
    """Settings of a group for MindSpore's backend, such as `hccl_config`. None has an effect here."""

    def __init__(self) -> None:
        self.hccl_config: dict[str, Any] = {}


def are_options(value: Any) -> bool:
    """Return whether these are options of a group: None, or `GroupOptions` of this package or of MindSpore itself."""
    theirs = getattr(sys.modules.get("mindspore._c_expression"), "GroupOptions", GroupOptions)
    return isinstance(value, (GroupOptions, theirs, type(None)))


class _Group(NamedTuple):
    given: list[int]  # the ranks in the order in which the program named them
    ranks: list[int]  # in ascending order


_groups: dict[str, _Group] = {}  # all but the world
#: the communicators of the groups that this rank is a member of, the world among them; None is a name of the world, too
_communicators: dict[str | None, Communicator] = {}
#: return the communicator of a group, as `communicator`; for None that of the world. None if it raises
find = _communicators.get
_numbers: dict[str | None, dict[int, int]] = {}  # of the same groups: for each rank of the world its rank in the group


def join_world(backend: str, name: str = "") -> None:
    """Join the job. name: another name of the world, beside the three that it has."""
    comm = shmcoll.init()
    GlobalComm.BACKEND = backend
    GlobalComm.WORLD_COMM_GROUP = name or WORLD_GROUPS[backend]
    GlobalComm.INITED = True
    for group in (*WORLD_GROUPS.values(), GlobalComm.WORLD_COMM_GROUP, None):
        _enter(group, comm)


def leave_world() -> None:
    """Close all groups. The world is not usable until `join_world` is called again."""
    for group in list(_groups):
        destroy(group)
    _communicators.clear()
    _numbers.clear()
    GlobalComm.INITED = False


def _enter(group: str | None, comm: Communicator) -> None:
    _communicators[group] = comm
    _numbers[group] = {world_rank: rank for rank, world_rank in enumerate(comm.ranks)}


def check_inited() -> None:
    """Raise `RuntimeError` before `init`."""
    if not GlobalComm.INITED:
        theirs = getattr(sys.modules.get("mindspore.communication"), "GlobalComm", GlobalComm)
        raise RuntimeError(NOT_INITED if theirs is GlobalComm else f"{NOT_INITED}{_OF_OURS}")


def communicator(group: str) -> Communicator:
    """Return the communicator of a group.

    Args:
        group: its name.

    Raises:
        RuntimeError: before `init`; or there is no group of this name, or this rank is not a member of it.
    """
    comm = _communicators.get(group)
    if comm is None:
        check_inited()
        _check_exists(group)
        raise RuntimeError(f"Group {group} doesn't contain the global rank {world().rank}")
    return comm


def world() -> Communicator:
    """Return the communicator of the world. Raises `RuntimeError` before `init`."""
    check_inited()
    return _communicators[GlobalComm.WORLD_COMM_GROUP]


def ranks_of(group: str) -> list[int]:
    """Return the ranks of a group, as they are numbered in the world, in ascending order. Raises as `communicator`, but
    not for a rank that is not a member."""
    if group in _groups:
        return list(_groups[group].ranks)
    return communicator(group).ranks


def is_world(group: str) -> bool:
    """Return whether this is a name of the world."""
    return group in WORLD_GROUPS.values() or group == GlobalComm.WORLD_COMM_GROUP


def rank_in(group: str, world_rank: int) -> int:
    """Return the number in a group of a rank of the world.

    Raises:
        TypeError: the rank is not an integer, or it is negative.
        RuntimeError: as for `communicator`, or the group has no such rank.
    """
    ranks = ranks_of(group)
    _check_not_negative("get_group_rank_from_world_rank", "world_rank_id", world_rank)
    if world_rank not in ranks:
        raise RuntimeError(f"Group {group} doesn't contain the global rank {int(world_rank)}; its ranks are {ranks}")
    return ranks.index(world_rank)


def number_in(group: str, world_rank: int) -> int | None:
    """Return the number in a group of a rank of the world; None if it has none, or this rank is not a member."""
    numbers = _numbers.get(group)
    return None if numbers is None else numbers.get(world_rank)


def root_in(group: str | None, world_rank: int) -> int:
    """Return the number in a group of a rank of the world, as `rank_in`; None is the world."""
    root = _numbers[group].get(world_rank)
    return rank_in(group or GlobalComm.WORLD_COMM_GROUP, world_rank) if root is None else root


def cached_rank_in(group: str, world_rank: int) -> int:
    """Return the same as `rank_in`, as messages and `get_group_rank` find it: a rank of the world stays as it is.

    Raises:
        KeyError: there is no such group, or it has no such rank.
    """
    if is_world(group):
        return world_rank
    missing = None
    if group not in _groups:
        missing = "group"
    elif world_rank not in _groups[group].ranks:
        missing = "world_rank_id"
    if missing:
        raise KeyError(
            f"For 'get_group_rank_from_world_rank_from_cache', the argument '{missing}' is not found in GROUP_RANKS, "
            f"'group' : {group}, 'world_rank_id' : {world_rank}"
        )
    return _groups[group].ranks.index(world_rank)


def world_rank_of(group: str, group_rank: int) -> int:
    """Return the number in the world of a rank of a group.

    Raises:
        TypeError: the rank is not an integer, or it is negative.
        RuntimeError: as for `communicator`, or the group has no such rank.
    """
    ranks = ranks_of(group)
    _check_not_negative("get_world_rank_from_group_rank", "group_rank_id", group_rank)
    if group_rank >= len(ranks):
        raise RuntimeError(f"Group {group} doesn't contain the group rank {int(group_rank)}; it has {len(ranks)} ranks")
    return ranks[group_rank]


def create(group: str, rank_ids: Any, options: Any = None) -> None:
    """Make a group. See `management.create_group`."""
    check_inited()
    known = _groups.get(group)
    if known is not None:
        if rank_ids != known.given:
            raise ValueError(
                f"The group {group} has been created, the rank_list is {known.given}, "
                f"but current rank_list for the group is {rank_ids}"
            )
        return
    if not isinstance(rank_ids, list):
        raise TypeError(
            f"For 'create_group', the argument 'rank_ids' must be type of list, "
            f"but got 'rank_ids' type : {type(rank_ids)}."
        )
    if not rank_ids:
        raise ValueError(
            "For 'create_group', the argument 'rank_ids' size should be greater than 1, but got 'rank_ids' size : 0."
        )
    if len(set(rank_ids)) < len(rank_ids):
        raise ValueError(f"List rank_ids in Group {group} has duplicate data!")
    if not are_options(options):
        raise TypeError(
            f"For 'create_group', the argument 'options' must be type of GroupOptions, "
            f"but got 'options' type : {type(options)}."
        )
    for rank in rank_ids:
        _check_not_negative("create_group", "rank_ids", rank)
    everybody = world()
    if is_world(group) or max(rank_ids) >= everybody.size:
        raise RuntimeError(
            f"Failed to create communication group for {group} with rank ids {rank_ids}: "
            f"the name must not be the world's, and ranks are 0 to {everybody.size - 1}."
        )
    if everybody.rank in rank_ids:
        _enter(group, everybody.subgroup(rank_ids, name=group))
    _groups[group] = _Group(list(rank_ids), sorted(rank_ids))


def destroy(group: str) -> None:
    """Leave a group. See `management.destroy_group`."""
    check_inited()
    if is_world(group):
        raise ValueError("The world_group does not support destruction.")
    del _groups[group]
    if group in _communicators:
        del _numbers[group]
        _communicators.pop(group).close()


def _check_exists(group: str) -> None:
    if group not in _groups:
        known = ", ".join(dict.fromkeys((GlobalComm.WORLD_COMM_GROUP, *_groups)))
        raise RuntimeError(
            f"The group {group} does not exist. Rank {world().rank} has: {known}; create_group makes one."
        )


def _check_not_negative(operation: str, argument: str, rank: Any) -> None:
    if not isinstance(rank, int):
        raise TypeError(
            f"For '{operation}', the argument '{argument}' must be type of int, "
            f"but got '{argument}' type : {type(rank)}."
        )
    if rank < 0:
        raise TypeError(f"For '{operation}', the argument '{argument}' must not be negative, but got {rank}.")
