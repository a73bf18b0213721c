"""Ranks of several threads (`shmrun --threads`), beside one thread each."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from shmbench.cli.sizes import short_size
from shmbench.timing.ab_timing import Contest, Row, Settings, beside, job
from shmbench.timing.entries import Arrays, collective
from shmcoll.engine.system.cores import usable_cores
from shmcoll.runtime.thread_team import VARIABLE

SIZES = (1 << 20, 4 << 20, 64 << 20)
CALLS = {1: ("all_gather",), 2: ("all_reduce", "all_gather")}  # of one rank, both are a copy


def threads(settings: Settings) -> list[Row]:
    """Measure one rank with all cores, and two that have half of them each, but at least two threads."""
    rows = []
    for ranks in CALLS:
        with _asking(max(2, usable_cores() // ranks)):
            rows += job(ranks, _threads, replace(settings, least=True))
    return rows


@contextmanager
def _asking(number: int) -> Iterator[None]:
    """Have the ranks that this process starts ask for so many threads."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(number)
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def _threads(contest: Contest) -> list[Row]:
    comm, number, rows = contest.comm, os.environ[VARIABLE], []
    for name in CALLS[comm.size]:
        for size in dict.fromkeys(map(contest.settings.size, SIZES)):
            one, several = contest.run([_by(comm, name, size, wanted) for wanted in (False, True)])
            what = f"{name} {short_size(size)}, {comm.size} rank{'s' * (comm.size > 1)}, {number} threads"
            rows.append(beside(what, several, "one thread", one))
    return rows


def _by(comm: object, name: str, size: int, wanted: bool) -> Arrays:
    """Return a call that the threads of a rank share, or do not."""

    def loop(x: object, out: object) -> Callable[[int], None]:
        def run(n: int) -> None:
            comm._dispatcher.share_work(wanted=wanted)  # type: ignore[attr-defined]
            call = getattr(comm, name)
            for _ in range(n):
                call(x, out=out)

        return run

    return collective(comm, name, size, loop=loop)
