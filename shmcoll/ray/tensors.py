"""The tensors of one call as arrays: numpy's are used as they are, torch's by `shmcoll.torch.tensors`."""

import sys
from typing import Any

import numpy as np


class Arrays:
    """The tensors of one call. Use it once: `read` or `written` for each, the call, then `finish`."""

    def __init__(self) -> None:
        self._written: Any = None

    def read(self, tensor: Any) -> np.ndarray:
        """Return an array of the elements of a tensor. Raises `TypeError` for one that is not in the CPU's memory."""
        if isinstance(tensor, np.ndarray):
            return tensor
        _check(tensor)
        from shmcoll.torch import tensors

        return tensors.read(tensor)

    def written(self, tensor: Any) -> np.ndarray:
        """Return the array that a call writes in place of a tensor."""
        if isinstance(tensor, np.ndarray):
            return tensor
        _check(tensor)
        from shmcoll.torch import tensors

        self._written = self._written or tensors.Written()
        return self._written.array(tensor)

    def finish(self) -> None:
        """Copy back what the call has written into copies."""
        if self._written:
            self._written.finish()


def _check(tensor: Any) -> None:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(tensor, torch.Tensor):
        kind = type(tensor)
        raise TypeError(
            f"the backend shmcoll moves numpy arrays, and torch tensors of the CPU, got {kind.__module__}."
            f"{kind.__qualname__}"
        )
