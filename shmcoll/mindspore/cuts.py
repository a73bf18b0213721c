"""Where a tensor is cut: the parts of an array along an axis, as MindSpore's `split` and `chunk` count them."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def split(operation: str, x: np.ndarray, size_or_sections: Any, axis: int) -> list[np.ndarray]:
    """Return views of the parts of an array.

    Args:
        operation: its name, for errors.
        x: the array.
        size_or_sections: the length of every part, of which the last may be shorter; or a list of the lengths.
        axis: the axis that is cut.

    Raises:
        TypeError: the lengths are not integers.
        ValueError: a length is not positive, or the lengths do not add up to the extent of the axis.
    """
    extent = x.shape[axis]
    if isinstance(size_or_sections, int) and not isinstance(size_or_sections, bool):
        if size_or_sections < 1:
            raise ValueError(
                f"For '{operation}', the value of 'split_size_or_sections' must be more than zero, "
                f"but got {size_or_sections}."
            )
        return _cut(x, range(size_or_sections, extent, size_or_sections), axis)
    if not isinstance(size_or_sections, (list, tuple)) or not all(isinstance(one, int) for one in size_or_sections):
        raise TypeError(
            f"For '{operation}', the type of 'split_size_or_sections' must be int, tuple(int) or list(int), "
            f"but got {type(size_or_sections).__name__}."
        )
    if sum(size_or_sections) != extent or min(size_or_sections, default=0) < 0:
        raise ValueError(
            f"For '{operation}', the sum of 'split_size_or_sections' must be {extent}, the extent of axis {axis}, "
            f"but got {size_or_sections}."
        )
    return _cut(x, np.cumsum(size_or_sections)[:-1], axis)


def chunk(operation: str, x: np.ndarray, chunks: int, axis: int) -> list[np.ndarray]:
    """Return views of at most `chunks` parts of an array, all of one length; the last may be shorter.

    Args:
        operation: its name, for errors.
        x: the array.
        chunks: the number of parts.
        axis: the axis that is cut.

    Raises:
        ValueError: the number is not positive.
    """
    if chunks < 1:
        raise ValueError(f"For '{operation}', the value of 'chunks' must be more than zero, but got {chunks}.")
    return split(operation, x, max(1, -(-x.shape[axis] // chunks)), axis)


def _cut(x: np.ndarray, ends: Sequence[int] | np.ndarray, axis: int) -> list[np.ndarray]:
    return np.split(x, list(ends), axis)
