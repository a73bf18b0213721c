"""`mindspore.common.tensor`: for scripts that run where MindSpore is not installed, a numpy array that acts like it."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from shmcoll.mindspore import cuts, promotion
from shmcoll.mindspore.common import dtype as dtypes
from shmcoll.mindspore.initializers import fill
from shmcoll.mindspore.text import describe

_ACCEPTED = (np.ndarray, np.generic, list, tuple, float, int, bool, complex)


class Tensor(np.ndarray):
    """A tensor: `Tensor(input_data, dtype=None)` or `Tensor(shape=..., dtype=..., init=...)`.

    It is a numpy array: everything that numpy does with arrays works. It prints as MindSpore's tensors do, an operation
    has the element type that it has in MindSpore, an element is a tensor of shape (), and `+=` makes a new tensor.

    Args:
        input_data: an array, a number or nested lists of numbers, which are copied.
        dtype: the element type. By default an array keeps its own; Python's floats become float32 and integers int64.
        shape: the shape, if there are no data.
        init: fills a tensor of `shape` and `dtype` at once (MindSpore waits for `init_data`). The name of an
            initializer, such as "ones", an initializer of `common.initializer`, or a number. By default zeros.
        const_arg: has no effect.
        device: has no effect.

    Raises:
        TypeError: the data or their element type are of another kind.
        ValueError: both data and a shape are given, or `init` without shape and type.
    """

    def __new__(
        cls,
        input_data: Any = None,
        dtype: Any = None,
        shape: Any = None,
        init: Any = None,
        const_arg: bool = False,
        device: str | None = None,
    ) -> "Tensor":
        if init is not None and (dtype is None or shape is None):
            raise ValueError("init, dtype and shape must have values at the same time.")
        if input_data is not None and shape is not None:
            raise ValueError(
                f"When initializing a tensor with 'input_data', 'shape' should be set to None.But got shape: {shape}."
            )
        if shape is not None:
            array = np.zeros(shape, dtypes.as_numpy_dtype(dtypes.float32 if dtype is None else dtype))
            return _view(fill(array, init) if init is not None else array, cls)
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
        return _view(np.array(array, order="C"), cls)

    # --- element type and memory --------------------------------------------------------------------------------------

    @property
    def dtype(self) -> Any:
        """The element type under MindSpore's name; it equals the numpy dtype and serves as one."""
        own = self.asnumpy().dtype
        return dtypes.BY_NUMPY.get(own, own)

    @property
    def data(self) -> Any:
        """The tensor itself."""
        return self

    def asnumpy(self) -> np.ndarray:
        """Return the same elements as a plain numpy array. Writing to one changes the other."""
        return _view(self, np.ndarray)

    numpy = asnumpy

    @staticmethod
    def from_numpy(array: np.ndarray) -> "Tensor":
        """Return a numpy array as a tensor. Writing to one changes the other."""
        return _view(np.ascontiguousarray(array), Tensor)

    def assign_value(self, value: Any) -> "Tensor":
        """Write the elements of a tensor of the same shape into this one, and return it."""
        if value.shape != self.shape:
            raise ValueError(f"assign_value: a tensor of shape {self.shape} cannot become one of shape {value.shape}")
        self.asnumpy()[...] = value
        return self

    copy_ = assign_value

    def value(self) -> "Tensor":
        """Return the tensor itself."""
        return self

    def init_data(self, *_: Any) -> "Tensor":
        """Return the tensor itself, whose elements are there from the beginning."""
        return self

    def contiguous(self) -> "Tensor":
        """Return the tensor, or a copy of it, with its elements in C order."""
        return self if self.flags.c_contiguous else self.copy()

    def is_contiguous(self) -> bool:
        """Return whether the elements are stored in C order."""
        return self.flags.c_contiguous

    def clone(self) -> "Tensor":
        """Return a copy."""
        return self.copy()

    # --- conversions and shapes ---------------------------------------------------------------------------------------

    def view(self, *shape: Any) -> Any:  # type: ignore[override]
        """Return the same elements in another shape; or, as numpy, as another class or element type."""
        if shape and all(isinstance(one, (int, np.integer, tuple, list)) for one in shape):
            return self.reshape(*shape)
        if len(shape) == 1 and not isinstance(shape[0], type):
            return _tensor(self.asnumpy().view(dtypes.as_numpy_dtype(shape[0])))
        return _view(self, *shape)

    def to(self, dtype: Any) -> "Tensor":
        """Return the elements as another element type."""
        return _as_type(self, dtype)

    def float(self) -> "Tensor":
        """Return the elements as float32."""
        return _as_type(self, dtypes.float32)

    def half(self) -> "Tensor":
        """Return the elements as float16."""
        return _as_type(self, dtypes.float16)

    def int(self) -> "Tensor":
        """Return the elements as int32."""
        return _as_type(self, dtypes.int32)

    def long(self) -> "Tensor":
        """Return the elements as int64."""
        return _as_type(self, dtypes.int64)

    def bool(self) -> "Tensor":
        """Return the elements as bool."""
        return _as_type(self, dtypes.bool_)

    def numel(self) -> Any:
        """Return the number of elements."""
        return self.size

    def dim(self) -> Any:
        """Return the number of dimensions."""
        return self.ndim

    def unsqueeze(self, dim: Any) -> "Tensor":
        """Return the tensor with a dimension of extent 1 before dimension `dim`."""
        return _tensor(np.expand_dims(self.asnumpy(), dim))

    expand_dims = unsqueeze

    def permute(self, *axes: Any) -> "Tensor":
        """Return the tensor with its dimensions in another order."""
        return _tensor(self.asnumpy().transpose(*axes))

    def broadcast_to(self, shape: Any) -> "Tensor":
        """Return the tensor repeated to a shape."""
        return _tensor(np.broadcast_to(self.asnumpy(), shape))

    def split(self, split_size_or_sections: Any, axis: Any = 0) -> Any:
        """Return the parts: of a length, of which the last may be shorter, or of the lengths of a list. They share the
        memory of the tensor."""
        return tuple(map(_tensor, cuts.split(self.asnumpy(), split_size_or_sections, axis)))

    def chunk(self, chunks: Any, axis: Any = 0) -> Any:
        """Return at most `chunks` parts of one length; the last may be shorter. They share the memory of the tensor."""
        return tuple(map(_tensor, cuts.chunk(self.asnumpy(), chunks, axis)))

    def new_zeros(self, size: Any, dtype: Any = None) -> "Tensor":
        """Return a tensor of zeros, of the element type of this one by default."""
        return Tensor(shape=size, dtype=self.dtype if dtype is None else dtype)

    new_empty = new_zeros

    def abs(self) -> "Tensor":
        """Return the absolute values."""
        return _tensor(abs(self.asnumpy()))

    def sqrt(self) -> "Tensor":
        """Return the square roots."""
        return _tensor(np.sqrt(self))

    def sum(self, *arguments: Any, dim: Any = None, keepdim: Any = False, **options: Any) -> Any:
        """Return the sum, as `numpy.ndarray.sum` does. `dim` and `keepdim` are other names of `axis` and `keepdims`."""
        if dim is not None:
            options["axis"] = dim
        if keepdim:
            options["keepdims"] = True
        return _tensor(super().sum(*arguments, **options))

    def argmax(self, *arguments: Any, **options: Any) -> Any:
        """Return the index of the largest element, as `numpy.ndarray.argmax` does."""
        return _tensor(super().argmax(*arguments, **options))

    def argmin(self, *arguments: Any, **options: Any) -> Any:
        """Return the index of the smallest element, as `numpy.ndarray.argmin` does."""
        return _tensor(super().argmin(*arguments, **options))

    def mean(self, *arguments: Any, **options: Any) -> Any:
        """Return the mean, as `numpy.ndarray.mean` does; float32 of integers."""
        return _tensor(promotion.narrow(np.asarray(super().mean(*arguments, **options)), [self.asnumpy()]))

    # --- elements and operators ---------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return found if isinstance(found, np.ndarray) else _tensor(found)

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return (self[i] for i in range(self.shape[0]))

    def __int__(self) -> Any:
        return self.asnumpy().item().__int__()

    def __float__(self) -> Any:
        return self.asnumpy().item().__float__()

    def __hash__(self) -> Any:  # type: ignore[override]
        return id(self)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [_view(one, np.ndarray) if isinstance(one, Tensor) else one for one in inputs]
        out = options.get("out")
        if out is not None:
            options["out"] = tuple(_view(one, np.ndarray) if isinstance(one, Tensor) else one for one in out)
        typed = out is not None or options.get("dtype") is not None
        if method == "__call__" and ufunc.nin == 2 and not typed:
            plain = promotion.convert(ufunc, plain)
        result = getattr(ufunc, method)(*plain, **options)
        if out is not None:
            return out[0] if len(out) == 1 else out
        if isinstance(result, tuple):
            return tuple(map(_tensor, result))
        return None if result is None else _tensor(result if typed else promotion.narrow(np.asarray(result), plain))

    def __str__(self) -> str:
        return str(self.asnumpy())

    def __repr__(self) -> str:
        return describe(self.asnumpy(), self.dtype)


def tensor(
    input_data: Any = None,
    dtype: Any = None,
    shape: Any = None,
    init: Any = None,
    const_arg: bool = False,
    device: str | None = None,
) -> Tensor:
    """Return `Tensor(input_data, dtype, shape, init)`. The other arguments have no effect."""
    return Tensor(input_data, dtype, shape, init)


_view = np.ndarray.view  # `Tensor.view` is MindSpore's
for _operator in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"):
    setattr(Tensor, f"__i{_operator}__", getattr(np.ndarray, f"__{_operator}__"))  # not in place, as in MindSpore


def _tensor(result: Any) -> Tensor:
    return _view(np.asarray(result), Tensor)


def _as_type(x: Tensor, dtype: Any) -> Tensor:
    return _tensor(x.asnumpy().astype(dtypes.as_numpy_dtype(dtype)))


__all__ = ["Tensor", "tensor"]
