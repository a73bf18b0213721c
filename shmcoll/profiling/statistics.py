"""Statistics: where the time of a job goes, from the profiles of its ranks: as tables with a verdict, and as JSON.

The verdict answers two questions. Is it communication at all: the share of the ranks' time in calls, and of that the
share in which they waited for others. Which rank is slow: the one for which the others waited, while it waited little
itself.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shmcoll.engine.system.text import aligned, to_bytes
from shmcoll.profiling.files import replacing
from shmcoll.profiling.spans import RankProfile

#: of the ranks' time: below, calls are not what takes the time, and waiting is not worth a search for the slow rank
SMALL = 0.05
#: of all waiting for single ranks: from here on one rank is the cause
MOST = 0.5
#: others wait for a slow rank so many times as long as it waits itself
TIMES = 2

_ROWS = 8  # most rows of the table of operations


@dataclass(frozen=True, slots=True)
class Operation:
    """All calls of an operation on arrays of a class of size, by all ranks. The names are the keys of the JSON.

    size: the least bytes of the class. seconds: in the calls. waiting: seconds of that.
    """

    operation: str
    size: int
    calls: int
    bytes: int
    seconds: float
    waiting: float

    @property
    def bandwidth(self) -> float | None:
        """Bytes per second of the time in which a rank did not wait; None if there was nothing to move."""
        moving = self.seconds - self.waiting
        return self.bytes / moving if self.bytes and moving > 0 else None


@dataclass(frozen=True, slots=True)
class Rank:
    """A rank. seconds: how long it was recorded. in_calls, waiting: seconds of that. waited_for: seconds that the other
    ranks together waited for it. dropped: spans that the timeline lacks."""

    rank: int
    node: int
    seconds: float
    in_calls: float
    waiting: float
    waited_for: float
    dropped: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of all ranks. operations: those that took longest first."""

    ranks: list[Rank]
    operations: list[Operation]

    def __str__(self) -> str:
        return "\n".join([*self.verdict(), "", *self._rank_table(), "", *self._operation_table()])

    def document(self) -> dict[str, Any]:
        """Return the figures for programs."""
        slow = self.slow_rank()
        return {
            "format": 1,
            "slow_rank": None if slow is None else slow.rank,
            "in_calls": self._share("in_calls"),
            "waiting": self._share("waiting"),
            "verdict": self.verdict(),
            "ranks": [_keys(one) for one in self.ranks],
            "operations": [_keys(one) | {"bandwidth": one.bandwidth} for one in self.operations],
        }

    def write_json(self, path: str) -> None:
        """Write the figures to a file. Raises `OSError`."""
        with replacing(path) as file:
            file.write(to_bytes(json.dumps(self.document(), indent=1) + "\n"))

    # --- the verdict --------------------------------------------------------------------------------------------------

    def slow_rank(self) -> Rank | None:
        """Return the rank that keeps the others waiting; None if they do not wait for one in particular."""
        total = sum(one.waited_for for one in self.ranks)
        others = len(self.ranks) - 1
        worst = max(self.ranks, key=lambda one: one.waited_for, default=None)
        if worst is None or not others or self._share("waiting") < SMALL or worst.waited_for < MOST * total:
            return None
        return worst if worst.waited_for / others >= TIMES * worst.waiting else None

    def verdict(self) -> list[str]:
        """Return in sentences where the time goes."""
        in_calls, waiting = self._share("in_calls"), self._share("waiting")
        if not self.operations:
            return ["No rank has called anything while it was recorded."]
        said = [
            f"The ranks spend {in_calls:.0%} of their time in calls: {waiting:.0%} waiting for other ranks, "
            f"{in_calls - waiting:.0%} moving bytes."
        ]
        if in_calls < SMALL:
            return [*said, "It is not communication: look at what the ranks compute between their calls."]
        if slow := self.slow_rank():
            share = slow.waited_for / sum(one.waited_for for one in self.ranks)
            each = slow.waited_for / (len(self.ranks) - 1)
            said.append(
                f"Rank {slow.rank} is slow: each other rank waited {_time(each)} for it, {share:.0%} of all waiting "
                f"for single ranks. It waited {_time(slow.waiting)} itself."
            )
        elif waiting >= in_calls / 2 and waiting >= SMALL:
            said.append("The ranks wait for one another in turn: no rank is slower than the others all the time.")
        if in_calls - waiting >= SMALL and (first := max(self.operations, key=lambda one: one.seconds - one.waiting)):
            moving = sum(one.seconds - one.waiting for one in self.operations)
            said.append(
                f"Of the time that moves bytes, {(first.seconds - first.waiting) / moving:.0%} is in "
                f"{first.operation} of {amount(first.size)} and more."
            )
        return said

    def _share(self, name: str) -> float:
        whole = sum(one.seconds for one in self.ranks)
        return min(sum(getattr(one, name) for one in self.ranks) / whole, 1.0) if whole else 0.0

    # --- tables -------------------------------------------------------------------------------------------------------

    def _rank_table(self) -> list[str]:
        rows = [("rank", "time", "in calls", "waiting", "others waited for it")]
        rows += [
            (
                str(one.rank),
                _time(one.seconds),
                _of(one.in_calls, one.seconds),
                _of(one.waiting, one.seconds),
                _time(one.waited_for),
            )
            for one in self.ranks
        ]
        return aligned(rows, right=range(len(rows[0])))

    def _operation_table(self) -> list[str]:
        rows: list[tuple[str, ...]] = [("operation", "size", "calls", "bytes", "time", "waiting", "bandwidth")]
        shown = self.operations if len(self.operations) <= _ROWS else self.operations[: _ROWS - 1]
        rows += [_row(one.operation, f"{amount(one.size)}+" if one.size else "0 B", one) for one in shown]
        if rest := self.operations[len(shown) :]:
            rows.append(_row(f"{len(rest)} others", "", _sum("", 0, rest)))
        return aligned(rows, right=range(1, len(rows[0])))


