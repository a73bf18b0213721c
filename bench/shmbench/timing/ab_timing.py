"""Entries timed in turn by the ranks of one job: calls of shmcoll, and what they are compared with.

In a round each entry gets new inputs and wrong outputs, and is timed in a loop after a barrier. Then every element of
its results is compared with the right one. Time is the average over the loop on the slowest rank.
"""

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from statistics import median
from typing import Any, Protocol

import numpy as np

from shmbench.timing.measure import PILOT_SECONDS, filling

LOOP_SECONDS = 0.05
SHORT_LOOP_SECONDS, SHORT_LOOPS = 0.001, 10
JOB_SECONDS = 300


@dataclass(frozen=True)
class Settings:
    """How often to measure, and whether small sizes and few ranks are enough.

    least: whether a round is the least of several short loops, of which one may find the cores of a busy machine free.
    """

    rounds: int
    quick: bool
    least: bool = False

    def size(self, usual: int) -> int:
        """Return the bytes of a long array."""
        return min(usual, 64 << 10) if self.quick else usual

    def ranks(self, usual: int) -> int:
        return usual // 8 if self.quick else usual


@dataclass(frozen=True)
class Row:
    """A line of the table: the seconds of single rounds, and those of the entry beside it.

    asked: the largest ratio that is accepted; without an entry beside it, the largest figure.
    """

    what: str
    figures: Sequence[float]
    beside: str = ""
    limits: Sequence[float] = ()
    asked: float | None = None
    wrong: int = 0

    @property
    def figure(self) -> float:
        return median(self.figures)

    @property
    def limit(self) -> float | None:
        return median(self.limits) if self.limits else None

    @property
    def ratio(self) -> float | None:
        return self.figure / self.limit if self.limit else None

    @property
    def falls_short(self) -> bool:
        reached = self.figure if self.ratio is None else self.ratio
        return bool(self.wrong) or (self.asked is not None and reached > self.asked)


class Entry(Protocol):
    """One entry to time."""

    def refill(self, seq: int) -> None:
        """Write new inputs, and outputs that are wrong."""

    def run(self, n: int) -> float | None:
        """Do it `n` times. Returns the seconds that count, if these are not all seconds."""

    def mistakes(self, seq: int) -> int:
        """Return the number of wrong elements in this rank's results for the inputs of `refill(seq)`."""


@dataclass(frozen=True)
class Repeated:
    """A call without arguments, as an entry. check: returns the number of wrong elements of one call that it makes."""

    made: Callable[[], Any]
    check: Callable[[], int]

    def refill(self, seq: int) -> None:
        pass

    def run(self, n: int) -> None:
        made = self.made
        for _ in range(n):
            made()

    def mistakes(self, seq: int) -> int:
        return self.check()


@dataclass
class Outcome:
    """Seconds per call in each round, and wrong elements of all ranks and rounds."""

    seconds: list[float] = field(default_factory=list)
    wrong: int = 0


def beside(what: str, one: Outcome, beside: str, limit: Outcome, asked: float | None = None) -> Row:
    """Return the row of an entry and of the one beside it."""
    return Row(what, one.seconds, beside, limit.seconds, asked, wrong=one.wrong + limit.wrong)


class Contest:
    """The ranks' side: times entries in turn. Every rank makes the same calls.

    pause: called before the first loops, and before each round. Other jobs may be measured meanwhile.
    """

    def __init__(self, comm: Any, settings: Settings, pause: Callable[[], None] = lambda: None):
        self.comm = comm
        self.settings = settings
        self.pause = pause

    def run(self, entries: Sequence[Entry], n: int | None = None) -> list[Outcome]:
        """Return the outcomes of all rounds. n: calls per loop; by default as many as fill it. The garbage collector is
        off meanwhile."""
        gc.collect()
        gc.disable()
        try:
            return self._run(entries, n, count(1))
        finally:
            gc.enable()

    def _run(self, entries: Sequence[Entry], n: int | None, seqs: Iterator[int]) -> list[Outcome]:
        calls, outcomes = [], [Outcome() for _ in entries]
        self.pause()
        for entry in entries:
            entry.refill(next(seqs))
            calls.append(n or self._iterations(entry))
        for _ in range(self.settings.rounds):
            self.pause()
            for entry, times, outcome in zip(entries, calls, outcomes, strict=True):
                seq = next(seqs)
                entry.refill(seq)
                loops = SHORT_LOOPS if self.settings.least else 1
                outcome.seconds.append(min(self._slowest(entry, times) for _ in range(loops)))
                outcome.wrong += int(self.comm.all_reduce(np.array([entry.mistakes(seq)]))[0])
        return outcomes

    def _iterations(self, entry: Entry) -> int:
        self._slowest(entry, 1)  # compiles what is missing, and warms up
        if self.settings.least:
            return max(1, round(SHORT_LOOP_SECONDS / min(self._slowest(entry, 1) for _ in range(SHORT_LOOPS))))
        return filling(PILOT_SECONDS if self.settings.quick else LOOP_SECONDS, partial(self._slowest, entry))

    def _slowest(self, entry: Entry, n: int) -> float:
        """Return seconds per call on the slowest rank, the same number on every rank."""
        self.comm.barrier()
        start = time.perf_counter_ns()
        counted = entry.run(n)
        passed = (time.perf_counter_ns() - start) * 1e-9
        return float(self.comm.all_reduce(np.array([passed if counted is None else counted]), "max")[0]) / n


def job(ranks: int, measure: Callable[[Contest], list[Row]], settings: Settings) -> list[Row]:
    """Return the rows that `measure` makes on the ranks of a new job. Raises what `shmcoll.run` does."""
    import shmcoll

    rows: list[Row] = shmcoll.run(_on_rank, ranks, measure, settings, timeout=JOB_SECONDS)[0]
    return rows


def _on_rank(measure: Callable[[Contest], list[Row]], settings: Settings) -> list[Row]:
    import shmcoll

    return measure(Contest(shmcoll.init(), settings))
