"""`mindspore.common.parameter`: tensors with names, which a `Cell` knows.

There are no gradients without MindSpore itself.
"""

from collections.abc import Iterable
from itertools import count
from typing import Any

import numpy as np

from shmcoll.mindspore.common.tensor import Tensor

_unnamed = count()


class Parameter(Tensor):
    """A tensor that belongs to a cell: `Parameter(default_input, name=None, requires_grad=True)`.

    Args:
        default_input: data as for `Tensor`.
        name: its name; by default the name of the attribute of the cell that it becomes.
        requires_grad: whether `Cell.trainable_params` has it.

    Raises:
        TypeError: as for `Tensor`.
    """

    name: Any
    requires_grad: Any

    def __new__(cls, default_input: Any, name: str | None = None, requires_grad: bool = True, **_: Any) -> "Parameter":
        made = np.ndarray.view(Tensor(default_input), cls)
        made.name = f"Parameter#{next(_unnamed)}" if name is None else name
        made.is_unnamed = name is None
        made.requires_grad = requires_grad
        return made

    def __array_finalize__(self, parent: Any) -> None:
        """Take the name from a part or a copy of a parameter: it is a tensor, and tensors have no names."""
        self.name, self.requires_grad, self.is_unnamed = None, False, False

    def set_data(self, data: Any, slice_shape: bool = False) -> "Parameter":
        """Write the elements of a tensor of the same shape into this one, and return it."""
        self.assign_value(data)
        return self

    def value(self) -> Tensor:
        """Return a tensor with the same memory."""
        return np.ndarray.view(self, Tensor)

    @property
    def data(self) -> Any:
        """A tensor with the same memory."""
        return self.value()

    def clone(self, init: Any = "same") -> "Parameter":
        """Return a copy with the same name."""
        return Parameter(self.asnumpy(), self.name, self.requires_grad)

    def __getitem__(self, index: Any) -> Any:
        return self.value()[index]

    def __repr__(self) -> str:
        if self.name is None:
            return super().__repr__()
        return (
            f"Parameter (name={self.name}, shape={self.shape}, dtype={self.dtype}, requires_grad={self.requires_grad})"
        )

    __str__ = __repr__


class ParameterTuple(tuple[Parameter, ...]):
    """A tuple of parameters."""

    def __new__(cls, iterable: Iterable[Parameter]) -> "ParameterTuple":
        return super().__new__(cls, tuple(iterable))


__all__ = ["Parameter", "ParameterTuple"]
