"""Operators that send a block to every rank: AlltoAll with equal blocks, AlltoAllV and AlltoAllVC with others."""

from typing import Any

import numpy as np

from shmcoll.mindspore import arrays
from shmcoll.mindspore.common import dtype as dtypes
from shmcoll.mindspore.communication import GlobalComm, communicator, get_group_size, get_rank
from shmcoll.mindspore.ops.checks import check_is_int, check_type, counts
from shmcoll.mindspore.ops.primitive import Collective, or_scalar

_ACCEPTED = {one.numpy.num: one for one in dtypes.ALL if one.numpy.kind != "c"}


class AlltoAll(Collective):
    """Send block i of a tensor to rank i: `AlltoAll(split_count, split_dim, concat_dim, group)(input_x)`.

    The call splits the input into blocks and returns a new tensor of the blocks received, concatenated in rank order:
    `split_dim` of the shape is divided and `concat_dim` multiplied by `split_count`. The input may be of any type
    except complex; shape and type are equal on all ranks.

    Args:
        split_count: the number of blocks, which is the number of ranks.
        split_dim: the dimension along which the input is split. May be negative.
        concat_dim: the dimension along which the blocks received are concatenated. May be negative.
        group: the name of a group.

    Raises:
        TypeError: the group is not a string, or a number is not an integer. The call raises it for an input that is not
            a tensor of a possible type.
        ValueError: by the call, `split_count` is not the number of ranks, or does not divide the dimension.
        IndexError: by the call, a dimension does not exist.
        RuntimeError: there is no such group. Or, by the call, `communication.init` has not been called.
    """

    def __init__(self, split_count: int, split_dim: int, concat_dim: int, group: str = GlobalComm.WORLD_COMM_GROUP):
        super().__init__(split_count=split_count, split_dim=split_dim, concat_dim=concat_dim, group=group)
        check_type(self.name, "group", group, str)
        for value in (split_count, split_dim, concat_dim):
            check_is_int(value)
        self.split_count = split_count
        self.split_dim = split_dim
        self.concat_dim = concat_dim
        self.rank_size = get_group_size(self.group)
        self.attrs.update(no_eliminate=True, rank_size=self.rank_size)

    def _forward(self, x: np.ndarray) -> Any:
        self._check(x)
        return communicator(self.group).all_to_all(x, self.split_dim, self.concat_dim)

    def _check(self, x: np.ndarray) -> None:
        if x.dtype.num not in _ACCEPTED:
            accepted = ", ".join(map(str, _ACCEPTED.values()))
            raise TypeError(
                f"For '{self.name}', the dtype of the input must be one of {accepted}, but got {arrays.dtype_of(x)}."
            )
        if self.split_count != self.rank_size:
            raise ValueError(  # the quote that is missing is missing in MindSpore
                f"For '{self.name}, the 'split_count' must be equal to 'rank_size', "
                f"but got 'split_count': {self.split_count}, 'rank_size': {self.rank_size}"
            )
        if not -x.ndim <= self.concat_dim < x.ndim:
            raise IndexError(f"Invalid concat dim {self.concat_dim} is greater than shape size {x.ndim}")
        if not -x.ndim <= self.split_dim < x.ndim:
            raise IndexError(f"Invalid split dim {self.split_dim} is greater than shape size {x.ndim}")
        if x.shape[self.split_dim] % self.split_count:
            raise ValueError(
                f"For '{self.name}', the 'x_shape[split_dim]' must be divisible by 'split_count', "
                f"but got 'x_shape[split_dim]' {x.shape[self.split_dim]}, 'split_count' {self.split_count}."
            )


