"""The memory of tensors, as arrays.

A collective reads and writes the memory of the tensor itself. A tensor whose memory numpy cannot show in the order of
its elements is copied: `read` makes a copy, and `Written` copies back when the call has ended.

The memory goes to numpy by DLPack. `Tensor.numpy` would mark the storage as one that cannot be resized, and programs
resize it after the collective: FSDP1 frees its flat parameters that way.
"""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch._C import _to_dlpack_versioned
from torch.distributed._functional_collectives import AsyncCollectiveTensor

from shmcoll.communicator import Communicator

#: dtypes that numpy does not have: how their bytes are viewed in torch, and then in numpy. Reductions know bfloat16
_VIEWS = {
    torch.bfloat16: (torch.int16, np.dtype(ml_dtypes.bfloat16)),
    torch.float8_e4m3fn: (torch.uint8, np.dtype(ml_dtypes.float8_e4m3fn)),
    torch.float8_e4m3fnuz: (torch.uint8, np.dtype(ml_dtypes.float8_e4m3fnuz)),
    torch.float8_e5m2: (torch.uint8, np.dtype(ml_dtypes.float8_e5m2)),
    torch.float8_e5m2fnuz: (torch.uint8, np.dtype(ml_dtypes.float8_e5m2fnuz)),
}

#: classes of tensors that are their memory. Others may stand for tensors elsewhere, or have no memory
_PLAIN = (torch.Tensor, torch.nn.Parameter)


class _Exported:
    """A tensor of the CPU, as numpy takes it by DLPack. The array keeps the tensor's memory alive."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: torch.Tensor):
        self._tensor = tensor

    def __dlpack__(self, **_: Any) -> Any:
        return _to_dlpack_versioned(self._tensor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # numpy compares it with the device of the tensor


def read(tensor: torch.Tensor) -> np.ndarray:
    """Return an array of the elements of a tensor, of its shape: its memory, or a copy.

    Raises:
        TypeError: the tensor is not a dense tensor in the memory of the CPU, or of a dtype without a numpy dtype.
    """
    array = _memory(tensor)
    return array if array is not None else read(tensor.resolve_conj().resolve_neg())


def read_flat(tensor: torch.Tensor) -> np.ndarray:
    """Return the same in one dimension."""
    return read(tensor).reshape(-1)


class Written:
    """The tensors that one call writes. Use it once: `array` or `flat` for each, the call, then `finish`."""

    def __init__(self) -> None:
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []

    def array(self, tensor: torch.Tensor) -> np.ndarray:
        """Return the array that a call writes in place of the tensor; it has the values of the tensor."""
        array = _memory(tensor)
        if array is not None and array.flags.c_contiguous:
            return array
        made = tensor.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
        self._copies.append((tensor.detach(), made))
        return read(made)

    def flat(self, tensor: torch.Tensor) -> np.ndarray:
        """Return the same in one dimension."""
        return self.array(tensor).reshape(-1)

    def finish(self) -> None:
        """Copy back what the call has written into copies."""
        for tensor, made in self._copies:
            strides = tensor.stride()
            _once(tensor, strides).copy_(_once(made, strides))


def _once(tensor: torch.Tensor, strides: Sequence[int]) -> torch.Tensor:
    """Return the part of a tensor that has each element of an expanded one, with these strides, once."""
    return tensor[tuple(slice(None if stride else 1) for stride in strides)]


def _memory(tensor: torch.Tensor) -> np.ndarray | None:
    """Return the memory of a tensor; None if its elements are conjugates or negatives of what is there."""
    try:
        if tensor.is_conj() or tensor.is_neg():
            return None
        if type(tensor) in _PLAIN:
            return np.from_dlpack(_Exported(tensor))
    except (AttributeError, BufferError, RuntimeError):
        pass
    return _unusual(tensor)


def _unusual(tensor: torch.Tensor) -> np.ndarray:
    """Return the memory of a tensor that DLPack or numpy refuses, or whose class is a user's."""
    if isinstance(tensor, AsyncCollectiveTensor):  # the result of a functional collective
        return _unusual(tensor.trigger_wait())
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"expected a tensor, got {type(tensor).__name__}")
    if tensor.device.type != "cpu":
        raise TypeError(
            f"the backend shmcoll moves tensors of the CPU, got one on {tensor.device}; up to torch 2.13 a group has "
            f'one backend, so make another group for the CPU: dist.new_group(backend="shmcoll")'
        )
    if tensor.is_nested:
        raise TypeError(
            "the backend shmcoll moves dense tensors, got a nested one; pass its parts one by one: tensor.unbind()"
        )
    if tensor.is_quantized:
        raise TypeError(
            f"the backend shmcoll moves no quantised tensors, got one of {tensor.dtype}; pass tensor.int_repr(), or "
            f"tensor.dequantize()"
        )
    if tensor.layout is not torch.strided:
        raise TypeError(f"the backend shmcoll moves dense tensors, got one of layout {tensor.layout}; use to_dense()")
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise TypeError(
            f"the backend shmcoll moves tensors with memory of their own, got a {type(tensor).__name__}; pass the "
            f"tensor that it stands for, such as to_local() of a DTensor"
        )
    bits, dtype = _VIEWS.get(tensor.dtype, (None, None))
    try:
        array = np.from_dlpack(_Exported(tensor if bits is None else tensor.detach().view(bits)))
    except (BufferError, RuntimeError) as error:
        raise TypeError(f"the backend shmcoll has no dtype for a tensor of {tensor.dtype}: {error}") from None
    return array if dtype is None else array.view(dtype)


def empty(comm: Communicator, shape: int | Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor of zeros whose memory is that of `comm.empty`.

    Raises:
        TypeError: the dtype has no numpy dtype of as many bytes, or `shape` is not a shape.
        ArenaError: the heap is full.
    """
    bits = _VIEWS.get(dtype, (dtype,))[0]
    made: torch.Tensor = torch.from_numpy(comm.empty(shape, read(torch.empty(0, dtype=bits)).dtype))
    return made.view(dtype)


def seconds(timeout: Any) -> float | None:
    """Return a timeout of torch in seconds; None if it is not set, which torch writes as a negative number or 0."""
    given = timeout.total_seconds() if hasattr(timeout, "total_seconds") else timeout
    return given if given and given > 0 else None


__all__ = ["Written", "empty", "read", "read_flat", "seconds"]
