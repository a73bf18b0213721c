"""How a row is measured: buffers in turn, a barrier, the loop, rounds, and the check.

Time is the average of a rank over the iterations of a round, the maximum over the ranks, the median over the rounds.
The loop calls the library as a user would, from Python, with `out`. The garbage collector is off in it. By default
several pairs of arrays are used in turn, so that a call does not find all its data in the cache only because the one
before had the same arrays; `--buffers 1` measures just that.
"""

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from statistics import median
from typing import Any, Literal

import numpy as np

from shmbench.cli.conditions import MOST_PAIRS, ROTATION_BYTES
from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.payload import fill, spoil, wrong
from shmbench.timing.library import Library

ROUND_SECONDS = 0.1
PILOT_SECONDS = 0.01
MOST_ITERATIONS = 20_000
FEWEST_ITERATIONS = 3


@dataclass(frozen=True)
class Timing:
    """The result for one row and placement. Seconds per call. wrong: the number of elements, None if not checked.
    pairs: of arrays that were used in turn. ways: seconds of
    each of several ways, of which the fastest is the result."""

    seconds: float
    rounds: list[float]
    iterations: int
    wrong: int | None
    pairs: int
    ways: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """How often to measure: `iterations` per round (None: as many as fill `ROUND_SECONDS`), after `warmup`, `rounds`
    times. buffers: see `Conditions`."""

    iterations: int | None
    warmup: int
    rounds: int
    check: bool
    buffers: int | Literal["auto"] = "auto"


class Bench:
    """Measures one case after another on one library. Every rank makes the same calls."""

    def __init__(self, library: Library, collective: Collective):
        self.library = library
        self.collective = collective
        self._seqs = count(1)

    def measure(self, case: Case, plan: Plan) -> Timing:
        """Time `case`, and count what is wrong in the results of all ranks and rounds."""
        buffers = buffers_of(self.collective, case, plan.buffers)
        self.refill(case, buffers)
        run = partial(self.collective.run, self.library.comm, case, buffers)
        n = plan.iterations
        if n is None:
            self._seconds(run, 2 * len(buffers))
            n = filling(ROUND_SECONDS, partial(self.slowest, run))
        seconds, mistakes = [], 0
        for _ in range(plan.rounds):
            seqs = self.refill(case, buffers)
            # At least once over all pairs, so that the check finds each of them written.
            self._seconds(run, max(plan.warmup, len(buffers)))
            seconds.append(self.slowest(run, n))
            if plan.check:
                mistakes += self._mistakes(case, buffers, seqs)
        total = int(self.library.exchange(np.array([mistakes], dtype=np.float64)).sum()) if plan.check else None
        return Timing(median(seconds), seconds, n, total, len(buffers))

    def loop(self, case: Case) -> Callable[[int], float]:
        """Return a function that makes `n` calls over arrays in turn, and returns how long one takes on the slowest
        rank."""
        buffers = buffers_of(self.collective, case, "auto")
        self.refill(case, buffers)
        return partial(self.slowest, partial(self.collective.run, self.library.comm, case, buffers))

    def _seconds(self, run: Callable[[int], Any], n: int) -> float:
        """Return the seconds that this rank takes for `run(n)` after a barrier."""
        gc.collect()
        gc.disable()
        try:
            self.library.barrier()
            start = time.perf_counter_ns()
            run(n)
            return (time.perf_counter_ns() - start) * 1e-9
        finally:
            gc.enable()

    def slowest(self, run: Callable[[int], Any], n: int) -> float:
        """Return seconds per call of `run(n)` on the slowest rank, the same number on every rank."""
        mine = self._seconds(run, n) / n
        return float(self.library.exchange(np.array([mine])).max())

    def refill(self, case: Case, buffers: Buffers) -> list[int]:
        """Write inputs that were never used before, and outputs that are wrong everywhere. Returns the sequence number
        of each pair."""
        seqs = [next(self._seqs) for _ in buffers]
        for seq, (x, out) in zip(seqs, buffers, strict=True):
            if out is not None and out is not x:
                spoil(out, self.collective.expected(case, seq))
            if x is not None:
                fill(x, case.sent(case.rank, seq))
        return seqs

    def _mistakes(self, case: Case, buffers: Buffers, seqs: list[int]) -> int:
        """Return the number of wrong elements in this rank's outputs. In place the timed calls have overwritten the
        inputs: call once more."""
        if not self.collective.sized:
            return self._early_leavers(case)
        if case.in_place:
            seqs = self.refill(case, buffers)
            self.collective.run(self.library.comm, case, buffers, len(buffers))
        return sum(
            wrong(out, self.collective.expected(case, seq))
            for seq, (_, out) in zip(seqs, buffers, strict=True)
            if out is not None
        )

    def _early_leavers(self, case: Case) -> int:
        """Return the number of barriers that this rank left before the last rank came. Each rank in turn is late."""
        early = 0
        for late in range(case.ranks):
            self.library.barrier()
            if case.rank == late:
                _burn(100_000)
            came = time.perf_counter_ns()
            self.collective.run(self.library.comm, case, [], 1)
            left = time.perf_counter_ns()
            early += left < self.library.exchange(np.array([came], dtype=np.float64)).max()
        return early