def statistics(profiles: Sequence[RankProfile]) -> Statistics:
    """Add up the profiles of all ranks."""
    waited_for: dict[int, int] = defaultdict(int)
    kinds: dict[tuple[str, int], list[Operation]] = defaultdict(list)
    for one in profiles:
        for other, ns in one.waited_for.items():
            waited_for[other] += ns
        for total in one.totals:
            figures = (total.calls, total.bytes, total.ns / 1e9, total.waited / 1e9)
            kinds[total.operation, total.size].append(Operation(total.operation, total.size, *figures))
    ranks = [
        Rank(
            rank=one.rank,
            node=one.node,
            seconds=(one.ended - one.begun) / 1e9,
            in_calls=sum(total.ns for total in one.totals) / 1e9,
            waiting=sum(total.waited for total in one.totals) / 1e9,
            waited_for=waited_for[one.rank] / 1e9,
            dropped=one.dropped,
        )
        for one in profiles
    ]
    operations = [_sum(name, size, those) for (name, size), those in kinds.items()]
    return Statistics(ranks, sorted(operations, key=lambda one: (-one.seconds, one.operation, one.size)))


def _sum(name: str, size: int, those: Iterable[Operation]) -> Operation:
    figures = [(one.calls, one.bytes, one.seconds, one.waiting) for one in those]
    calls, moved, seconds, waiting = map(sum, zip(*figures, strict=True))
    return Operation(name, size, int(calls), int(moved), seconds, waiting)


def _row(name: str, size: str, one: Operation) -> tuple[str, ...]:
    bandwidth = f"{amount(one.bandwidth)}/s" if one.bandwidth else "-"
    return name, size, str(one.calls), amount(one.bytes), _time(one.seconds), _of(one.waiting, one.seconds), bandwidth


def _keys(one: Rank | Operation) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__slots__}


def _of(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "-"


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:.3g} {unit}" if seconds * factor < 1000 else f"{seconds * factor:,.0f} {unit}"
    raise AssertionError


def amount(size: float) -> str:
    """Return a number of bytes as '2.5 KiB'."""
    units = ("B", "KiB", "MiB", "GiB")
    power = min(max(int(size).bit_length() - 1, 0) // 10, len(units) - 1)
    number = size / 1024**power
    return f"{number:.3g} {units[power]}" if number < 1000 else f"{number:,.0f} {units[power]}"
