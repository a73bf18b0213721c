"""Operators that compute: AllReduce, Reduce, ReduceScatter, ReduceScatterV, and the names of their operators."""

from typing import Any, NoReturn

import numpy as np

from shmcoll.mindspore.communication import GlobalComm, communicator, get_group_size, get_rank
from shmcoll.mindspore.ops.checks import check_divisible, check_type, counts
from shmcoll.mindspore.ops.primitive import Collective, or_scalar

_BOOL = np.dtype(bool).num


class ReduceOp:
    """The operators of reductions. AVG is the sum divided by the group's size; not for integers."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"
    PROD = "prod"
    AVG = "avg"


class Reduction(Collective):
    """The base of reductions, which do not take bool."""

    op: str

    def _refuse_bool(self) -> NoReturn:
        raise TypeError(f"For '{self.name}', the dtype of the input must be a number, but got Bool.")


class AllReduce(Reduction):
    """Reduce the tensors of all ranks element by element, on every rank: `AllReduce(op, group)(input_x)`.

    The call takes a tensor of any shape, of any integer, floating or complex type; shape and type are equal on all
    ranks. It returns a new tensor of that shape and type.

    Args:
        op: one of `ReduceOp`.
        group: the name of a group.

    Raises:
        TypeError: `op` or `group` is not a string. The call raises it for an input that is not a tensor, or is bool.
        ValueError: by the call, `op` does not exist, as MindSpore leaves that to its backend.
        RuntimeError: by the call, there is no such group, or `communication.init` has not been called.
    """

    def __init__(self, op: str = ReduceOp.SUM, group: str = GlobalComm.WORLD_COMM_GROUP):
        super().__init__(op=op, group=group)
        for argument, value in (("op", op), ("group", group)):
            if not isinstance(value, str):
                raise TypeError(f"For '{self.name}', the '{argument}' must be str, but got {type(value).__name__}.")
        self.attrs.update(fusion=0, index=0, no_eliminate=True)

    def _forward(self, x: np.ndarray) -> Any:
        if x.dtype.num == _BOOL:
            self._refuse_bool()
        return communicator(self.group).all_reduce(x, self.op)


class Reduce(Reduction):
    """Reduce the tensors of all ranks element by element, on one rank: `Reduce(dest_rank, op, group)(input_x)`.

    The call takes a tensor as `AllReduce` does. It returns the result on `dest_rank`, and a tensor of shape (1,) of
    zeros on the other ranks.

    Args:
        dest_rank: the rank in the group that gets the result.
        op: one of `ReduceOp`.
        group: the name of a group.

    Raises:
        TypeError: `op` or `group` is not a string. The call raises it for an input that is not a tensor, or is bool.
        ValueError: by the call, `op` or the rank does not exist.
        RuntimeError: by the call, as for `AllReduce`.
    """

    def __init__(self, dest_rank: int, op: str = ReduceOp.SUM, group: str = GlobalComm.WORLD_COMM_GROUP):
        super().__init__(dest_rank=dest_rank, op=op, group=group)
        check_type(self.name, "group", group, str)
        check_type(self.name, "op", op, str)
        self.dest_rank = dest_rank

    def _forward(self, x: np.ndarray) -> Any:
        if x.dtype.num == _BOOL:
            self._refuse_bool()
        result = communicator(self.group).reduce(x, self.dest_rank, self.op)
        return np.zeros(1, x.dtype) if result is None else result


class ReduceScatter(Reduction):
    """Reduce the tensors of all ranks, and return block r on rank r: `ReduceScatter(op, group)(input_x)`.

    The call takes a tensor of the types of `AllReduce`, whose first dimension is divisible by the number of ranks n;
    shape and type are equal on all ranks. It returns a new tensor of 1/n of that dimension.

    Args:
        op: one of `ReduceOp`.
        group: the name of a group.

    Raises:
        TypeError: `op` or `group` is not a string. The call raises it for an input that is not a tensor, or is bool.
        ValueError: by the call, the first dimension is not divisible, or `op` does not exist.
        RuntimeError: as for `AllReduce`; and there is no gradient unless `op` is the sum.
    """

    def __init__(self, op: str = ReduceOp.SUM, group: str = GlobalComm.WORLD_COMM_GROUP):
        super().__init__(op=op, group=group)
        check_type(self.name, "op", op, str)
        check_type(self.name, "group", group, str)
        self.rank_size = get_group_size(self.group)
        self.attrs.update(rank_size=self.rank_size, fusion=0, no_eliminate=True)

    def _forward(self, x: np.ndarray) -> Any:
        if x.dtype.num == _BOOL:
            self._refuse_bool()
        check_divisible(x.shape, self.rank_size)
        return communicator(self.group).reduce_scatter(x, self.op)


class ReduceScatterV(Reduction):
    """Reduce tensors, and return blocks of different lengths: `ReduceScatterV(op, group)(input_x, input_split_sizes)`.

    The call takes a tensor of one dimension, of the types of `AllReduce`, and the length of the block of each rank, as
    a list, tuple or tensor; all are equal on all ranks. It returns a new tensor, which is the block of this rank; one
    of shape () and no meaning if the block is empty.

    Args:
        op: one of `ReduceOp`.
        group: the name of a group.

    Raises:
        TypeError: `op` or `group` is not a string. The call raises it for an input that is not a tensor, or is bool,
            and for lengths that are not integers.
        ValueError: by the call, the lengths do not add up to the tensor's, or `op` does not exist.
        RuntimeError: as for `ReduceScatter`.
    """

    def __init__(self, op: str = ReduceOp.SUM, group: str = GlobalComm.WORLD_COMM_GROUP):
        super().__init__(op=op, group=group)
        check_type(self.name, "op", op, str)
        check_type(self.name, "group", group, str)
        self.rank_size = get_group_size(self.group)
        self.rank_id = get_rank(self.group)
        self.attrs.update(rank_size=self.rank_size, rank_id=self.rank_id)

    def __call__(self, input_x: Any, input_split_sizes: Any) -> Any:
        return self._call(input_x, input_split_sizes)

    def _forward(self, x: np.ndarray, sizes: Any) -> Any:
        if x.dtype.num == _BOOL:
            self._refuse_bool()
        lengths = counts(self.name, "input_split_sizes", sizes)
        result = communicator(self.group).reduce_scatter_v(x, lengths, self.op)
        return result if result.size else or_scalar(result)
