"""A list of long arrays as one object, beside the same number of broadcasts into arrays that are equally new."""

import ctypes
from typing import Any

import numpy as np

from shmbench.cli.sizes import short_size
from shmbench.collectives.payload import Segment, fill, pattern, wrong
from shmbench.timing.ab_timing import Contest, Row, beside

ARRAYS = 10
SIZE = 8 << 20
_LIBC = ctypes.CDLL(None)


class _Broadcast:
    """A broadcast from rank 0. What has arrived is kept until the next turn."""

    def __init__(self, comm: Any, size: int):
        self.comm = comm
        self.given = [np.empty(size // 4, np.float32) for _ in range(ARRAYS if comm.rank == 0 else 0)]
        self.length = size // 4
        self.kept: list[np.ndarray] = []

    def refill(self, seq: int) -> None:
        self.kept = []
        _LIBC.malloc_trim(0)  # otherwise one of both may get memory that the other has freed, at no cost
        for k, array in enumerate(self.given):
            fill(array, self._pattern(k, seq))

    def mistakes(self, seq: int) -> int:
        missing = (ARRAYS - len(self.kept)) * self.length
        due = [[Segment(0, self.length, self._pattern(k, seq))] for k in range(len(self.kept))]
        return missing + sum(map(wrong, self.kept, due))

    def _pattern(self, k: int, seq: int) -> np.ndarray:
        return pattern(np.dtype(np.float32), "none", ARRAYS, k, seq)


class _Object(_Broadcast):
    def run(self, n: int) -> None:
        for _ in range(n):
            self.kept = self.comm.broadcast_object(self.given)


class _Arrays(_Broadcast):
    def run(self, n: int) -> None:
        for _ in range(n):
            self.kept = self.given or [np.empty(self.length, np.float32) for _ in range(ARRAYS)]
            for array in self.kept:
                self.comm.broadcast(array)


def objects(contest: Contest) -> list[Row]:
    size = contest.settings.size(SIZE)
    whole, single = contest.run([_Object(contest.comm, size), _Arrays(contest.comm, size)], n=1)
    what = f"broadcast_object of {ARRAYS} arrays of {short_size(size)}"
    return [beside(what, whole, f"{ARRAYS} broadcasts, new arrays", single, 1.3)]
