"""Copies and sums as a list of steps, done again and again without a wait: compiled as shmcoll's own routines are.

A step is some words: what is done, and on how many bytes, or elements for a sum. Reads of another process are
`process_vm_readv`, copies and stores past the caches are shmcoll's own loops, sums its kernels.
"""

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from shmcoll.engine.atomics import call_kernel, copy, peek, read_memory, stream
from shmcoll.engine.compiler import compile as code
from shmcoll.engine.compiler import object_cache
from shmcoll.engine.layout import WORD

NAME = "shmbench_steps"

COPY, STREAM, READ, REDUCE = range(4)
Step = tuple[int, int, int, int, int, int]  # kind, detail, target, accumulator, source, count
KIND, DETAIL, TARGET, ACCUMULATOR, SOURCE, COUNT = (WORD * i for i in range(6))
STEP = 6 * WORD  # DETAIL: of REDUCE the mode of the kernel; of READ the process


def perform(steps, each, turns, kernel, ranks, n):
    """Do `n` lists of `each` steps. There are `turns` lists, which follow one another. Return 0, or 1 if memory of
    another process could not be read."""
    for i in range(n):
        first = steps + i % turns * each * STEP
        for step in range(first, first + each * STEP, STEP):
            kind, target, source, count = (
                peek(step + KIND),
                peek(step + TARGET),
                peek(step + SOURCE),
                peek(step + COUNT),
            )
            if kind == COPY:
                copy(target, source, count)
            elif kind == STREAM:
                stream(target, source, count)
            elif kind == REDUCE:
                call_kernel(kernel, peek(step + DETAIL), target, peek(step + ACCUMULATOR), source, count, ranks)
            elif read_memory(peek(step + DETAIL), target, source, count) != count:
                return 1
    return 0


@cache
def _native() -> Callable[..., int]:
    object_cache.know(NAME, Path(__file__))
    (address,) = code.load_functions(NAME, lambda: {NAME: (perform, 6)})
    return ctypes.CFUNCTYPE(*[ctypes.c_int64] * 7)(address)


class Steps:
    """Lists of steps, one for each pair of arrays that is used in turn. All have as many steps.

    kernel: the address of the kernel for sums, or 0. keeps: the memory in the steps, as long as this lives.
    """

    def __init__(self, lists: Sequence[Sequence[Step]], kernel: int, ranks: int, keeps: object):
        self._words = np.array(lists, np.int64).reshape(len(lists), -1)
        self._each = len(lists[0])
        self._rest = kernel, ranks
        self._keeps = keeps

    def run(self, n: int) -> None:
        """Do the lists in turn, `n` of them. Raises `OSError` if memory of a peer cannot be read."""
        if _native()(self._words.ctypes.data, self._each, len(self._words), *self._rest, n):
            raise OSError("the kernel does not let this rank read the memory of a peer")
