"""The backend "shmcoll" of `ray.util.collective`: the collectives of actors of one machine, in shared memory.

    import shmcoll.ray
    collective.init_collective_group(2, rank, backend="shmcoll")

Importing this module registers the backend in this process. Ray asks for that in the driver and in every actor.
`docs/guide/ray.md` has the table of what is there.

group    a group, as Ray calls it, and what Ray does not have
join     how the actors of a group meet, through Ray's key-value store
tensors  numpy arrays and tensors of torch, as arrays
errors   shmcoll's errors, with the names of actors
"""

from typing import Any

try:
    from ray.util.collective.backend_registry import _global_registry, register_collective_backend
except ModuleNotFoundError as missing:
    missing.add_note("shmcoll.ray needs Ray, with backends that are registered: pip install 'shmcoll[ray]'")
    raise

from shmcoll.communicator import Communicator
from shmcoll.engine.system.tracebacks import borders
from shmcoll.ray.group import NAME, Group, group_of


def register() -> None:
    """Register the backend in this process. Importing `shmcoll.ray` does this. Calling it again has no effect.

    `ray.init(runtime_env={"worker_process_setup_hook": "shmcoll.ray.register"})` has Ray do it in every process that
    it starts.
    """
    if not _global_registry.is_registered(NAME):
        register_collective_backend(NAME, Group)


def gather(tensor: Any, tensor_list: list[Any] | None = None, dst_rank: int = 0, group_name: str = "default") -> None:
    """Collect the tensors of all ranks on one rank. `ray.util.collective` has no such function.

    Args:
        tensor: this rank's; shape and dtype are equal on all ranks.
        tensor_list: on `dst_rank`, one tensor for each rank, which is written. Ignored on the other ranks.
        dst_rank: the rank that gets them.
        group_name: a group of this backend.

    Raises:
        RankFailed: an actor has died. The text has its name.
        TypeError: the group has another backend.
        ValueError: on `dst_rank`, the list does not have one tensor for each rank.
    """
    group_of(group_name, "gather").gather(tensor, tensor_list, dst_rank)


def scatter(tensor: Any, tensor_list: list[Any] | None = None, src_rank: int = 0, group_name: str = "default") -> None:
    """Send one of a list of tensors to each rank. `ray.util.collective` has no such function.

    Args:
        tensor: this rank's, which is written.
        tensor_list: on `src_rank`, one tensor for each rank, of equal shape and dtype. Ignored on the other ranks.
        src_rank: the rank that sends.
        group_name: a group of this backend.

    Raises:
        RankFailed: an actor has died. The text has its name.
        TypeError: the group has another backend.
        ValueError: on `src_rank`, the list does not have one tensor for each rank.
    """
    group_of(group_name, "scatter").scatter(tensor, tensor_list, src_rank)


def alltoall(output_tensor_list: list[Any], input_tensor_list: list[Any], group_name: str = "default") -> None:
    """Send tensor i of a list to rank i, and receive one from each rank. `ray.util.collective` has no such function.

    Args:
        output_tensor_list: one tensor for each rank, which is written.
        input_tensor_list: one tensor for each rank, all of equal shape and dtype.
        group_name: a group of this backend.

    Raises:
        RankFailed: an actor has died. The text has its name.
        TypeError: the group has another backend.
        ValueError: a list does not have one tensor for each rank.
    """
    group_of(group_name, "alltoall").alltoall(output_tensor_list, input_tensor_list)


def communicator(group_name: str = "default") -> Communicator:
    """Return the communicator of a group: it has all other collectives, on numpy arrays and on objects.

    Destroying the group closes it.

    Args:
        group_name: a group of this backend.

    Raises:
        TypeError: the group has another backend.

    Example:
        >>> rows, counts = shmcoll.ray.communicator().all_gather_v(rows, axis=0)
    """
    return group_of(group_name, "communicator").comm


borders(__name__, fast=())
register()

__all__ = ["NAME", "alltoall", "communicator", "gather", "register", "scatter"]
