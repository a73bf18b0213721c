"""Collectives and messages of lists of objects: anything that can be pickled."""

from typing import Any

from shmcoll.mindspore.communication.groups import communicator, root_in, world
from shmcoll.mindspore.communication.management import check_name
from shmcoll.mindspore.mint.distributed.checks import check_int, group_name, rooted
from shmcoll.mindspore.mint.distributed.messages import check_destination, peer_in


def all_gather_object(object_list: list[Any], obj: Any, group: str | None = None) -> None:
    """Write the objects of all ranks into a list, in rank order, on every rank.

    Args:
        object_list: a list of as many members as there are ranks.
        obj: anything that can be pickled.
        group: the name of the group; None for the world.

    Raises:
        TypeError: an argument is not as above, or the object cannot be pickled.
        RuntimeError: before `init`; or there is no such group, or this rank is not a member of it.
    """
    comm: Any = communicator(_group_name("all_gather_object", group))
    _check_length("object_list", object_list, comm.size, "The len of argument")
    object_list[:] = comm.all_gather_object(obj)


def gather_object(
    obj: Any, object_gather_list: list[Any] | None = None, dst: int = 0, group: str | None = None
) -> None:
    """Write the objects of all ranks into a list, in rank order, on rank `dst`.

    Args:
        obj: anything that can be pickled.
        object_gather_list: on `dst`, a list of as many members as there are ranks.
        dst: a rank, as it is numbered in the world.
        group: as for `all_gather_object`.

    Raises:
        TypeError: as for `all_gather_object`.
        RuntimeError: as for `all_gather_object`, or `dst` is not a rank of the group.
    """
    comm, root = rooted("gather_object", "dst", dst, _group_name("gather_object", group))
    if comm.rank == root:
        _check_length("object_gather_list", object_gather_list, comm.size)
    found = comm.gather_object(obj, root)
    if object_gather_list is not None and found is not None:
        object_gather_list[:] = found


def broadcast_object_list(object_list: list[Any], src: int = 0, group: str | None = None, device: Any = None) -> None:
    """Write the objects of the list of rank `src` into the lists of all ranks.

    Args:
        object_list: a list that is not empty, of the same length on all ranks.
        src: a rank, as it is numbered in the world.
        group: as for `all_gather_object`.
        device: has no effect.

    Raises:
        TypeError: as for `all_gather_object`.
        ValueError: on a rank whose list has another length than that of `src`. Its list stays as it is.
        RuntimeError: as for `all_gather_object`, or `src` is not a rank of the group.
    """
    group = _group_name("broadcast_object_list", group)
    check_int("broadcast_object_list", "src", src)
    if not isinstance(object_list, list) or not object_list:
        raise TypeError("The object_list can not be empty.")
    comm: Any = communicator(group)
    root = root_in(group, src)
    found = comm.broadcast_object(object_list, root)
    _fill("broadcast_object_list", object_list, found)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None,
    src: int = 0,
    group: str | None = None,
) -> None:
    """Write the r-th object of the list of rank `src` into the first member of the list of rank r.

    Args:
        scatter_object_output_list: a list that is not empty.
        scatter_object_input_list: on `src`, a list of as many objects as there are ranks.
        src: a rank, as it is numbered in the world.
        group: as for `all_gather_object`.

    Raises:
        TypeError: as for `all_gather_object`.
        RuntimeError: as for `all_gather_object`, or `src` is not a rank of the group.
    """
    group = _group_name("scatter_object_list", group)
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise TypeError("The scatter_object_output_list can not be empty.")
    comm, root = rooted("scatter_object_list", "src", src, group)
    values = None
    if comm.rank == root:
        _check_length("scatter_object_input_list", scatter_object_input_list, comm.size)
        values = scatter_object_input_list
    scatter_object_output_list[0] = comm.scatter_object(values, root)


def send_object_list(object_list: list[Any], dst: int, group: str | None = None, device: Any = None) -> None:
    """Send a list of objects to rank `dst`, which calls `recv_object_list`.

    Args:
        object_list: a list of anything that can be pickled.
        dst: a rank, as it is numbered in the world, but not this one.
        group: as for `all_gather_object`.
        device: has no effect.

    Raises:
        TypeError: as for `all_gather_object`.
        ValueError: `dst` is this rank.
        KeyError: there is no such group, or `dst` is not a rank of it.
        RuntimeError: before `init`; or the world has no rank `dst`, or this rank is not a member of the group.
    """
    check_int("send_object_list", "dst", dst)
    group = group_name(group)
    if not isinstance(object_list, list):
        raise TypeError("For send_object_list, the object_list must be a list")
    check_destination("send_object_list", dst, group)
    peer = peer_in(group, dst)
    communicator(group).send_object(object_list, peer)


def recv_object_list(object_list: list[Any], src: int = 0, group: str | None = None, device: Any = None) -> int:
    """Receive the objects of `send_object_list` from rank `src`.

    Args:
        object_list: a list as long as the one that was sent; its members are replaced.
        src: a rank, as it is numbered in the world.
        group: as for `all_gather_object`.
        device: has no effect.

    Returns:
        0.

    Raises:
        TypeError: as for `all_gather_object`.
        ValueError: the list that was sent has another length. It has been received; `object_list` stays as it is.
        KeyError: as for `send_object_list`.
        RuntimeError: as for `send_object_list`.
    """
    check_int("recv_object_list", "src", src)
    group = group_name(group)
    if not isinstance(object_list, list):
        raise TypeError("For recv_object_list, the object_list must be a list")
    peer = peer_in(group, src)
    found, _, _ = communicator(group).recv_object(peer, 0)
    _fill("recv_object_list", object_list, found)
    return 0


def _group_name(operation: str, group: Any) -> str:
    if group is not None:
        check_name(operation, group)
    return group_name(group)


def _check_length(name: str, objects: Any, size: int, text: str = "The len of") -> None:
    if not isinstance(objects, list) or len(objects) != size:
        got = len(objects) if hasattr(objects, "__len__") else type(objects)
        raise TypeError(f"{text} {name} must be equal to group rank size, but got {got}.")


def _fill(operation: str, objects: list[Any], found: list[Any]) -> None:
    if len(found) != len(objects):
        raise ValueError(
            f"For {operation}, rank {world().rank} has a list of {len(objects)} objects, but got {len(found)} objects"
        )
    objects[:] = found


__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]
