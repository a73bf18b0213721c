"""NeighborExchange: tensors to some ranks, and from some. All ranks of the group call it.

The plan of the exchange is computed at the first call.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from shmcoll.mindspore import arrays
from shmcoll.mindspore.common.dtype import as_numpy_dtype
from shmcoll.mindspore.common.tensor import Tensor
from shmcoll.mindspore.communication import GlobalComm, communicator
from shmcoll.mindspore.ops import gradients
from shmcoll.mindspore.ops.exchange import Plan, exchange
from shmcoll.mindspore.ops.primitive import Primitive

_view = np.ndarray.view  # `Tensor.view` is MindSpore's


class NeighborExchange(Primitive):
    """Send tensors to some ranks and receive from some: `NeighborExchange(send_rank_ids, ..., group)((input_x, ...))`.

    The call takes a tuple of tensors, one for each entry of `send_rank_ids`, and returns a tuple of new tensors, one
    for each entry of `recv_rank_ids`. All ranks of the group call it. Of several tensors between two ranks, the first
    that is sent is the first that is received.

    Args:
        send_rank_ids: the ranks in the group that the tensors go to.
        recv_rank_ids: the ranks in the group that tensors come from.
        recv_shapes: the shapes of the tensors received.
        send_shapes: the shapes of the tensors sent.
        recv_type: the type of all tensors.
        group: the name of a group.

    Raises:
        TypeError: by the call, the input is not a tuple of tensors of `recv_type`.
        ValueError: by the call, a tensor does not have its shape, or a rank does not exist. Or, on all ranks, a rank
            sends a tensor of another size than is expected from it.
        RuntimeError: by the call, there is no such group, or `communication.init` has not been called.
    """

    def __init__(
        self,
        send_rank_ids: Sequence[int],
        recv_rank_ids: Sequence[int],
        recv_shapes: Sequence[Sequence[int]],
        send_shapes: Sequence[Sequence[int]],
        recv_type: Any,
        group: str = GlobalComm.WORLD_COMM_GROUP,
    ):
        super().__init__(
            send_rank_ids=send_rank_ids,
            recv_rank_ids=recv_rank_ids,
            recv_shapes=recv_shapes,
            send_shapes=send_shapes,
            recv_type=recv_type,
            group=group,
        )
        self.send_rank_ids, self.recv_rank_ids = send_rank_ids, recv_rank_ids
        self.recv_shapes, self.send_shapes = recv_shapes, send_shapes
        self.recv_type = recv_type
        self.attrs.update(no_eliminate=True)
        self._plan: Plan | None = None

    def __call__(self, input_x: Any) -> tuple[Any, ...]:
        plain = self._as_arrays(input_x)
        if not input_x:
            return tuple(map(arrays.new, self._forward()))
        first = input_x[0]
        if not isinstance(first, np.ndarray) and arrays.is_foreign(first):
            return tuple(gradients.recorded(self, self._forward, tuple(input_x), ()))
        found = self._forward(*plain)
        if type(first) is Tensor:  # the common call
            return tuple([_view(one, Tensor) for one in found])
        return tuple([arrays.like(first, one) for one in found])

    def _forward(self, *tensors: np.ndarray) -> tuple[np.ndarray, ...]:
        self._check(tensors)
        comm = communicator(self.group)
        plan = self._plan
        if plan is None or plan.size != comm.size:
            plan = self._plan = self._plan_for(comm.size)
        return exchange(comm, plan, tensors, self._dtype)

    def _check(self, tensors: Sequence[np.ndarray]) -> None:
        shapes = self._shapes
        if [x.shape for x in tensors] != shapes or len(shapes) != len(self.send_rank_ids):
            raise ValueError(
                f"For '{self.name}', the input must be {len(self.send_rank_ids)} tensors of shapes {shapes}, "
                f"but its shapes are {[x.shape for x in tensors]}."
            )
        dtype = self._dtype
        for x in tensors:
            if x.dtype is not dtype and x.dtype != dtype:
                raise TypeError(
                    f"For '{self.name}', the input must be of 'recv_type' {self.recv_type}, "
                    f"but got {arrays.dtype_of(x)}."
                )

    def _plan_for(self, size: int) -> Plan:
        sent = zip(self.send_rank_ids, self._shapes, strict=True)
        expected = zip(self.recv_rank_ids, map(tuple, self.recv_shapes), strict=True)
        return Plan.of(size, list(sent), list(expected))

    @cached_property
    def _dtype(self) -> np.dtype:
        return as_numpy_dtype(self.recv_type)

    @cached_property
    def _shapes(self) -> list[tuple[int, ...]]:
        return [tuple(shape) for shape in self.send_shapes]
