"""Tensors of any kind, and the plain numpy arrays that the communicator works on: in and out again.

There are three kinds: numpy arrays, the `Tensor` of this package, and MindSpore's own. A program that has MindSpore's
own tensors has imported MindSpore. So this package looks for MindSpore among the loaded modules, and never imports it.
A program may also have put this package into `sys.modules["mindspore"]`; then there is no third kind.
"""

import sys
from typing import Any

import ml_dtypes
import numpy as np

from shmcoll.mindspore.common import dtype as dtypes
from shmcoll.mindspore.common.tensor import Tensor

_view = np.ndarray.view  # `Tensor.view` is MindSpore's


def is_tensor(x: Any) -> bool:
    """Return whether collectives take `x`."""
    return isinstance(x, np.ndarray) or is_foreign(x)


def is_foreign(x: Any) -> bool:
    """Return whether `x` is one of MindSpore's own tensors."""
    return not isinstance(x, np.ndarray) and (theirs := _foreign_class()) is not None and isinstance(x, theirs)


def advice(x: Any) -> str:
    """Return what to do about an argument that is not a tensor, after its type; empty if nothing is known."""
    is_sparse = type(x).__name__ in ("COOTensor", "CSRTensor", "RowTensor", "RowTensorInner")
    return " (sparse: gather its indices and its values, which are tensors, or make it dense)" if is_sparse else ""


def records_gradients() -> bool:
    """Return whether MindSpore records what becomes of its own tensors, to find a gradient."""
    theirs = sys.modules.get("mindspore._c_expression")
    return theirs is not None and bool(theirs.PyNativeExecutor_.get_instance().requires_grad())


def check_unrecorded(operation: str, x: Any) -> None:
    """Raise `RuntimeError` if MindSpore records what becomes of one of its own tensors, to find a gradient."""
    if not isinstance(x, np.ndarray) and getattr(x, "_requires_grad", False) and records_gradients():
        raise RuntimeError(
            f"For '{operation}', there is no gradient, but MindSpore records one of its tensor. Use an operator of "
            "mindspore.ops that has a gradient, such as AllReduce or AlltoAllV, or pass ops.stop_gradient(tensor)."
        )


def to_numpy(x: Any) -> np.ndarray:
    """Return `x` as a plain array: the same memory, or a copy of the elements of one of MindSpore's own tensors."""
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
    """Return the element type of a tensor of any kind under MindSpore's name, comparable with that of any other."""
    return dtypes.BY_PRINTED.get(str(x.dtype), x.dtype) if is_foreign(x) else dtypes.BY_NUMPY.get(x.dtype, x.dtype)


def _foreign_class() -> Any:
    theirs = getattr(sys.modules.get("mindspore"), "Tensor", None)
    return None if theirs is Tensor else theirs


def _foreign(array: np.ndarray) -> Any:
    mindspore = sys.modules["mindspore"]
    if array.dtype == ml_dtypes.bfloat16:
        return mindspore.Tensor(array.astype(np.float32), dtype=mindspore.bfloat16)
    return mindspore.Tensor(array)
