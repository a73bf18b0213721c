"""`mindspore.common`: tensors, parameters and element types under the paths that MindSpore has."""

from typing import Any

import numpy as np

from shmcoll.mindspore.common import api, dtype, initializer, parameter
from shmcoll.mindspore.common.parameter import Parameter, ParameterTuple
from shmcoll.mindspore.common.tensor import Tensor, tensor

_seed: int | None = None


def set_seed(seed: int) -> None:
    """Set the seed of numpy's random numbers, and so that of initializers.

    Args:
        seed: an integer from 0 to 2**32 - 1.

    Raises:
        TypeError: it is not an integer.
        ValueError: it is negative or too large.
    """
    global _seed
    np.random.seed(seed)
    _seed = seed


def get_seed() -> Any:
    """Return the seed of the last `set_seed`, or None."""
    return _seed


__all__ = [
    "Parameter",
    "ParameterTuple",
    "Tensor",
    "api",
    "dtype",
    "get_seed",
    "initializer",
    "parameter",
    "set_seed",
    "tensor",
]
