"""What an asynchronous all_reduce costs the work that goes on beside it, on rank 0.

The work is numpy's, in the cache of one core, and takes as long as the all_reduce does alone. The threads that run the
all_reduce are one a rank: without a core more than ranks they take a core from the work.
"""

import os
import time
from dataclasses import replace
from typing import Any

import numpy as np

from shmbench.cli.sizes import short_size
from shmbench.timing.ab_timing import Contest, Row, Settings, job
from shmbench.timing.entries import collective

SIZE = 64 << 20
WORK_ELEMENTS = 16 << 10


class _Work:
    """The work, and nothing else; rank 0 alone does any."""

    def __init__(self, comm: Any, seconds: float):
        self.comm = comm
        self.x = np.linspace(0, 1, WORK_ELEMENTS)
        self.out = np.empty_like(self.x)
        self.times = 1
        one = min(self.do() for _ in range(5))
        self.times = max(1, round(seconds / one)) if comm.rank == 0 else 0

    def do(self) -> float:
        """Returns the seconds it has taken."""
        start = time.perf_counter()
        for _ in range(self.times):
            np.sin(self.x, self.out)
        return time.perf_counter() - start

    def refill(self, seq: int) -> None:
        self.out.fill(-1)

    def run(self, n: int) -> float:
        return sum(self.do() for _ in range(n))

    def mistakes(self, seq: int) -> int:
        return int(np.count_nonzero(self.out != np.sin(self.x))) if self.times else 0


def rows(settings: Settings) -> list[Row]:
    return job(2, _measure, settings)


def _measure(contest: Contest) -> list[Row]:
    comm, size = contest.comm, contest.settings.size(SIZE)
    blocking = collective(comm, "all_reduce", size)
    (alone,) = contest.run([blocking])
    work = _Work(comm, min(alone.seconds))

    def both(n: int) -> float:
        seconds = 0.0
        for _ in range(n):
            pending = comm.all_reduce(blocking.x, out=blocking.out, async_op=True)
            seconds += work.do()
            pending.wait()
        return seconds

    beside, without = contest.run([replace(blocking, loop=both), work])
    what = f"numpy during async all_reduce {short_size(size)}, {len(os.sched_getaffinity(0))} cores"
    mistakes = beside.wrong + without.wrong
    return [Row(what, beside.seconds, "the same work alone", without.seconds, 1.15, wrong=mistakes)]
