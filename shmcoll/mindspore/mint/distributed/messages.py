"""Messages from rank to rank: send, recv, isend, irecv, and several at once."""

from collections.abc import Iterable
from typing import Any

from shmcoll.communicator.messages import Recv, Send
from shmcoll.mindspore import arrays
from shmcoll.mindspore.communication import groups
from shmcoll.mindspore.communication.groups import communicator, number_in, rank_in, root_in
from shmcoll.mindspore.mint.distributed.checks import array_of, check_int, check_moved, group_name, group_of
from shmcoll.mindspore.mint.distributed.handle import CommHandle, Works

_NAMES = ("isend", "irecv")  # of what a message does


def send(tensor: Any, dst: int = 0, group: str | None = None, tag: int = 0) -> None:
    """Send a tensor to rank `dst`. Returns when the tensor may be changed.

    Args:
        tensor: tensor of any shape, of an integer or floating type.
        dst: a rank, as it is numbered in the world, but not this one.
        group: the name of the group; None for the world.
        tag: the receiver names the same; 0 to 2**31 - 1.

    Raises:
        TypeError: an argument is not as above.
        ValueError: `dst` is this rank.
        KeyError: there is no such group, or `dst` is not a rank of it.
        RuntimeError: before `init`; or the world has no rank `dst`, or this rank is not a member of the group.
    """
    _send("send", tensor, dst, group, tag, later=False)


def isend(tensor: Any, dst: int = 0, group: str | None = None, tag: int = 0) -> CommHandle:
    """Begin to send a tensor to rank `dst`. Leave the tensor alone until `wait()` of the handle returns.

    Args:
        tensor: as for `send`.
        dst: as for `send`.
        group: as for `send`.
        tag: as for `send`.

    Returns:
        A `CommHandle`.

    Raises:
        TypeError: an argument is not as above.
        ValueError: as for `send`.
        KeyError: as for `send`.
        RuntimeError: as for `send`.
    """
    return CommHandle(_send("isend", tensor, dst, group, tag, later=True))


def recv(tensor: Any, src: int = 0, group: str | None = None, tag: int = 0) -> int:
    """Receive a tensor from rank `src`.

    Args:
        tensor: tensor of the type of the message and of at least as many elements. A shorter message is written into
            the first elements, as on MindSpore's CPU target, and the others stay as they are.
        src: a rank, as it is numbered in the world.
        group: as for `send`.
        tag: as for `send`.

    Returns:
        0.

    Raises:
        TypeError: an argument is not as above.
        ValueError: the message has more elements. It stays, and can be received again.
        KeyError: there is no such group, or `src` is not a rank of it.
        RuntimeError: as for `send`.
    """
    out = array_of("recv", tensor)
    check_int("recv", "src", src)
    group = group_name(group)
    source = peer_in(group, src)
    check_moved("recv", out)
    communicator(group).recv(out, source, tag)
    return 0


def irecv(tensor: Any, src: int = 0, group: str | None = None, tag: int = 0) -> CommHandle:
    """Begin to receive a tensor from rank `src`. It is complete when `wait()` of the handle returns.

    Args:
        tensor: as for `recv`.
        src: as for `recv`.
        group: as for `send`.
        tag: as for `send`.

    Returns:
        A `CommHandle`.

    Raises:
        TypeError: an argument is not as above.
        KeyError: as for `recv`.
        RuntimeError: as for `send`.
    """
    out = array_of("irecv", tensor)
    group = group_name(group)
    check_int("irecv", "src", src)
    source = peer_in(group, src)
    check_moved("irecv", out)
    return CommHandle(communicator(group).recv(out, source, tag, async_op=True))