class AlltoAllV(Collective):
    """Send blocks of different lengths: `AlltoAllV(group, block_size)(input_x, send_numel_list, recv_numel_list)`.

    The call takes a tensor of one dimension, of any type, which consists of the blocks for the ranks. The lists, tuples
    or tensors of lengths say how many times `block_size` elements go to each rank, and come from each rank. It returns
    a new tensor of the blocks received, in rank order; one of shape () and no meaning if nothing is received.

    Args:
        group: the name of a group; None for the world.
        block_size: the unit of the lengths.

    Raises:
        TypeError: the group is not a string, or `block_size` is not an integer. The call raises it for an input that is
            not a tensor, and for lengths that are not integers.
        ValueError: by the call, the lengths do not add up to the tensor's. Or, on all ranks, a rank sends more or less
            than is expected from it.
        RuntimeError: as for `AlltoAll`.
    """

    def __init__(self, group: str | None = GlobalComm.WORLD_COMM_GROUP, block_size: int = 1):
        super().__init__(group=GlobalComm.WORLD_COMM_GROUP if group is None else group, block_size=block_size)
        self.rank_size = get_group_size(self.group)
        check_type(self.name, "block_size", block_size, int)
        self.block_size = block_size

    def __call__(self, input_x: Any, send_numel_list: Any, recv_numel_list: Any) -> Any:
        return self._call(input_x, send_numel_list, recv_numel_list)

    def _forward(self, x: np.ndarray, send_numel_list: Any, recv_numel_list: Any) -> Any:
        sent = counts(self.name, "send_numel_list", send_numel_list)
        received = counts(self.name, "recv_numel_list", recv_numel_list)
        if self.block_size != 1:
            sent, received = np.multiply(sent, self.block_size), np.multiply(received, self.block_size)
        result, _ = communicator(self.group).all_to_all_v(x, sent, recv_counts=received)
        return result if result.size else or_scalar(result)


class AlltoAllVC(Collective):
    """Send blocks of different lengths: `AlltoAllVC(group, block_size, transpose)(input_x, send_count_matrix)`.

    The call takes a tensor as `AlltoAllV` does, and the lengths of all blocks, as a list or a tensor of n * n integers
    for n ranks, the same on all ranks: number i * n + j says how many times `block_size` elements rank i sends to j. It
    returns a tensor as `AlltoAllV` does.

    Args:
        group: the name of a group; None for the world.
        block_size: the unit of the lengths.
        transpose: number i * n + j is the length of the block that rank j sends to i, as on the way back.

    Raises:
        TypeError: as for `AlltoAllV`.
        ValueError: by the call, there are not n * n lengths; or as for `AlltoAllV`.
        RuntimeError: as for `AlltoAll`.
    """

    def __init__(self, group: str | None = GlobalComm.WORLD_COMM_GROUP, block_size: int = 1, transpose: bool = False):
        super().__init__(
            group=GlobalComm.WORLD_COMM_GROUP if group is None else group, block_size=block_size, transpose=transpose
        )
        self.rank_size = get_group_size(self.group)
        self.rank_id = get_rank(self.group)
        check_type(self.name, "block_size", block_size, int)
        self.block_size = block_size
        self.transpose = transpose
        self.attrs.update(rank_size=self.rank_size, rank_id=self.rank_id)

    def __call__(self, input_x: Any, send_count_matrix: Any) -> Any:
        return self._call(input_x, send_count_matrix)

    def _forward(self, x: np.ndarray, send_count_matrix: Any) -> Any:
        comm = communicator(self.group)
        rank, size = comm.rank, comm.size
        matrix = counts(self.name, "send_count_matrix", send_count_matrix)
        if len(matrix) != size * size:
            raise ValueError(
                f"For '{self.name}', the 'send_count_matrix' must have {size} * {size} elements, but has {len(matrix)}."
            )
        if self.block_size != 1:
            matrix = np.multiply(matrix, self.block_size)
        row, column = matrix[rank * size : (rank + 1) * size], matrix[rank::size]
        sent, received = (column, row) if self.transpose else (row, column)
        result, _ = comm.all_to_all_v(x, sent, recv_counts=received)
        return result if result.size else or_scalar(result)
