"""The job and its groups: init_process_group, new_group, and questions about them."""

import hashlib
import os
import re
from datetime import timedelta
from typing import Any

import shmcoll
from shmcoll.engine.system import log
from shmcoll.engine.system.handlers import reraise_of_handler
from shmcoll.engine.system.text import to_bytes
from shmcoll.mindspore import communication
from shmcoll.mindspore.communication import GlobalComm, groups
from shmcoll.mindspore.communication.management import check_name, set_environment
from shmcoll.mindspore.mint.distributed.tcp_store import TCPStore
from shmcoll.startup import marks
from shmcoll.startup.launchers import find_placement

_BACKENDS = ("hccl", "mccl")
_TCP_URL = re.compile(r"tcp://((?:\d{1,3}\.){3}\d{1,3}):(\d+)")


def init_process_group(
    backend: str = "hccl",
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: TCPStore | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: int | None = None,
) -> None:
    """Join the job.

    The launcher has decided which processes take part, so most arguments are only checked. Processes without a launcher
    that pass `init_method` or `store`, `world_size` and `rank` join a job of their own. Sets RANK_ID, RANK_SIZE and
    DEVICE_ID in the environment, where they are not set.

    Args:
        backend: "hccl".
        init_method: "tcp://IPv4:port"; needs `world_size` and `rank`; not together with `store`. It identifies the job;
            no connection is made.
        timeout: has no effect. In MindSpore it limits the setup of the network.
        world_size: the number of ranks of the job, or -1.
        rank: this rank's number, or -1.
        store: needs `world_size` and `rank`; not together with `init_method`. Its address identifies the job.
        group_name: another name of the world, if `init_method` or `store` is passed.
        pg_options: has no effect; a warning is logged.
        device_id: has no effect; a warning is logged.

    Raises:
        TypeError: an argument is of another type.
        ValueError: an argument is not as above, or not what the launcher has decided.
        RuntimeError: `init_method` is not such an address.

    Errors of joining are those of `shmcoll.init`.
    """
    for name, value, kind in (
        ("init_method", init_method, str),
        ("timeout", timeout, timedelta),
        ("world_size", world_size, int),
        ("rank", rank, int),
        ("store", store, TCPStore),
        ("group_name", group_name, str),
    ):
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"The parameter '{name}' must be {kind}, but got {type(value)}")
    for name, value in (("pg_options", pg_options), ("device_id", device_id)):
        if value is not None:
            log.warning(f"{name} is ignored, setting is invalid")
    if backend != "hccl":
        raise ValueError("Only support hccl now, please setting backend to hccl or using default value")
    if init_method is not None and store is not None:
        raise ValueError("Only one of init_method and store is supported.")
    address = None
    if init_method is not None or store is not None:
        if world_size <= 0:
            raise ValueError("Specified world_size must be a positive integer.")
        if rank < 0:
            raise ValueError("Specified rank must be a non-negative integer.")
        address = _address(init_method) if init_method is not None else f"{store.host}:{store.port}"  # type: ignore[union-attr]
    # A process that a rank has started gets an error about its arguments: it is not a rank, but a job of one
    unmarked = {name: value for name, value in os.environ.items() if name != marks.NAME}
    if address is not None and "SHMCOLL_ARENA" not in os.environ and find_placement(unmarked) is None:
        comm = shmcoll.init(rank=rank, size=world_size, job=f"mindspore {address}")
    else:
        comm = shmcoll.init()
    if world_size not in (-1, comm.size):
        raise ValueError(f"world_size is wrong, please using default value or setting: {comm.size}")
    if rank not in (-1, comm.rank):
        raise ValueError(f"rank is wrong, please using default value or setting: {comm.rank}")
    groups.join_world(backend, group_name if address else "")
    set_environment()


def _address(url: str) -> str:
    match = _TCP_URL.fullmatch(url)
    if match is None or any(int(part) > 255 for part in match[1].split(".")) or not 1 <= int(match[2]) <= 65535:
        raise RuntimeError(
            f"Failed to parse TCP URL from 'init_method': {url}; it must be tcp://IPv4:port, with a port from 1 to "
            f"65535"
        )
    return f"{match[1]}:{match[2]}"


def destroy_process_group(group: str | None = None) -> None:
    """Leave a group; for the world, undo `init_process_group`: collectives need another one first.

    Args:
        group: the name of the group; None for the world.

    Raises:
        RuntimeError: before `init_process_group`.
        TypeError: the group is not a string.
        KeyError: there is no such group.
    """
    if group is None:
        group = GlobalComm.WORLD_COMM_GROUP
    check_name("destroy_group", group, " or None")
    groups.check_inited()
    if groups.is_world(group):
        communication.release()
    else:
        groups.destroy(group)


def is_available() -> bool:
    """Return True: collectives work on every machine."""
    return True


def is_initialized() -> bool:
    """Return whether this rank has joined the job."""
    return GlobalComm.INITED


