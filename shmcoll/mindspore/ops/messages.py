"""Operators for messages between two ranks: Send, Receive, BatchISendIRecv."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

import shmcoll
from shmcoll.mindspore import arrays
from shmcoll.mindspore.common import dtype as dtypes
from shmcoll.mindspore.common.tensor import Tensor
from shmcoll.mindspore.communication import GlobalComm, communicator
from shmcoll.mindspore.ops.checks import check_type
from shmcoll.mindspore.ops.primitive import Collective, Primitive

_RECEIVED = (
    dtypes.float16, dtypes.float32, dtypes.float64, dtypes.bfloat16, dtypes.int8, dtypes.int16, dtypes.int32,
    dtypes.int64, dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64,
)  # fmt: skip


class Send(Collective):
    """Send a tensor to a rank, which calls `Receive`: `Send(sr_tag, dest_rank, group)(input_x)`.

    The call takes a tensor of any type, and does not wait for the receiver. It returns a tensor of the same contents.

    Args:
        sr_tag: the receiver names the same tag, from 0 to 2**31 - 1.
        dest_rank: the rank in the group.
        group: the name of a group.
        group_back: has no effect. In MindSpore it is the group of the gradient; here messages have no gradient.

    Raises:
        TypeError: by the call, the input is not a tensor.
        ValueError: by the call, there is no such rank.
        RuntimeError: by the call, there is no such group, or `communication.init` has not been called. Or MindSpore
            records a gradient of the input: a message has none, because its other end is on a rank that need not take
            part in the backward pass.
    """

    def __init__(
        self,
        sr_tag: int,
        dest_rank: int,
        group: str = GlobalComm.WORLD_COMM_GROUP,
        group_back: str = GlobalComm.WORLD_COMM_GROUP,
    ):
        super().__init__(sr_tag=sr_tag, dest_rank=dest_rank, group=group, group_back=group_back)
        self.rank = self.dest_rank = dest_rank
        self.sr_tag = sr_tag
        self.attrs.update(no_eliminate=True)

    def __call__(self, input_x: Any) -> Any:
        arrays.check_unrecorded(self.name, input_x)
        return arrays.like(input_x, self._forward(self._as_array(input_x)))

    def _forward(self, x: np.ndarray) -> Any:
        communicator(self.group).send(x, self.dest_rank, self.sr_tag)
        return x.copy()


class Receive(Primitive):
    """Receive a tensor from a rank, which calls `Send`: `Receive(sr_tag, src_rank, shape, dtype, group)()`.

    The call waits for the tensor and returns it. It may be given a tensor, which is ignored.

    Args:
        sr_tag: the tag that the sender names.
        src_rank: the rank in the group.
        shape: the shape of the tensor.
        dtype: the type of the tensor.
        group: the name of a group.
        group_back: has no effect, as in `Send`.

    Raises:
        TypeError: the type is not an integer or floating type. The call raises it if the message has another type.
        ValueError: by the call, there is no such rank, or the message has another size.
        RuntimeError: by the call, as for `Send`.
    """

    def __init__(
        self,
        sr_tag: int,
        src_rank: int,
        shape: Sequence[int],
        dtype: Any,
        group: str = GlobalComm.WORLD_COMM_GROUP,
        group_back: str = GlobalComm.WORLD_COMM_GROUP,
    ):
        super().__init__(sr_tag=sr_tag, src_rank=src_rank, shape=shape, dtype=dtype, group=group, group_back=group_back)
        self.rank, self.tag = src_rank, sr_tag
        self.shape, self.dtype = shape, dtype
        self.attrs.update(no_eliminate=True)
        if str(dtype) not in map(str, _RECEIVED):
            raise TypeError(f"For '{self.name}', the type of 'dtype' must be in {list(_RECEIVED)}, but got {dtype}.")
        self._numpy_dtype = dtypes.as_numpy_dtype(dtype)

    def __call__(self, input_x: Any = None) -> Any:
        out = np.empty(tuple(self.shape), self._numpy_dtype)
        received, _, _ = communicator(self.group).recv(out, self.rank, self.tag)
        if received.size != out.size:
            raise ValueError(
                f"For '{self.name}', the 'shape' {self.shape} has {out.size} elements, but the message of rank "
                f"{self.rank} with 'sr_tag' {self.tag} has {received.size}."
            )
        return arrays.new(out)


class BatchISendIRecv(Primitive):
    """Send and receive several tensors at once: `BatchISendIRecv(op_types, remote_ranks, ..., group)((input_x, ...))`.

    The call takes a tuple with a tensor for each "isend"; `(None,)` or `()` without an "isend". It returns a tuple with
    a tensor for each entry of `op_types`: at an "irecv" the tensor received, at an "isend" one without meaning.

    Args:
        op_types: "isend" or "irecv", in the order of the messages.
        remote_ranks: for each, the rank in the group at the other end.
        receive_shapes: for each "irecv", the shape of its tensor.
        receive_dtypes: for each "irecv", the type of its tensor.
        group: the name of a group; None for the world.

    Raises:
        TypeError: one of the lists is neither a list nor a tuple. The call raises it for an input that is not a tuple
            of tensors, and for a message of another type.
        ValueError: lists have different lengths. The call raises it for another word in `op_types`, a shape too few or
            too many, a rank that does not exist, and a message of another size.
        RuntimeError: by the call, there is not one tensor for each "isend"; or as for `Send`.
    """

    def __init__(
        self,
        op_types: Sequence[str],
        remote_ranks: Sequence[int],
        receive_shapes: Sequence[Sequence[int]] | None = None,
        receive_dtypes: Sequence[Any] | None = None,
        group: str | None = GlobalComm.WORLD_COMM_GROUP,
    ):
        shapes = () if receive_shapes is None else receive_shapes
        types = () if receive_dtypes is None else receive_dtypes
        super().__init__(
            op_types=op_types,
            remote_ranks=remote_ranks,
            receive_shapes=shapes,
            receive_dtypes=types,
            group=GlobalComm.WORLD_COMM_GROUP if group is None else group,
        )
        for argument, value in (
            ("receive_shapes", shapes),
            ("receive_dtypes", types),
            ("op_types", op_types),
            ("remote_ranks", remote_ranks),
        ):
            check_type(self.name, argument, value, tuple, list)
        if len(shapes) != len(types):  # the names are MindSpore's
            raise ValueError(
                "length of receive_shapes and receive_shapes must be the same, "
                f"but got receive_shapes: {len(shapes)}  and receive_shapes: {types}"
            )
        if len(op_types) != len(remote_ranks):
            raise ValueError("length of op_types and remote_ranks must be the same.")
        self.op_types, self.remote_ranks = op_types, remote_ranks
        self.receive_shapes, self.receive_dtypes = shapes, types
        self.attrs.update(no_eliminate=True)

    def __call__(self, input_x: Any = ()) -> tuple[Any, ...]:
        given = [x for x in input_x if x is not None] if isinstance(input_x, (tuple, list)) else input_x
        plain = self._as_arrays(given)
        for x in given:
            if type(x) is not Tensor:
                arrays.check_unrecorded(self.name, x)
        result = self._forward(plain)
        return tuple([arrays.like(given[0], one) for one in result] if given else map(arrays.new, result))

    @cached_property
    def _messages(self) -> list[tuple[int, tuple[int, ...] | None, Any]]:
        """For each message the rank at the other end and, if it is received, the shape and the numpy dtype. They are
        read once, at the first call."""
        sends, receives = (self.op_types.count(one) for one in ("isend", "irecv"))
        if sends + receives < len(self.op_types) or receives != len(self.receive_shapes):
            raise ValueError(
                f"For '{self.name}', the 'op_types' must be 'isend' or 'irecv', with a shape for each 'irecv', "
                f"but got {self.op_types} and shapes {self.receive_shapes}."
            )
        rooms = zip(map(tuple, self.receive_shapes), map(dtypes.as_numpy_dtype, self.receive_dtypes), strict=True)
        return [
            (rank, None, None) if op == "isend" else (rank, *next(rooms))
            for op, rank in zip(self.op_types, self.remote_ranks, strict=True)
        ]

    def _forward(self, tensors: list[np.ndarray]) -> list[np.ndarray]:
        described = self._messages
        sends = len(described) - len(self.receive_shapes)
        if len(tensors) != sends:
            raise RuntimeError(
                f"For '{self.name}', there must be one tensor for each 'isend', "
                f"but got {len(tensors)} tensors and {sends} 'isend'."
            )
        rest = iter(tensors)
        result: list[np.ndarray] = []
        messages: list[Any] = []
        for rank, shape, dtype in described:
            if shape is None:
                result.append(np.zeros((), np.float32))
                messages.append(shmcoll.Send(next(rest), rank))
            else:
                result.append(np.empty(shape, dtype))
                messages.append(shmcoll.Recv(result[-1], rank))
        for i, work in enumerate(communicator(self.group).batch(messages)):
            received = work.wait()
            if received is not None and received[0].size != result[i].size:
                raise ValueError(
                    f"For '{self.name}', a tensor of shape {result[i].shape} was expected from rank "
                    f"{described[i][0]}, but its message has {received[0].size} elements."
                )
        return result
