"""Shared arrays: numpy arrays whose memory lies in the arena, in this rank's heap.

Taken when made, given back when the last array that looks at the memory is gone. Any rank makes them alone.
"""

import ctypes
import weakref
from typing import Any

import numpy as np

from shmcoll.dtypes import dtype_of
from shmcoll.engine.arena import Arena
from shmcoll.engine.heap import Heap


def zeros(arena: Arena, heap: Heap, shape: Any, dtype: Any, rank: int) -> np.ndarray:
    """A C-contiguous array of zeros in a heap.

    Raises `ArenaError` when the heap is full, `TypeError` for a dtype that shmcoll does not know, and what numpy raises
    for a shape that is none.
    """
    # An array of that shape that takes no memory: numpy's own reading of the arguments
    like = np.broadcast_to(np.zeros((), dtype), shape)
    dtype_of(like, "empty", rank)
    if not like.size:
        return np.empty(like.shape, like.dtype)
    offset = heap.take(like.nbytes, f"a shared array of shape {like.shape}, {like.dtype}")
    memory = (ctypes.c_char * like.nbytes).from_address(arena.address + offset)
    weakref.finalize(memory, heap.give, offset).atexit = False
    return np.ndarray(like.shape, like.dtype, memory)  # type: ignore[arg-type]
