"""Messages from rank to rank: send, isend, recv, irecv, and several at once."""

from typing import Any

import numpy as np

from shmcoll.mindspore import arrays
from shmcoll.mindspore.common import dtype as dtypes
from shmcoll.mindspore.common.tensor import Tensor
from shmcoll.mindspore.communication import GlobalComm
from shmcoll.mindspore.memory import memory_of, new_like, nothing_like
from shmcoll.mindspore.mint.distributed import messages
from shmcoll.mindspore.mint.distributed.checks import array_of
from shmcoll.mindspore.mint.distributed.handle import Result
from shmcoll.mindspore.mint.distributed.messages import isend, send

_WORLD = GlobalComm.WORLD_COMM_GROUP


def recv(tensor: Any, src: int = 0, group: str | None = _WORLD, tag: int = 0) -> Any:
    """Receive a tensor from rank `src`.

    Args:
        tensor: a tensor of the type of the message and of at least as many elements. It stays as it is.
        src: a rank, as it is numbered in the world.
        group: as for `all_reduce`.
        tag: the sender names the same; 0 to 2**31 - 1.

    Returns:
        A new tensor like `tensor`, with the message in its first elements.

    Raises:
        TypeError: an argument is not as above.
        ValueError: the message has more elements. It stays, and can be received again.
        KeyError: there is no such group, or `src` is not a rank of it.
        RuntimeError: as for `all_reduce`.
    """
    array_of("recv", tensor)
    out = _copied(tensor)
    messages.recv(out, src, group, tag)
    return out


def irecv(tensor: Any, src: int = 0, group: str | None = _WORLD, tag: int = 0) -> Result:
    """Begin to receive a tensor from rank `src`.

    Args:
        tensor: as for `recv`.
        src: as for `recv`.
        group: as for `recv`.
        tag: as for `recv`.

    Returns:
        (tensor, handle): the tensor is received when `wait()` of the handle returns.

    Raises:
        TypeError: an argument is not as above.
        KeyError: as for `recv`.
        RuntimeError: as for `all_reduce`.
    """
    array_of("irecv", tensor)
    out = _copied(tensor)
    return out, messages.irecv(out, src, group, tag)


class P2POp:
    """A message for `batch_isend_irecv`.

    Args:
        op: "isend" or "irecv", or the function. Like all arguments, it is read again when the message begins.
        tensor: the tensor to send; for "irecv" a tensor like the one to receive, or its shape as a tuple.
        peer: the other rank, as it is numbered in the world.
        group: the name of the group; None for the world.
        tag: 0.
        recv_dtype: the element type to receive, if `tensor` is a shape.

    Raises:
        TypeError: an argument is of another type.
        ValueError: `op` is another function.
        NotImplementedError: the tag is not 0.
    """

    def __init__(
        self, op: Any, tensor: Any, peer: int, group: str | None = None, tag: int = 0, *, recv_dtype: Any = None
    ):
        if not (isinstance(op, str) or callable(op)):
            raise TypeError(f"op must be type of string or function, but got type of {type(op)}")
        name = op if isinstance(op, str) else op.__name__
        if name not in ("isend", "irecv"):
            raise ValueError(f"Expected ``op`` to be of type ``isend`` or `irecv``, but got {name}")
        if not (arrays.is_tensor(tensor) or isinstance(tensor, tuple)):
            raise TypeError(f"Expected ``tensor`` to be type of tuple or Tensor, but got {type(tensor)}.")
        if tag != 0:
            raise NotImplementedError("``tag`` not support yet.")
        if not isinstance(peer, int):
            raise TypeError(f"peer must be type of int, but got type of {type(peer)}")
        if recv_dtype is not None and dtypes.BY_PRINTED.get(str(recv_dtype)) is None:
            raise TypeError(f"recv_dtype must be type of mindspore dtype, but got type of {type(recv_dtype)}")
        self.op = op
        self.tensor = tensor
        self.peer = peer
        self.group = group
        self.tag = tag
        self.recv_dtype = recv_dtype


def batch_isend_irecv(p2p_op_list: Any) -> tuple[Any, ...]:
    """Send and receive several tensors. No message waits for another one of the list.

    Args:
        p2p_op_list: a list of `P2POp`; the group is that of the first.

    Returns:
        A tuple with a tensor for each of the list: what was received; for what was sent, a tensor of shape (1,) that is
        zero.

    Raises:
        TypeError: it is not a list, is empty, has something else, or an `op` has become another function.
        ValueError: a shape is given without `recv_dtype`.
        RuntimeError: before `init`; or there is no such group, or it has no such rank.
    """
    if not isinstance(p2p_op_list, list):
        raise TypeError(f"p2p_op_list must be type of list, but got type of {p2p_op_list}.")
    if not p2p_op_list:
        raise TypeError("p2p_op_list can not be empty list.")
    group = p2p_op_list[0].group if isinstance(p2p_op_list[0], P2POp) else None
    described, results = [], []
    for i, one in enumerate(p2p_op_list):
        if not isinstance(one, P2POp):
            raise TypeError("must be type of P2POp")
        if messages.sends(one.op):
            array_of("isend", one.tensor)
            results.append(nothing_like(one.tensor))
            described.append((True, one.tensor, one.peer))
        else:
            results.append(_room(i, one))
            described.append((False, results[-1], one.peer))
    for work in messages.started(group, described):
        work.wait()
    return tuple(results)


def _copied(tensor: Any) -> Any:
    """Return a new tensor like another one, with the same elements."""
    if type(tensor) is Tensor:  # the common call
        return tensor.copy()
    found = memory_of(tensor)
    out, place = new_like(tensor, found.shape)
    place[...] = found
    return out


def _room(i: int, one: P2POp) -> Any:
    """Return a tensor for what is received."""
    if not isinstance(one.tensor, tuple):
        return _copied(one.tensor)
    if one.recv_dtype is None:
        raise ValueError(
            f"'recv_dtype' of {i}th P2POp in p2p_op_list is None but op_types is'irecv' and P2POp.tensor is a tuple "
            f"type."
        )
    return arrays.new(np.zeros(one.tensor, dtypes.as_numpy_dtype(one.recv_dtype)))


__all__ = [
    "P2POp",
    "batch_isend_irecv",
    "irecv",
    "isend",
    "recv",
    "send",
]
