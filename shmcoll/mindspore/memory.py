"""The memory of a tensor of any kind, as a numpy array: what the communicator reads and writes.

MindSpore's own tensors have memory of this process, too, on its CPU target. So the communicator writes into them
directly, also if they are views of others, and an asynchronous result arrives without help of the program.
"""

from typing import Any

import numpy as np

from shmcoll.mindspore import arrays
from shmcoll.mindspore.common import dtype as dtypes
from shmcoll.mindspore.common.tensor import Tensor

_view = np.ndarray.view  # `Tensor.view` is MindSpore's


class _Elements:
    """The memory of one of MindSpore's own tensors in numpy's terms. It keeps the tensor alive."""

    def __init__(self, tensor: Any, dtype: np.dtype):
        self._tensor = tensor
        self.__array_interface__ = {
            "version": 3,
            "data": (tensor.data_ptr(), False),  # `data_ptr` waits for what MindSpore still computes
            "shape": tuple(tensor.shape),
            "strides": tuple(step * dtype.itemsize for step in tensor.stride()),
            "typestr": f"|V{dtype.itemsize}",
        }


def memory_of(x: Any) -> np.ndarray:
    """Return an array that shares its memory with the tensor. Raise `TypeError` if that is on a device."""
    if type(x) is np.ndarray:
        return x
    if isinstance(x, np.ndarray):
        return _view(x, np.ndarray)
    device = getattr(x, "device", "CPU")
    if not device.startswith("CPU"):
        raise TypeError(f"shmcoll works on tensors in the CPU's memory, but this one is on {device}: pass x.to('CPU')")
    dtype = dtypes.as_numpy_dtype(x.dtype)
    if not all(x.shape):
        return np.empty(tuple(x.shape), dtype)
    return np.asarray(_Elements(x, dtype)).view(dtype)


def new_like(x: Any, shape: tuple[int, ...]) -> tuple[Any, np.ndarray]:
    """Return a new tensor of the kind and element type of `x`, and its memory."""
    if type(x) is Tensor:  # the common call
        place = np.empty(shape, _view(x, np.ndarray).dtype)
        return _view(place, Tensor), place
    tensor = arrays.like(x, np.empty(shape, memory_of(x).dtype))
    return tensor, memory_of(tensor)


def nothing_like(tensor: Any) -> Any:
    """Return the tensor in place of a missing result: zero, of shape (1,), of the element type of another tensor."""
    out, place = new_like(tensor, (1,))
    place[...] = 0
    return out
