"""`mindspore.common.tensor`: `Tensor` under the path that MindSpore has."""

from typing import Any

from shmcoll.mindspore.tensor import Tensor


def tensor(input_data: Any = None, dtype: Any = None, shape: Any = None, init: Any = None) -> Tensor:
    """Return `Tensor(input_data, dtype, shape, init)`."""
    return Tensor(input_data, dtype, shape, init)


__all__ = ["Tensor", "tensor"]
