"""How many calls a second each rank of a running job makes, how many bytes it passes to them, and how long it waits.

A rank that records its calls (`--stats`, `--trace`) has all of that in its profile. Of any other rank the numbers of
the collectives tell how many have begun since the last look, and the flight recorder has the arrays of the last 64 of
each group: if there were more, the others are taken to be like those. Messages, and bytes between nodes, are not in it.
Nothing counts for this while a job runs.
"""

import time
from dataclasses import dataclass

from shmcoll.diagnostics.flight_log import flights
from shmcoll.diagnostics.nodes_status import calls_over_nodes
from shmcoll.diagnostics.observer import ObservedJob
from shmcoll.engine import layout
from shmcoll.engine.kernels.dtypes import BY_CODE
from shmcoll.engine.memory.group import Group
from shmcoll.profiling.reading import read_totals, since
from shmcoll.profiling.spans import RankProfile

_Member = tuple[int, int, int]  # the arena, the group's region and identity


@dataclass(frozen=True)
class Rate:
    """Of one rank, per second since the last look. waiting: the share of that time in which it has waited for others;
    None if it does not record that."""

    calls: float
    bytes: float
    waiting: float | None = None


class Rates:
    """What has been seen of a job. `look` is called again and again."""

    def __init__(self, job: ObservedJob):
        self._job = job
        self._when = 0
        self._seen: dict[tuple[_Member, int], int] = {}  # the last number of each rank of each group
        self._over: dict[int, int] = {}  # the same, of calls between nodes
        self._recorded: dict[int, RankProfile] = {}

    def look(self) -> dict[int, Rate]:
        """Return the rate of each rank; empty at the first look."""
        recorded = self._of_profiles()
        now, before = time.monotonic_ns(), self._when
        self._when = now
        seen, calls, moved = dict[tuple[_Member, int], int](), dict[int, int](), dict[int, float]()
        for group in self._job.groups():
            which = id(group.arena), group.offset, group.arena.load(group.offset + layout.IDENTITY)
            for rank, number in enumerate(group.ranks):
                last = seen[which, rank] = group.published(rank)
                new = max(last - self._seen.get((which, rank), 0), 0)
                calls[number] = calls.get(number, 0) + new
                moved[number] = moved.get(number, 0.0) + _bytes(group, rank, new)
        over = calls_over_nodes(self._job.nodes)
        for number, last in over.items():
            calls[number] = calls.get(number, 0) + max(last - self._over.get(number, 0), 0)
        self._seen, self._over = seen, over
        if not before:
            return {}
        seconds = max(now - before, 1) / 1e9
        rates = {number: Rate(count / seconds, moved.get(number, 0.0) / seconds) for number, count in calls.items()}
        return rates | recorded

    def _of_profiles(self) -> dict[int, Rate]:
        """Return the rates of the ranks that record their calls."""
        before = self._recorded
        read = (read_totals(arena, rank) for arena in self._job.arenas for rank in range(arena.ranks))
        self._recorded = {one.rank: one for one in read if one}
        new = {rank: since(before[rank], one) for rank, one in self._recorded.items() if rank in before}
        return {rank: _rate(one) for rank, one in new.items()}


def _rate(new: RankProfile) -> Rate:
    seconds = max(new.ended - new.begun, 1) / 1e9
    calls, moved, waited = (sum(getattr(row, name) for row in new.totals) for name in ("calls", "bytes", "waited"))
    return Rate(calls / seconds, moved / seconds, min(waited / 1e9 / seconds, 1.0))


def _bytes(group: Group, rank: int, new: int) -> float:
    """Return the bytes of the last `new` calls of a rank."""
    if not new:
        return 0.0
    sizes = []
    for flight in flights(group, rank)[-new:]:
        dtype = BY_CODE.get(layout.call_dtype(flight.call))
        sizes.append(max(flight.count, 0) * dtype.numpy.itemsize if dtype else 0)
    return sum(sizes) * new / len(sizes) if sizes else 0.0
