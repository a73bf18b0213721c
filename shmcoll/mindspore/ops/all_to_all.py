"""AlltoAll."""

from typing import Any

from shmcoll.mindspore import arrays, dtypes
from shmcoll.mindspore.communication import GlobalComm, communicator, get_group_size
from shmcoll.mindspore.ops.primitive import Primitive, is_int


class AlltoAll(Primitive):
    """Send block i of a tensor to rank i: `AlltoAll(split_count, split_dim, concat_dim, group)(input_x)`.

    The call splits the input into blocks and returns a new tensor of the blocks received, concatenated in rank order:
    `split_dim` of the shape is divided and `concat_dim` multiplied by `split_count`. The input may be of any type
    except complex; shape and type are equal on all ranks.

    Args:
        split_count: the number of blocks, which is the number of ranks.
        split_dim: the dimension along which the input is split. May be negative.
        concat_dim: the dimension along which the blocks received are concatenated. May be negative.
        group: the name of the group.

    Raises:
        TypeError: the group is not a string, or a number is not an integer. The call raises it for an input that is not
            a tensor of a possible type.
        ValueError: the call raises it if `split_count` is not the number of ranks, or does
            not divide the dimension.
        IndexError: by the call, a dimension does not exist.
        RuntimeError: the call was made before `communication.init`.
    """

    def __init__(self, split_count: int, split_dim: int, concat_dim: int, group: str = GlobalComm.WORLD_COMM_GROUP):
        super().__init__(split_count=split_count, split_dim=split_dim, concat_dim=concat_dim, group=group)
        if not isinstance(group, str):
            raise TypeError(
                f"For '{self.name}', the type of 'group' should be 'str', but got type '{type(group).__name__}'."
            )
        for value in (split_count, split_dim, concat_dim):
            if not is_int(value):  # MindSpore passes the type where the argument's name belongs; so its text has it
                raise TypeError(f"The type of '<class 'int'>' must be 'int', but got '{type(value).__name__}'.")
        self.group = group
        self.split_count = split_count
        self.split_dim = split_dim
        self.concat_dim = concat_dim
        self.rank_size = get_group_size(group)
        self.attrs.update(no_eliminate=True, rank_size=self.rank_size)

    def __call__(self, input_x: Any) -> Any:
        array = self._as_array(input_x)
        self._check(array, arrays.dtype_of(input_x))
        return arrays.like(input_x, communicator(self.group).all_to_all(array, self.split_dim, self.concat_dim))

    def _check(self, array: Any, dtype: Any) -> None:
        if array.dtype not in dtypes.BY_NUMPY or array.dtype.kind == "c":
            accepted = ", ".join(str(one) for one in dtypes.ALL if one.kind != "c")
            raise TypeError(f"For '{self.name}', the dtype of the input must be one of {accepted}, but got {dtype}.")
        if self.split_count != self.rank_size:
            raise ValueError(  # the quote that is missing is missing in MindSpore
                f"For '{self.name}, the 'split_count' must be equal to 'rank_size', "
                f"but got 'split_count': {self.split_count}, 'rank_size': {self.rank_size}"
            )
        for which, dim in (("concat", self.concat_dim), ("split", self.split_dim)):
            if not -array.ndim <= dim < array.ndim:
                raise IndexError(f"Invalid {which} dim {dim} is greater than shape size {array.ndim}")
        extent = array.shape[self.split_dim]
        if extent % self.split_count:
            raise ValueError(
                f"For '{self.name}', the 'x_shape[split_dim]' must be divisible by 'split_count', "
                f"but got 'x_shape[split_dim]' {extent}, 'split_count' {self.split_count}."
            )
