"""`mindspore.common.initializer`: how new tensors are filled. `initializer("ones", [2, 3], mindspore.float32)`."""

from typing import Any

from shmcoll.mindspore.common import dtype as dtypes
from shmcoll.mindspore.common.tensor import Tensor
from shmcoll.mindspore.initializers import Constant, Initializer, Normal, One, Uniform, Zero


def initializer(init: Any, shape: Any = None, dtype: Any = dtypes.float32) -> Tensor:
    """Return a new tensor that is filled.

    Args:
        init: an initializer, its name ("zeros", "ones", "normal", "uniform"), a number, or a tensor that is copied.
        shape: the shape; not needed for a tensor.
        dtype: the element type.

    Raises:
        ValueError: there is no initializer of this name.
    """
    if isinstance(init, Tensor):
        return Tensor(init, dtype)
    return Tensor(shape=shape, dtype=dtype, init=init)


__all__ = ["Constant", "Initializer", "Normal", "One", "Uniform", "Zero", "initializer"]
