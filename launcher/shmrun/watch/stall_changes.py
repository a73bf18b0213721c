"""What has changed between two lines about a stall: of the ranks that wait, and of those for which they wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shmcoll.diagnostics.rank_status import RankStatus

_SHOWN = 4  # most changes in a line
_SEVERAL = {"has": "have", "is": "are"}


@dataclass(frozen=True)
class Seen:
    """What a line was about. progress: how far each rank is within its collective. places: the lines of the program at
    which the ranks are that were asked."""

    ranks: list[RankStatus]
    progress: dict[int, int]
    places: dict[int, str]


def since_last(before: Seen | None, now: Seen) -> str:
    """Return ' Since the last line, rank 2 has ended.'; empty if there was no line before."""
    if before is None:
        return ""
    from shmcoll.engine.memory.group import names

    told: dict[str, list[int]] = {}
    for old, new in zip(before.ranks, now.ranks, strict=True):
        if change := _change(old, new) or _movement(old.rank, before, now):
            told.setdefault(change, []).append(new.rank)
    if not told:
        return " Nothing has changed since the last line."
    changes = [f"{names(ranks)} {_of(len(ranks), change)}" for change, ranks in told.items()]
    more = f", and {len(changes) - _SHOWN} other changes" if len(changes) > _SHOWN else ""
    return f" Since the last line, {', '.join(changes[:_SHOWN])}{more}."


def _change(old: RankStatus, new: RankStatus) -> str:
    from shmcoll.diagnostics.rank_status import ABSENT, ENDED, GONE, STOPPED

    if old.state != new.state:
        if new.state in (ENDED, GONE):
            return "has ended"
        if new.state == STOPPED:
            return "has been stopped"
        if old.state == ABSENT:
            return "has joined the job"
    if (old.operation, old.group) != (new.operation, new.group) or bool(old.blames) != bool(new.blames):
        return f"has come to {new.operation}" if new.blames else f"is now {new.place}"
    if old.mail != new.mail:
        return "has been sent other messages"
    if old.state == STOPPED != new.state:
        return "has been continued"
    return ""


def _movement(rank: int, before: Seen, now: Seen) -> str:
    if before.progress.get(rank) != now.progress.get(rank):
        return "has gone on in its call"
    old, new = before.places.get(rank), now.places.get(rank)
    return f"has moved from {old} to {new}" if old and new and old != new else ""


def _of(count: int, change: str) -> str:
    """Return the verb for one rank or several."""
    verb, _, rest = change.partition(" ")
    return change if count == 1 else f"{_SEVERAL[verb]} {rest}"
