"""The least that a call from Python can cost: a plan of an all_reduce of 8 bytes."""

from collections.abc import Callable

import numpy as np

from shmbench.timing.ab_timing import Contest, Row, Settings, job
from shmbench.timing.entries import collective


def rows(settings: Settings) -> list[Row]:
    return job(2, _measure, settings)


def _measure(contest: Contest) -> list[Row]:
    comm = contest.comm

    def loop(x: np.ndarray, out: np.ndarray) -> Callable[[int], None]:
        plan = comm.plan("all_reduce", x, out=out)

        def run(n: int) -> None:
            for _ in range(n):
                plan()

        return run

    (planned,) = contest.run([collective(comm, "all_reduce", 8, loop=loop)])
    return [Row("plan() of all_reduce, 8", planned.seconds, asked=0.8e-6, wrong=planned.wrong)]
