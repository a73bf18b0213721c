"""The thresholds between algorithms: what is measured for each, and when it is moved.

Up to the length of a threshold, calls use the short way. At lengths around it, each call is timed both ways, one after
the other, in many rounds. The threshold is moved to the value at which the calls that change sides gain most together.
It is moved only if they gain more than the noise (LEAST of their time on average, and something in nine of ten rounds),
and if none of them loses as much.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from statistics import fmean, median
from typing import Any

import numpy as np

from shmbench.collectives import Buffers, Case, Collective, Counts
from shmbench.timing.library import Shmcoll
from shmbench.timing.measure import Bench, sized
from shmcoll.engine.layout import CELL_BYTES
from shmcoll.engine.memory.thresholds import MOST, Thresholds, defaults
from shmcoll.engine.system.cores import usable_cores

LEAST = 0.03
LOOP_SECONDS = 0.01
FEWEST_CALLS, MOST_CALLS = 16, 1000
REDUCTIONS = ("all_reduce", "reduce", "reduce_scatter")
PASSES = 3  # over all calls, so that a noisy second does not affect all rounds of one call

# By the least value with which calls go the short way: in each round, of each call, the log of short way / long way
Ratios = Mapping[int, Sequence[Sequence[float]]]


@dataclass(frozen=True)
class Crossing:
    """A threshold and the calls around it, collective and size, by the least value with which they use the short
    way."""

    name: str
    calls: Mapping[int, Sequence[tuple[str, int]]]
    reads: bool = False  # the result is read after each call, which takes longer where it is not in a cache


def crossings(ranks: int, cores: int) -> list[Crossing]:
    """Return the crossings in the order in which they are measured: each depends on those before. If each rank has a
    core, jobs find out themselves which way exchanges are faster (`shmcoll/engine/protocol/pace.py`)."""
    cells = [CELL_BYTES >> power for power in range(5, -1, -1)]
    found = []
    if ranks > 2:
        ring = {-(-size // (ranks - 2)): [(name, size) for name in REDUCTIONS] for size in cells[1:]}
        found.append(Crossing("ring_bytes", ring))
    others = (*REDUCTIONS[1:], "scan")
    flat = {size: [("all_reduce", 2 * size // ranks), *((name, size) for name in others)] for size in cells}
    found.append(Crossing("flat_bytes", flat))
    # A result of exactly this number of bytes is streamed, so one more is added
    stream = {size + 1: [("all_reduce", size), ("all_gather", size)] for size in (1 << p for p in range(20, 25))}
    found.append(Crossing("stream_bytes", stream, reads=True))
    # Of exactly this share for each peer an array is read where it is, so one more is added
    exchanged: dict[int, list[tuple[str, int]]] = {}
    read: dict[int, list[tuple[str, int]]] = {}
    for share in (1 << p for p in range(15, 22)):
        exchanged[share + 1] = [("collective_permute", share), ("all_to_all", ranks * share)]
        read[share + 1] = [("scatter", ranks * share)]
    if ranks > cores:
        found.append(Crossing("exchange_bytes", exchanged))
    return [*found, Crossing("direct_bytes", read)]


def choose(default: int, ratios: Ratios) -> int:
    """Return the best value of a threshold: the default, or the nearest to it that is clearly better than those
    before."""
    best, most = default, 0.0
    for value in sorted((min(ratios) // 2, *ratios), key=lambda v: len(_moved(default, v, ratios))):
        moved = _moved(default, value, ratios)
        sign = -1 if value > default else 1
        gains = [[sign * ratio for ratio in call] for edge in moved for call in zip(*ratios[edge], strict=True)]
        if not moved or any(median(call) <= -LEAST for call in gains):
            continue
        together = sorted(fmean(round_) for round_ in zip(*gains, strict=True))
        gain = median(together) * len(moved)
        if together[len(together) // 10] > 0 and gain >= most + LEAST * len(_moved(best, value, ratios)):
            best, most = value, gain
    return best


def _moved(before: int, value: int, ratios: Ratios) -> list[int]:
    """Return the calls that change sides when a threshold is moved."""
    low, high = sorted((before, value))
    return [edge for edge in ratios if low < edge <= high]


def measure(library: Shmcoll, rounds: int, progress: Callable[[str], None]) -> Iterator[tuple[Crossing, int, Ratios]]:
    """Return the value and the reason for each threshold, the same on all ranks. progress: called before each pass over
    the calls."""
    best = defaults(library.size, usable_cores())
    for crossing in crossings(library.size, usable_cores()):
        ratios = _ratios(library, crossing, best, rounds, progress)
        value = choose(getattr(best, crossing.name), ratios)
        yield crossing, value, ratios
        best = best._replace(**{crossing.name: value})


def _ratios(
    library: Shmcoll, crossing: Crossing, thresholds: Thresholds, rounds: int, progress: Callable[[str], None]
) -> Ratios:
    ratios: dict[int, list[Sequence[float]]] = {}
    for number in range(1, PASSES + 1):
        progress(f"measuring {crossing.name}, pass {number} of {PASSES}")
        for edge, calls in crossing.calls.items():
            told = [_both_ways(library, crossing, thresholds, *call, -(-rounds // PASSES)) for call in calls]
            ratios.setdefault(edge, []).extend(zip(*told, strict=True))
    return ratios


def _both_ways(
    library: Shmcoll, crossing: Crossing, thresholds: Thresholds, name: str, size: int, rounds: int
) -> list[float]:
    """Return for each round the logarithm of the time of a call by the short way over that by the long way."""
    bench, case = _prepared(library, name, size, crossing.reads)
    loop = bench.loop(case)

    def seconds(short: bool, n: int) -> float:
        way = {crossing.name: MOST if short else 1}
        if crossing.name == "ring_bytes":
            way["flat_bytes"] = 1
        library.comm._dispatcher.choose_by(thresholds._replace(**way))
        return loop(n)

    seconds(True, FEWEST_CALLS)
    n = max(FEWEST_CALLS, min(MOST_CALLS, round(LOOP_SECONDS / seconds(False, FEWEST_CALLS))))
    told = []
    for number in range(rounds):
        first = number % 2 == 0
        times = {short: seconds(short, n) for short in (first, not first)}
        told.append(log(times[True] / times[False]))
    return told


def _prepared(library: Shmcoll, name: str, size: int, reads: bool) -> tuple[Bench, Case]:
    collective = library.collective(name)
    if reads:
        collective = replace(collective, run=_reading(collective))
    case = Case(np.dtype(np.float32), "sum", 0, library.rank, library.size, Counts(0, 0))
    return Bench(library, collective), sized(collective, case, [size])[0]


def _reading(collective: Collective) -> Any:
    """Return the calls, each followed by reading its result."""

    def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
        for i in range(n):
            pair = buffers[i % len(buffers)]
            collective.run(comm, case, [pair], 1)
            if pair[1] is not None:
                pair[1].max()

    return run