def get_rank(group: str | None = None) -> int:
    """Return this rank's number in a group; before `init_process_group`, RANK_ID or 0.

    Args:
        group: the name of the group; None for the world.

    Returns:
        The number; -1 if there is no such group, or this rank is not a member of it. Then a warning is logged.

    Raises:
        TypeError: the group is not a string.
    """
    group = GlobalComm.WORLD_COMM_GROUP if group is None else group
    try:
        return communication.get_rank(group)
    except RuntimeError as error:
        log.warning(str(error))
        return -1


def get_world_size(group: str | None = None) -> int:
    """Return the number of ranks in a group; before `init_process_group`, RANK_SIZE or 1.

    Args:
        group: the name of the group; None for the world.

    Returns:
        The number; -1 if there is no such group. Then a warning is logged.

    Raises:
        TypeError: the group is not a string.
    """
    group = GlobalComm.WORLD_COMM_GROUP if group is None else group
    check_name("get_world_size", group)
    try:
        return communication.get_group_size(group)
    except RuntimeError as error:
        log.warning(str(error))
        return -1


def new_group(
    ranks: list[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
) -> str:
    """Make a group of ranks, as `create_group` does, with a name that its ranks give. Only its members need to call it.

    Args:
        ranks: ranks of the world, in any order; None for the world.
        timeout: has no effect.
        backend: "hccl" or "mccl", which the name begins with; None for "hccl".
        pg_options: None, or `GroupOptions`, which have no effect.
        use_local_synchronization: has no effect.
        group_desc: has no effect.

    Returns:
        The name of the group. It is "" if the group cannot be made, for example because the world has no such rank;
        then a warning is logged.

    Raises:
        TypeError: `ranks` is not a list of integers that are not negative, or `backend` or `pg_options` is not as
            above.
        ValueError: the list is empty, or has a rank twice.
    """
    if ranks is None:
        return GlobalComm.WORLD_COMM_GROUP
    if not isinstance(ranks, list):
        raise TypeError(f"ranks must be list, but got {type(ranks)}")
    ranks = sorted(ranks)
    backend = "hccl" if backend is None else backend
    if backend not in _BACKENDS:
        raise TypeError(f"the input backend must be hccl or mccl, but got {backend}")
    digest = hashlib.sha1(to_bytes("_".join(map(str, ranks))), usedforsecurity=False).hexdigest()
    group = f"{backend}_{len(ranks)}_{digest}"
    if not groups.are_options(pg_options):
        raise TypeError(f"pg_options must be type GroupOptions, but got {type(pg_options)}")
    try:
        groups.create(group, ranks, pg_options)
    except RuntimeError as error:
        reraise_of_handler(error)
        log.warning(str(error))
        return ""
    return group


def get_backend(group: str | None = None) -> str:
    """Return the backend of a group: "hccl" or "mccl", as its name says it, else that of `init`.

    Args:
        group: the name of the group, which need not exist; None for "hccl".

    Raises:
        TypeError: the group is not a string.
    """
    if group is None:
        return "hccl"
    check_name("get_backend", group, " or None")
    return next((backend for backend in _BACKENDS if backend in group), GlobalComm.BACKEND)


def get_global_rank(group: str | None, group_rank: int) -> int:
    """Return the number in the world of a rank of a group.

    Args:
        group: the name of the group; None for the world, whose ranks are returned as they are.
        group_rank: a rank of it.

    Raises:
        TypeError: the group is not a string, or the rank is not an integer or is negative.
        RuntimeError: before `init_process_group`; or there is no such group, or it has no such rank.
    """
    if not isinstance(group_rank, int):
        raise TypeError(f"The group_rank argument must be integer, but got {type(group_rank)}.")
    if group is None:
        return group_rank
    check_name("get_global_rank", group, " or None")
    return groups.world_rank_of(group, group_rank)


def get_group_rank(group: str | None, global_rank: int) -> int:
    """Return the number in a group of a rank of the world.

    Args:
        group: the name of the group; None for the world, whose ranks are returned as they are.
        global_rank: a rank of the world.

    Raises:
        TypeError: the group is not a string, or the rank is not an integer.
        KeyError: there is no such group, or the rank is not a member of it.
        RuntimeError: before `init_process_group`.
    """
    if not isinstance(global_rank, int):
        raise TypeError(f"The global_rank argument must be integer, but got {type(global_rank)}.")
    group = GlobalComm.WORLD_COMM_GROUP if group is None else group
    check_name("get_group_rank_from_world_rank", group)
    groups.check_inited()
    return groups.cached_rank_in(group, global_rank)


def get_process_group_ranks(group: str | None = None) -> list[int]:
    """Return the ranks of a group, as they are numbered in the world, in ascending order.

    Args:
        group: the name of the group; None for the world.

    Raises:
        TypeError: the group is not a string.
        RuntimeError: before `init_process_group`, or there is no such group.
    """
    group = GlobalComm.WORLD_COMM_GROUP if group is None else group
    check_name("get_process_group_ranks", group, " or None")
    return groups.ranks_of(group)


__all__ = [
    "destroy_process_group",
    "get_backend",
    "get_global_rank",
    "get_group_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "is_available",
    "is_initialized",
    "new_group",
]
