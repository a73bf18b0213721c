"""The memory of tensors, as arrays.

A collective reads and writes the memory of the tensor itself. A tensor whose memory numpy cannot show in the order of
its elements is copied: `read` makes a copy, and `Written` copies back when the call has ended.
"""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import torch

from shmcoll.communicator import Communicator

#: dtypes that numpy does not have: how their bytes are viewed in torch, and then in numpy. Reductions know bfloat16
_VIEWS = {
    torch.bfloat16: (torch.int16, np.dtype(ml_dtypes.bfloat16)),
    torch.float8_e4m3fn: (torch.uint8, np.dtype(ml_dtypes.float8_e4m3fn)),
    torch.float8_e4m3fnuz: (torch.uint8, np.dtype(ml_dtypes.float8_e4m3fnuz)),
    torch.float8_e5m2: (torch.uint8, np.dtype(ml_dtypes.float8_e5m2)),
    torch.float8_e5m2fnuz: (torch.uint8, np.dtype(ml_dtypes.float8_e5m2fnuz)),
}


def read(tensor: torch.Tensor) -> np.ndarray:
    """Return an array of the elements of a tensor, of its shape: its memory, or a copy.

    Raises:
        TypeError: the tensor is not a dense tensor in the memory of the CPU, or of a dtype without a numpy dtype.
    """
    try:
        array: np.ndarray = (tensor.detach() if tensor.requires_grad else tensor).numpy()
        return array
    except (AttributeError, TypeError, RuntimeError):
        return _unusual(tensor)


def read_flat(tensor: torch.Tensor) -> np.ndarray:
    """Return the same in one dimension."""
    return read(tensor).reshape(-1)


class Written:
    """The tensors that one call writes. Use it once: `array` or `flat` for each, the call, then `finish`."""

    def __init__(self) -> None:
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []

    def array(self, tensor: torch.Tensor) -> np.ndarray:
        """Return the array that a call writes in place of the tensor; it has the values of the tensor."""
        try:
            array: np.ndarray = (tensor.detach() if tensor.requires_grad else tensor).numpy()
            shows = True
        except (AttributeError, TypeError, RuntimeError):
            array = _unusual(tensor)
            shows = not (tensor.is_conj() or tensor.is_neg())
        if shows and array.flags.c_contiguous:
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
            tensor.copy_(made)


def _unusual(tensor: torch.Tensor) -> np.ndarray:
    """Return the array of a tensor that `Tensor.numpy` refuses."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"expected a tensor, got {type(tensor).__name__}")
    if tensor.device.type != "cpu":
        raise TypeError(
            f"the backend shmcoll moves tensors of the CPU, got one on {tensor.device}; up to torch 2.13 a group has "
            f'one backend, so make another group for the CPU: dist.new_group(backend="shmcoll")'
        )
    if tensor.layout is not torch.strided:
        raise TypeError(f"the backend shmcoll moves dense tensors, got one of layout {tensor.layout}; use to_dense()")
    dense = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype in _VIEWS:
        bits, dtype = _VIEWS[tensor.dtype]
        return np.asarray(dense.view(bits).numpy().view(dtype))
    try:
        return np.asarray(dense.numpy())
    except (TypeError, RuntimeError) as error:
        raise TypeError(f"the backend shmcoll has no dtype for a tensor of {tensor.dtype}: {error}") from None


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