def sized(collective: Collective, case: Case, sizes: Iterable[int]) -> list[Case]:
    """Return the case for each size in bytes; sizes that come to the same counts are measured once."""
    elements = [max(1, size // case.dtype.itemsize) for size in sizes] if collective.sized else [0]
    op, root = case.op if collective.reduces else "none", case.root if collective.rooted else -1
    counts = dict.fromkeys(collective.counts(n, case.ranks) for n in elements)
    return [replace(case, op=op, root=root, counts=one) for one in counts]


def filling(seconds: float, slowest: Callable[[int], float]) -> int:
    """Return the number of calls that fills a loop. Growing short runs find it, each the best of three, because a run
    may be interrupted. slowest: returns the seconds of one of `n` calls."""
    n, one = 0, 0.0
    while n * one < PILOT_SECONDS and n < MOST_ITERATIONS:
        n = 4 * n or 1
        one = min(slowest(n) for _ in range(3))
    return max(FEWEST_ITERATIONS, min(MOST_ITERATIONS, round(seconds / one)))


def cases(collective: Collective, case: Case) -> Iterator[Case]:
    """Return the placements of a case: out of place, then in place, where there are such forms."""
    if collective.out_of_place:
        yield case
    if collective.in_place:
        yield replace(case, in_place=True)


def buffers_of(
    collective: Collective, case: Case, wanted: int | Literal["auto"], empty: Callable[..., np.ndarray] = np.empty
) -> Buffers:
    """Return the pairs of input and output to use in turn; the same number on every rank. empty: makes an array of a
    length and a dtype."""
    if not collective.sized:
        return []
    lengths = [collective.lengths(replace(case, rank=rank)) for rank in range(case.ranks)]
    longest = max(max(pair) if case.in_place else sum(pair) for pair in lengths) * case.dtype.itemsize
    pairs = max(1, min(MOST_PAIRS, ROTATION_BYTES // longest)) if wanted == "auto" else wanted
    return [_buffer(collective, case, *lengths[case.rank], empty) for _ in range(pairs)]


def _buffer(
    collective: Collective, case: Case, sends: int, gets: int, empty: Callable[..., np.ndarray]
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return one pair; None for an array that this rank does not have."""
    if case.in_place:
        assert collective.in_place
        x, out = collective.in_place(case, empty(max(sends, gets), case.dtype))
    else:
        x, out = empty(sends, case.dtype), empty(gets, case.dtype)
    return x if sends else None, out if gets else None


def _burn(nanoseconds: int) -> None:
    until = time.perf_counter_ns() + nanoseconds
    while time.perf_counter_ns() < until:
        pass
