"""Tensors of `nl.shared_hbm`: an all_gather into them is written once for all ranks of the list.

On the hardware the cores of one HBM share such a tensor. Here each rank makes an array of its own, in pages that take
no memory until they are written. An all_gather into it makes one result in shared memory (`shared=True` of the
communicator), and maps that in the place of these pages, privately: a rank that writes there afterwards gets a page of
its own, and the other ranks do not see it. If the result cannot be mapped, it is copied.

The pages refer to the result, so its memory is freed when all ranks have deleted their tensors, or have gathered into
them again. Short tensors are ordinary arrays: to copy them takes less time.
"""

import mmap
from typing import Any

import numpy as np

from shmcoll.calls.arrays import whole_shape
from shmcoll.communicator import Communicator

LEAST = 1 << 20  # bytes of a tensor


class Pages(mmap.mmap):
    """The pages of one tensor. result: the array that they show."""

    result: np.ndarray | None = None


def make(shape: Any, dtype: Any) -> np.ndarray:
    """Return a tensor of zeros."""
    like = np.broadcast_to(np.zeros((), dtype), shape)
    return np.ndarray(like.shape, like.dtype, Pages(-1, like.nbytes)) if like.nbytes >= LEAST else like.copy()


def all_gather(comm: Communicator, src: np.ndarray, dst: np.ndarray) -> None:
    """Gather into an array, which may be a tensor that `make` has returned."""
    fits = (dst.shape, dst.dtype) == (whole_shape(src.shape, comm.size), src.dtype)
    if not fits or not isinstance(dst.base, Pages):
        comm.all_gather(src, out=dst)
        return
    result = comm.all_gather(src, shared=True)
    if comm._map_at(result, dst.ctypes.data):
        dst.base.result = result
    else:
        dst[...] = result
