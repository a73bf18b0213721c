"""`Tensor` for scripts that run where MindSpore is not installed: a numpy array that prints as MindSpore's do."""

from typing import Any

import numpy as np

from shmcoll.mindspore import dtypes
from shmcoll.mindspore.text import describe

_ACCEPTED = (np.ndarray, np.generic, list, tuple, float, int, bool, complex)


class Tensor(np.ndarray):
    """A tensor, as a numpy array that prints as MindSpore's tensors do: `Tensor(input_data, dtype=None)`.

    Everything that numpy does with arrays works; operators and slices return a `Tensor` again.

    Args:
        input_data: an array, a number or nested lists of numbers, which are copied.
        dtype: the element type. By default an array keeps its own; Python's floats become float32 and integers int64.

    Raises:
        TypeError: the data or their element type is of another kind.
    """

    def __new__(cls, input_data: Any, dtype: Any = None) -> "Tensor":
        if not isinstance(input_data, _ACCEPTED):
            raise TypeError(
                "For 'Tensor', the type of 'input_data' should be one of '['Tensor', 'ndarray', 'list', 'tuple', "
                f"'float', 'int', 'bool', 'complex']', but got type '{type(input_data).__name__}'."
            )
        array = np.asarray(input_data)
        if dtype is not None:
            array = array.astype(dtypes.as_numpy_dtype(dtype))
        elif array.dtype == np.float64 and not isinstance(input_data, (np.ndarray, np.generic)):
            array = array.astype(np.float32)
        if array.dtype not in dtypes.BY_NUMPY:
            raise TypeError(f"For 'Tensor', the element type {array.dtype} of 'input_data' is not supported.")
        return np.array(array, order="C").view(cls)

    @property
    def dtype(self) -> Any:
        """The element type under MindSpore's name; it equals the numpy dtype and serves as one."""
        own = self.asnumpy().dtype
        return dtypes.BY_NUMPY.get(own, own)

    def asnumpy(self) -> np.ndarray:
        """Return the same elements as a plain numpy array. Writing to one changes the other."""
        return self.view(np.ndarray)

    def __str__(self) -> str:
        return str(self.asnumpy())

    def __repr__(self) -> str:
        return describe(self.asnumpy(), self.dtype)
