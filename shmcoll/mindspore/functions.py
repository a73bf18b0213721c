"""What programs around collectives do with tensors, for `ops` and `mint`: make, join, cut, transpose, multiply.

They have no gradients: a tensor whose gradient MindSpore records is refused. A program that has MindSpore itself takes
these functions from there.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shmcoll.mindspore import arrays, cuts
from shmcoll.mindspore.common import dtype as dtypes
from shmcoll.mindspore.common.tensor import Tensor


def cat(tensors: Sequence[Any], axis: int = 0) -> Any:
    """Return several tensors joined along an axis that they have."""
    plain = [_plain("cat", one) for one in tensors]
    return arrays.like(tensors[0], np.concatenate(plain, axis))


concat = cat


def stack(tensors: Sequence[Any], axis: int = 0) -> Any:
    """Return several tensors of one shape joined along a new axis."""
    plain = [_plain("stack", one) for one in tensors]
    return arrays.like(tensors[0], np.stack(plain, axis))


def split(tensor: Any, split_size_or_sections: Any, axis: int = 0) -> tuple[Any, ...]:
    """Return the parts of a tensor: of a length, of which the last may be shorter, or of the lengths of a list."""
    parts = cuts.split(_plain("split", tensor), split_size_or_sections, axis)
    return tuple(arrays.like(tensor, one) for one in parts)


def chunk(input: Any, chunks: int, axis: int = 0) -> tuple[Any, ...]:
    """Return at most `chunks` parts of a tensor of one length; the last may be shorter."""
    return tuple(arrays.like(input, one) for one in cuts.chunk(_plain("chunk", input), chunks, axis))


def transpose(input: Any, input_perm: Sequence[int]) -> Any:
    """Return a tensor with its dimensions in another order."""
    return arrays.like(input, _plain("transpose", input).transpose(tuple(input_perm)))


def reshape(input: Any, shape: Sequence[int]) -> Any:
    """Return the elements of a tensor in another shape."""
    return arrays.like(input, _plain("reshape", input).reshape(tuple(shape)))


def cast(input: Any, dtype: Any) -> Any:
    """Return the elements of a tensor as another element type."""
    return arrays.like(input, _plain("cast", input).astype(dtypes.as_numpy_dtype(dtype)))


def matmul(input: Any, other: Any) -> Any:
    """Return the product of two matrices, or of stacks of them."""
    return arrays.like(input, np.matmul(_plain("matmul", input), _plain("matmul", other)))


def stop_gradient(value: Any) -> Any:
    """Return the tensor itself: there are no gradients."""
    return value


def zeros(size: Any, dtype: Any = None) -> Tensor:
    """Return a tensor of zeros, float32 by default."""
    return full(size, 0.0, dtype)


def ones(shape: Any, dtype: Any = None) -> Tensor:
    """Return a tensor of ones, float32 by default."""
    return full(shape, 1.0, dtype)


def full(size: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """Return a tensor of one number, by default of the element type of a tensor that is made of the number."""
    return Tensor(shape=size, dtype=Tensor(fill_value).dtype if dtype is None else dtype, init=fill_value)


def zeros_like(input: Any, dtype: Any = None) -> Any:
    """Return a tensor of zeros of the shape of another one, and of its element type by default."""
    return _like(input, 0, dtype)


def ones_like(input: Any, dtype: Any = None) -> Any:
    """Return a tensor of ones of the shape of another one, and of its element type by default."""
    return _like(input, 1, dtype)


class Concat:
    """`cat` as an operator: `Concat(axis)(tensors)`."""

    def __init__(self, axis: int = 0):
        self.axis = axis

    def __call__(self, tensors: Sequence[Any]) -> Any:
        return cat(tensors, self.axis)


class Split:
    """The parts of a tensor, all of one length: `Split(axis, output_num)(tensor)`.

    Raises:
        ValueError: by the call, the extent of the axis is not divisible by the number of parts.
    """

    def __init__(self, axis: int = 0, output_num: int = 1):
        self.axis, self.output_num = axis, output_num

    def __call__(self, tensor: Any) -> tuple[Any, ...]:
        extent = tensor.shape[self.axis]
        if extent % self.output_num:
            raise ValueError(
                f"For 'Split', x_shape[{self.axis}] must be divisible by output_num = {self.output_num}, "
                f"but got {extent}"
            )
        return split(tensor, extent // self.output_num, self.axis) if extent else (tensor,) * self.output_num


class MatMul:
    """`matmul` as an operator: `MatMul(transpose_a, transpose_b)(x, y)`. Each may be transposed before."""

    def __init__(self, transpose_a: bool = False, transpose_b: bool = False):
        self.transpose_a, self.transpose_b = transpose_a, transpose_b

    def __call__(self, x: Any, y: Any) -> Any:
        return matmul(x.T if self.transpose_a else x, y.T if self.transpose_b else y)


class Depend:
    """The first of two values: `Depend()(value, expr)`. In MindSpore's graphs `expr` is computed before."""

    def __call__(self, value: Any, expr: Any) -> Any:
        return value


def _plain(operation: str, x: Any) -> np.ndarray:
    if not arrays.is_tensor(x):
        raise TypeError(f"For '{operation}', the input must be a Tensor, but got {type(x).__name__}.")
    arrays.check_unrecorded(operation, x)
    return arrays.to_numpy(x)


def _like(x: Any, value: Any, dtype: Any) -> Any:
    plain = _plain("zeros_like" if value == 0 else "ones_like", x)
    wanted = plain.dtype if dtype is None else dtypes.as_numpy_dtype(dtype)
    return arrays.like(x, np.full(plain.shape, value, wanted))


__all__ = [
    "Concat",
    "Depend",
    "MatMul",
    "Split",
    "cast",
    "cat",
    "chunk",
    "concat",
    "full",
    "matmul",
    "ones",
    "ones_like",
    "reshape",
    "split",
    "stack",
    "stop_gradient",
    "transpose",
    "zeros",
    "zeros_like",
]
