"""Tensors of any kind, and the plain numpy arrays that the communicator works on: in and out again.

Three kinds: numpy arrays, the `Tensor` of this package, and MindSpore's own. The last can only be there when the script
has imported MindSpore, so it is looked for among the loaded modules and never imported from here. A program may also
have put this package where it imports `mindspore` from; then the two are one.
"""

import sys
from typing import Any

import ml_dtypes
import numpy as np

from shmcoll.mindspore import dtypes
from shmcoll.mindspore.tensor import Tensor

_view = np.ndarray.view  # `Tensor.view` is MindSpore's


def is_tensor(x: Any) -> bool:
    """Whether collectives take `x`."""
    return isinstance(x, np.ndarray) or is_foreign(x)


def is_foreign(x: Any) -> bool:
    """Whether `x` is one of MindSpore's own tensors."""
    return not isinstance(x, np.ndarray) and (theirs := _foreign_class()) is not None and isinstance(x, theirs)


def to_numpy(x: Any) -> np.ndarray:
    """`x` as a plain array: the same memory, or a copy of the elements of one of MindSpore's own tensors."""
    if isinstance(x, np.ndarray):
        return _view(x, np.ndarray)
    array: np.ndarray
    if dtype_of(x) == dtypes.bfloat16:  # MindSpore's bfloat16 in numpy is a type of its own, where it has one
        array = x.astype(sys.modules["mindspore"].float32).asnumpy().astype(ml_dtypes.bfloat16)
    else:
        array = x.asnumpy()
    return array


def like(x: Any, result: Any) -> Any:
    """Return the result of a collective, an array or a scalar, as what `x` is."""
    array = result if type(result) is np.ndarray else np.asarray(result)
    if isinstance(x, Tensor):
        return _view(array, Tensor)
    return array if isinstance(x, np.ndarray) else _foreign(array)


def new(array: np.ndarray) -> Any:
    """Return the result of a collective that is given no tensor: one of MindSpore's own if that is imported."""
    return _view(array, Tensor) if _foreign_class() is None else _foreign(array)


def assign(tensor: Any, array: np.ndarray) -> None:
    """Write `array` into one of MindSpore's own tensors."""
    tensor.assign_value(_foreign(array))


def dtype_of(x: Any) -> Any:
    """The element type of a tensor of any kind under MindSpore's name, comparable with that of any other."""
    return dtypes.BY_PRINTED.get(str(x.dtype), x.dtype) if is_foreign(x) else dtypes.BY_NUMPY.get(x.dtype, x.dtype)


def _foreign_class() -> Any:
    theirs = getattr(sys.modules.get("mindspore"), "Tensor", None)
    return None if theirs is Tensor else theirs


def _foreign(array: np.ndarray) -> Any:
    mindspore = sys.modules["mindspore"]
    if array.dtype == ml_dtypes.bfloat16:
        return mindspore.Tensor(array.astype(np.float32), dtype=mindspore.bfloat16)
    return mindspore.Tensor(array)
