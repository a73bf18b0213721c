"""The cost of an asynchronous all_reduce for the work beside it, on rank 0.

The work is a numpy computation in the cache of one core, and takes as long as the all_reduce takes alone. One thread
per rank runs the all_reduce: if there are not more cores than ranks, it takes a core from the work.
"""

import os
import time
from dataclasses import replace
from typing import Any

import numpy as np

from shmbench.cli.sizes import short_size
from shmbench.timing.ab_timing import Contest, Row, beside
from shmbench.timing.entries import collective

SIZE = 64 << 20
WORK_ELEMENTS = 16 << 10


class _Work:
    """The work, and nothing else. Only rank 0 does any."""

    def __init__(self, comm: Any, seconds: float):
        self.comm = comm
        self.x = np.linspace(0, 1, WORK_ELEMENTS)
        self.out = np.empty_like(self.x)
        self.times = 1
        one = min(self.do() for _ in range(5))
        self.times = max(1, round(seconds / one)) if comm.rank == 0 else 0

    def do(self) -> float:
        """Do the work. Returns the seconds that it has taken."""
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


def asynchronous(contest: Contest) -> list[Row]:
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

    during, without = contest.run([replace(blocking, loop=both), work])
    what = f"numpy during async all_reduce {short_size(size)}, {len(os.sched_getaffinity(0))} cores"
    return [beside(what, during, "the same work alone", without, 1.15)]
