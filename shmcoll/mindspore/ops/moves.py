"""Operators that move tensors between all ranks: AllGather, AllGatherV, Broadcast, CollectiveScatter, CollectiveGather,
Barrier."""

from typing import Any

import numpy as np

from shmcoll.mindspore import arrays
from shmcoll.mindspore.communication import GlobalComm, communicator, get_group_size, get_rank
from shmcoll.mindspore.ops.checks import check_divisible, check_type, counts
from shmcoll.mindspore.ops.primitive import Collective, Primitive, or_scalar


class AllGather(Collective):
    """Concatenate the tensors of all ranks along the first dimension, on every rank: `AllGather(group)(input_x)`.

    The call takes a tensor of any type and at least one dimension; shape and type are equal on all ranks. It returns a
    new tensor, whose first dimension is n times as long for n ranks.

    Args:
        group: the name of a group.

    Raises:
        TypeError: the group is not a string. The call raises it for an input that is not a tensor.
        ValueError: by the call, the tensor has no dimension.
        RuntimeError: by the call, there is no such group, or `communication.init` has not been called.
    """

    def __init__(self, group: str = GlobalComm.WORLD_COMM_GROUP):
        super().__init__(group=group)
        check_type(self.name, "group", group, str)
        self.rank = get_rank(self.group)
        self.rank_size = get_group_size(self.group)
        self.attrs.update(rank_size=self.rank_size, fusion=0, mean_flag=False, no_eliminate=True)

    def _forward(self, x: np.ndarray) -> Any:
        if not x.ndim:
            raise ValueError(f"For '{self.name}', the 'x shape' must be int and must > 0, but got '0' with type 'int'.")
        return communicator(self.group).all_gather(x)


class AllGatherV(Collective):
    """Concatenate tensors of different lengths, on every rank: `AllGatherV(group)(input_x, output_split_sizes)`.

    The call takes a tensor of one dimension, and the length of the tensor of each rank, as a list, tuple or tensor. It
    returns a new tensor of one dimension; one of shape () and no meaning if all are empty.

    Args:
        group: the name of a group.

    Raises:
        TypeError: the group is not a string. The call raises it for an input that is not a tensor, and for lengths that
            are not integers.
        ValueError: by the call, on all ranks, a length is not that of the tensor.
        RuntimeError: as for `AllGather`.
    """

    def __init__(self, group: str = GlobalComm.WORLD_COMM_GROUP):
        super().__init__(group=group)
        check_type(self.name, "group", group, str)
        self.rank = self.rank_id = get_rank(self.group)
        self.rank_size = get_group_size(self.group)
        self.attrs.update(rank_size=self.rank_size, mean_flag=False, rank_id=self.rank_id)

    def __call__(self, input_x: Any, output_split_sizes: Any) -> Any:
        return self._call(input_x, output_split_sizes)

    def _forward(self, x: np.ndarray, sizes: Any) -> Any:
        lengths = counts(self.name, "output_split_sizes", sizes)
        result, _ = communicator(self.group).all_gather_v(x, recv_counts=lengths)
        return result if result.size else or_scalar(result)


class Broadcast(Collective):
    """Copy the tensors of one rank to all ranks: `Broadcast(root_rank, group)((input_x, ...))`.

    The call takes a tuple of tensors of any type; shapes and types are equal on all ranks. It returns a tuple of new
    tensors.

    Args:
        root_rank: the rank in the group whose tensors are copied.
        group: the name of a group.

    Raises:
        TypeError: `root_rank` is not an integer, or the group is not a string. The call raises it for an input that is
            not a tuple of tensors.
        ValueError: by the call, there is no such rank.
        RuntimeError: as for `AllGather`.
    """

    def __init__(self, root_rank: int, group: str = GlobalComm.WORLD_COMM_GROUP):
        super().__init__(root_rank=root_rank, group=group)
        check_type(self.name, "root_rank", root_rank, int)
        check_type(self.name, "group", group, str)
        self.root_rank = root_rank
        self.attrs.update(no_eliminate=True)

    def __call__(self, input_x: Any) -> Any:
        if type(input_x) is not tuple or len(input_x) != 1:
            self._as_arrays(input_x)  # checks all before the first one is sent
        return tuple([self._call(x) for x in input_x])

    def _forward(self, x: np.ndarray) -> Any:
        comm = communicator(self.group)
        return comm.broadcast(x.copy() if comm.rank == self.root_rank else np.empty_like(x), self.root_rank)


