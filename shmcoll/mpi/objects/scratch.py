"""Memory for packed bytes, which is used again.

New memory costs a fault for each of its pages, which may take longer than packing. So long arrays are kept when nobody
refers to them any more. They are in the arena: the ranks that get packed bytes copy them from where they are.
"""

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

SHORTEST = 256 << 10  # below it malloc has memory that is used again
MOST_KEPT = 64 << 20


class _Lent:
    """The owner of an array that is lent: when the array is gone, its memory is kept."""

    def __init__(self, pool: "Pool", memory: np.ndarray, length: int):
        self._pool, self._memory = pool, memory
        self.__array_interface__ = {**memory.__array_interface__, "shape": (length,)}

    def __del__(self) -> None:
        self._pool.give(self._memory)


class Pool:
    """Arrays of bytes, for the process that has opened it, and not for one that this forks."""

    def __init__(self) -> None:
        self._allocate: Callable[[int], np.ndarray] = np.empty
        self._pid = 0
        self._kept: list[np.ndarray] = []
        self._lock = threading.RLock()  # the garbage collector may call `give` within `take`

    def open(self, allocate: Callable[[int], np.ndarray]) -> None:
        """Begin to keep memory. allocate: where it comes from."""
        self._allocate, self._pid = allocate, os.getpid()

    def take(self, length: int) -> np.ndarray:
        """Return an array of so many bytes, with anything in it."""
        if length < SHORTEST or os.getpid() != self._pid:
            return np.empty(length, np.uint8)
        memory = self._take_kept(length)
        lent: Any = _Lent(self, self._allocate(length) if memory is None else memory, length)
        return np.asarray(lent)

    def _take_kept(self, length: int) -> np.ndarray | None:
        """Return the memory that fits and was used last, and drop what was not used for longest if there is much."""
        with self._lock:
            fitting = [i for i, memory in enumerate(self._kept) if length <= memory.size <= 2 * length]
            found = self._kept.pop(fitting[-1]) if fitting else None
            while sum(memory.size for memory in self._kept) > MOST_KEPT:
                self._kept.pop(0)
        return found

    def give(self, memory: np.ndarray) -> None:
        """Keep memory that nobody uses any more."""
        if memory.size <= MOST_KEPT:
            with self._lock:
                self._kept.append(memory)


POOL = Pool()
scratch = POOL.take