class P2POp:
    """A message for `batch_isend_irecv`.

    Args:
        op: "isend" or "irecv", or the function. Like all arguments, it is read again when the message begins.
        tensor: the tensor to send, or the one to receive into.
        peer: the other rank, as it is numbered in the world.
        group: the name of the group; None for the world.
        tag: 0.

    Raises:
        TypeError: an argument is of another type, or `op` is another function.
        NotImplementedError: the tag is not 0.
    """

    def __init__(self, op: Any, tensor: Any, peer: int, group: str | None = None, tag: int = 0):
        if name_of(op) not in _NAMES:
            raise TypeError(f"Expected op to be of type isend or irecv, but got {op}")
        if not arrays.is_tensor(tensor):
            raise TypeError(f"Expected tensor to be Tensor, but got {type(tensor)}{arrays.advice(tensor)}.")
        check_int("P2POp", "peer", peer)
        if tag != 0:
            raise NotImplementedError("tag is not support yet.")
        self.op = op
        self.tensor = tensor
        self.peer = peer
        self.group = group
        self.tag = tag


def batch_isend_irecv(p2p_op_list: Any) -> list[CommHandle]:
    """Begin to send and receive several tensors. No message waits for another one of the list.

    Args:
        p2p_op_list: a list of `P2POp`, all of one group.

    Returns:
        A list of one `CommHandle`, for all of them.

    Raises:
        TypeError: the list is empty, has something else, groups differ, or an `op` has become another function.
        RuntimeError: before `init`; or there is no such group, or it has no such rank.
    """
    if not p2p_op_list:
        raise TypeError("p2p_op_list can not be empty list.")
    for one in p2p_op_list:
        if not isinstance(one, P2POp):
            raise TypeError("The elements in p2p_op_list must be type of P2POp.")
    group = p2p_op_list[0].group
    for one in p2p_op_list:
        if one.group != group:
            raise TypeError("The group name in p2p_op_list must be consistent.")
    return [CommHandle(Works(started(group, [(sends(one.op), one.tensor, one.peer) for one in p2p_op_list])))]


def name_of(op: Any) -> Any:
    """Return the name of what a message does, which is given itself or by the function of that name. None if the object
    has no name."""
    return op if isinstance(op, str) else getattr(op, "__name__", None)


def sends(op: Any) -> bool:
    """Return whether a message is sent. Raise `TypeError` if `op` is neither "isend" nor "irecv", nor the function."""
    name = op if type(op) is str else name_of(op)
    if name not in _NAMES:
        raise TypeError("p2p_op.op must be isend or irecv")
    return bool(name == "isend")


def started(group: Any, messages: Iterable[tuple[bool, Any, int]]) -> list[Any]:
    """Begin to send and receive tensors.

    Args:
        group: the name of the group; None for the world.
        messages: for each message whether it is sent, the tensor, and the other rank as it is numbered in the world.

    Returns:
        A `Work` for each message.

    Raises:
        TypeError: a tensor cannot be sent.
        RuntimeError: as for `batch_isend_irecv`.
    """
    comm = group_of(group)
    described: list[Any] = []
    for sends, tensor, world_rank in messages:
        peer, array = root_in(group, world_rank), array_of("batch_isend_irecv", tensor)
        check_moved("batch_isend_irecv", array)
        described.append(Send(array, peer) if sends else Recv(array, peer, 0))
    works: list[Any] = comm.batch(described)
    return works


def _send(operation: str, tensor: Any, dst: int, group: str | None, tag: int, *, later: bool) -> Any:
    x = array_of(operation, tensor)
    group = check_destination(operation, dst, group)
    peer = peer_in(group, dst)
    comm: Any = communicator(group)
    check_moved(operation, x)
    return comm.send(x, peer, tag, async_op=later)


def check_destination(operation: str, dst: Any, group: Any) -> str:
    """Return the name of the group. Raise `TypeError` or `ValueError` if `dst` is not the number of another rank."""
    check_int(operation, "dst", dst)
    group = group_name(group)
    if groups.world().rank == dst:
        raise ValueError(
            "Invalid destination rank: destination rank should not be the same as the rank of the current process."
        )
    return str(group)


def peer_in(group: str, rank: int) -> int:
    """Return the number in the group of a rank of the world, as `rank_in`, but with the errors of messages.

    Raises:
        KeyError: there is no such group, or it has no such rank.
        RuntimeError: before `init`, or the world has no such rank.
    """
    known = number_in(group, rank)
    if known is not None:
        return known
    if groups.is_world(group):
        return rank_in(group, rank)
    groups.check_inited()
    return groups.cached_rank_in(group, rank)


__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]
