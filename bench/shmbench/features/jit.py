"""Collectives and messages called in the user's own `@njit(nogil=True)` functions."""

from functools import partial

import numpy as np
from numba import njit

from shmbench.features.messages import message
from shmbench.timing.ab_timing import Contest, Row
from shmbench.timing.entries import collective
from shmcoll import jit as calls


@njit(nogil=True)
def _all_reduces(h, x, out, n):
    for _ in range(n):
        calls.all_reduce(h, x, out)


@njit(nogil=True)
def _barriers(h, n):
    for _ in range(n):
        calls.barrier(h)


@njit(nogil=True)
def _there_and_back(h, rank, x, out, n):
    for _ in range(n):
        if rank == 0:
            calls.send(h, x, 1, 0)
            calls.recv(h, out, 1, 0)
        else:
            calls.recv(h, out, 0, 0)
            calls.send(h, x, 0, 0)


class _Barrier:
    """The property of a barrier: a rank sees behind it what others have written before it."""

    def __init__(self, comm):
        self.comm = comm
        self.strip = comm.zeros(1, "int64")
        self.strips = comm.views(self.strip)

    def refill(self, seq: int) -> None:
        pass

    def run(self, n: int) -> None:
        _barriers(self.comm.handle, n)

    def mistakes(self, seq: int) -> int:
        self.strip[0] = seq
        self.run(1)
        missing = sum(int(strip[0]) != seq for strip in self.strips)
        self.comm.barrier()  # all ranks have checked
        return missing


def jit(contest: Contest) -> list[Row]:
    comm = contest.comm

    def loop(x: np.ndarray, out: np.ndarray):
        return partial(_all_reduces, comm.handle, x, out)

    summed, met, sent = contest.run(
        [
            collective(comm, "all_reduce", 8, loop=loop),
            _Barrier(comm),
            message(comm, 8, partial(_there_and_back, comm.handle, comm.rank)),
        ]
    )
    return [
        Row("all_reduce in @njit(nogil=True), 8", summed.seconds, asked=0.3e-6, wrong=summed.wrong),
        Row("barrier in @njit(nogil=True)", met.seconds, asked=0.22e-6, wrong=met.wrong),
        Row("send and recv there and back, @njit, 8", sent.seconds, wrong=sent.wrong),
    ]
