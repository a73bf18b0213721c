"""`mindspore.communication`: join the job, make groups, and learn the numbers of ranks.

management    these functions
groups        the groups by name; `communicator(group)` is the communicator of one
comm_func     collectives that return a tensor, and a handle if asynchronous
"""

from importlib import import_module
from typing import Any

from shmcoll.mindspore.communication.groups import GlobalComm
from shmcoll.mindspore.communication.groups import communicator as communicator
from shmcoll.mindspore.communication.management import (
    HCCL_WORLD_COMM_GROUP,
    MCCL_WORLD_COMM_GROUP,
    NCCL_WORLD_COMM_GROUP,
    create_group,
    destroy_group,
    get_comm_name,
    get_group_rank_from_world_rank,
    get_group_size,
    get_local_rank,
    get_local_rank_size,
    get_process_group_ranks,
    get_rank,
    get_world_rank_from_group_rank,
    init,
    release,
)

__all__ = [
    "HCCL_WORLD_COMM_GROUP",
    "MCCL_WORLD_COMM_GROUP",
    "NCCL_WORLD_COMM_GROUP",
    "GlobalComm",
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


def __getattr__(name: str) -> Any:
    if name == "comm_func":  # it needs `mint.distributed`, which needs this package
        return import_module(f"{__name__}.comm_func")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