class CollectiveScatter(Collective):
    """Cut the tensor of one rank into equal blocks, and return block r on rank r: `CollectiveScatter(src_rank)(x)`.

    The call takes a tensor of any type, whose first dimension is divisible by the number of ranks n; shape and type are
    equal on all ranks. It returns a new tensor of 1/n of that dimension.

    Args:
        src_rank: the rank in the group whose tensor is cut.
        group: the name of a group.

    Raises:
        TypeError: the group is not a string. The call raises it for an input that is not a tensor.
        ValueError: by the call, the first dimension is not divisible, the rank does not exist or, on all ranks, tensors
            have different shapes or types.
        RuntimeError: as for `AllGather`.
    """

    def __init__(self, src_rank: int = 0, group: str = GlobalComm.WORLD_COMM_GROUP):
        super().__init__(src_rank=src_rank, group=group)
        check_type(self.name, "group", group, str)
        self.src_rank = src_rank
        self.rank_id = get_rank(self.group)
        self.rank_size = get_group_size(self.group)
        self.attrs.update(rank_id=self.rank_id, rank_size=self.rank_size)

    def _forward(self, x: np.ndarray) -> Any:
        check_divisible(x.shape, self.rank_size)
        out = np.empty((x.shape[0] // self.rank_size, *x.shape[1:]), x.dtype)
        return communicator(self.group).scatter(x, self.src_rank, out=out)


class CollectiveGather(Collective):
    """Concatenate the tensors of all ranks along the first dimension, on one rank: `CollectiveGather(dest_rank)(x)`.

    The call takes a tensor as `AllGather` does. It returns the result on `dest_rank`, and a tensor of shape (1,) of
    zeros on the other ranks.

    Args:
        dest_rank: the rank in the group that gets the result.
        group: the name of a group.

    Raises:
        TypeError: the group is not a string. The call raises it for an input that is not a tensor.
        ValueError: by the call, the tensor has no dimension, or the rank does not exist.
        RuntimeError: as for `AllGather`.
    """

    def __init__(self, dest_rank: int, group: str = GlobalComm.WORLD_COMM_GROUP):
        super().__init__(dest_rank=dest_rank, group=group)
        check_type(self.name, "group", group, str)
        self.dest_rank = dest_rank
        self.rank_id = get_rank(self.group)
        self.rank_size = get_group_size(self.group)
        self.attrs.update(rank_size=self.rank_size, rank_id=self.rank_id)

    def _forward(self, x: np.ndarray) -> Any:
        if not x.ndim:
            raise ValueError(f"For '{self.name}', the input must have at least one dimension, but its shape is ().")
        result = communicator(self.group).gather(x, self.dest_rank)
        return np.zeros(1, x.dtype) if result is None else result


class Barrier(Primitive):
    """Wait until every rank of the group has called it: `Barrier(group)()`.

    The call returns a tensor of shape (1,), which has no meaning.

    Args:
        group: the name of a group.

    Raises:
        TypeError: by the call, the group is not a string.
        RuntimeError: by the call, there is no such group, or `communication.init` has not been called.
    """

    def __init__(self, group: str = GlobalComm.WORLD_COMM_GROUP):
        super().__init__(group=group)
        self.attrs.update(side_effect_mem=True)

    def __call__(self) -> Any:
        communicator(self.group).barrier()
        return arrays.new(np.zeros(1, np.float32))
