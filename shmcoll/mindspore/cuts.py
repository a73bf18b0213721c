"""Where a tensor is cut: the parts of an array along an axis, as MindSpore's `split` and `chunk` count them.

Errors have MindSpore's words; it checks the types in C++, and has a longer text for them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np


def split(x: np.ndarray, size_or_sections: Any, axis: int) -> list[np.ndarray]:
    """Return views of the parts of an array.

    Args:
        x: the array.
        size_or_sections: the length of every part, of which the last may be shorter; or a list of the lengths.
        axis: the axis that is cut.

    Raises:
        TypeError: the lengths are not integers, or one of a list is negative.
        ValueError: the length of every part is not positive, or the lengths do not add up to the extent of the axis.
    """
    extent = x.shape[axis]
    if isinstance(size_or_sections, int) and not isinstance(size_or_sections, bool):
        if size_or_sections < 1:
            raise ValueError(
                f"For split, the value of 'split_size_or_sections' must be more than zero, but got {size_or_sections}."
            )
        return _cut(x, range(size_or_sections, extent, size_or_sections), axis)
    if not isinstance(size_or_sections, (list, tuple)) or not all(isinstance(one, int) for one in size_or_sections):
        raise TypeError(
            f"For split, the type of 'split_size_or_sections' must be int, tuple(int) or list(int), "
            f"but got {type(size_or_sections).__name__}."
        )
    if min(size_or_sections, default=0) < 0:
        raise TypeError(f"Each element in 'split_size_or_sections' should be non-negative, but got {size_or_sections}.")
    if sum(size_or_sections) != extent:
        raise ValueError(
            f"The sum of 'split_size_or_sections' should be equal to {extent}, but got {sum(size_or_sections)}."
        )
    return _cut(x, np.cumsum(size_or_sections)[:-1], axis)


def chunk(x: np.ndarray, chunks: int, axis: int) -> list[np.ndarray]:
    """Return views of at most `chunks` parts of an array, all of one length; the last may be shorter.

    Args:
        x: the array.
        chunks: the number of parts.
        axis: the axis that is cut.

    Raises:
        ValueError: the number is not positive.
    """
    if chunks < 1:
        raise ValueError(f"For ops.chunk parameter 'chunks' must be greater than 0, but got {chunks}")
    return split(x, max(1, -(-x.shape[axis] // chunks)), axis)


def _cut(x: np.ndarray, ends: Sequence[int] | np.ndarray, axis: int) -> list[np.ndarray]:
    return np.split(x, list(ends), axis)
