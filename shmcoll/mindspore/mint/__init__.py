"""`mindspore.mint`: its `distributed`, and what programs around collectives do with tensors."""

from collections.abc import Sequence
from typing import Any

from shmcoll.mindspore import functions
from shmcoll.mindspore.functions import full, matmul, ones_like, reshape, zeros, zeros_like
from shmcoll.mindspore.mint import distributed


def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Return several tensors joined along a dimension that they have."""
    return functions.cat(tensors, dim)


concat = cat


def ones(size: Any, dtype: Any = None) -> Any:
    """Return a tensor of ones, float32 by default."""
    return functions.ones(size, dtype)


def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Return several tensors of one shape joined along a new dimension."""
    return functions.stack(tensors, dim)


def split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Return the parts of a tensor: of a length, of which the last may be shorter, or of the lengths of a list."""
    return functions.split(tensor, split_size_or_sections, dim)


def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """Return at most `chunks` parts of a tensor of one length; the last may be shorter."""
    return functions.chunk(input, chunks, dim)


__all__ = [
    "cat",
    "chunk",
    "concat",
    "distributed",
    "full",
    "matmul",
    "ones",
    "ones_like",
    "reshape",
    "split",
    "stack",
    "zeros",
    "zeros_like",
]
