"""The hang report for people: a table that shows where every rank is, with the ranks' stacks, and a sentence about the
rank that keeps the others waiting.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from shmcoll.diagnostics.rank_status import (
    ABSENT,
    ENDED,
    GONE,
    STOPPED,
    UNSEEN,
    RankStatus,
    process_state,
    standings,
    unseen,
)
from shmcoll.diagnostics.stack_client import ask
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import names
from shmcoll.engine.system.text import aligned

PATIENCE = 1.0  # seconds: shorter waits are usual
STACKS_PATIENCE = 0.3  # seconds that a rank that gives up waits for the stacks of the others

_DOING = {"R": "running", "S": "sleeping", "D": "waiting for a disk or a device"}


def look(
    arena: Arena, *, stacks: bool, limit: float = 1.0, pids: Mapping[int, int] | None = None
) -> tuple[list[RankStatus], dict[int, list[str]]]:
    """Return the status of every rank, and their stacks.

    stacks: ask the ranks for their stacks, for `limit` seconds at most. pids: the pids of ranks that have not joined,
    as far as they are known.
    """
    pids = pids or {}
    found = [replace(s, pid=s.pid or pids.get(s.rank, 0)) for s in standings(arena)]
    return found, stacks_of(found, limit) if stacks else {}


def report(found: list[RankStatus], below: dict[int, list[str]], patience: float = PATIENCE) -> str:
    """Return the table as text, and the sentence below it. patience: shorter waits do not count."""
    return f"{table(found, below)}\n{verdict(found, patience)}"


def has_waits(found: list[RankStatus], patience: float = 0.0) -> bool:
    """Return whether a rank has waited for another one for so many seconds."""
    return bool(_waiting(found, patience))


def table(
    found: list[RankStatus],
    below: dict[int, list[str]] | None = None,
    more: Mapping[str, Mapping[int, str]] = MappingProxyType({}),
) -> str:
    """Return one line per rank. below: lines to print under that of a rank. more: columns of numbers, by their title
    and rank."""
    rows = [("rank", "pid", "state", "for", *more, "where", "waits for")]
    for s in found:
        age = f"{s.since:.1f} s" if s.flight or s.message else ""
        added = (column.get(s.rank, "-") for column in more.values())
        rows.append((str(s.rank), str(s.pid or "-"), s.state, age, *added, s.place, ", ".join(map(str, s.blames))))
    right = (0, 1, *range(3, 4 + len(more)))
    if any(s.node for s in found):
        nodes = ["node", *(s.node for s in found)]
        rows = [(*row[:2], node, *row[2:]) for row, node in zip(rows, nodes, strict=True)]
        right = (0, 1, *range(4, 5 + len(more)))
    title, *lines = aligned(rows, right=right)
    told = [title]
    for s, line in zip(found, lines, strict=True):
        told += [line, *(f"{'':6}{frame}" for frame in (below or {}).get(s.rank, []))]
    return "\n".join(told)


def verdict(found: list[RankStatus], patience: float = PATIENCE) -> str:
    """Return which ranks keep others waiting, and what is known of them: one sentence for each. Waits of up to
    `patience` s do not count."""
    waiting, blamed = _waiting(found, patience), culprits(found, patience)
    if not waiting:
        return f"No rank has waited for another for more than {patience:g} s."
    if not blamed:
        circle = "; ".join(f"rank {s.rank} {s.place} for {names(s.blames)}{s.mail}" for s in waiting.values())
        where = "" if any(s.message for s in waiting.values()) else " in different groups"
        longest = max(s.since for s in waiting.values())
        return f"{names(waiting).capitalize()} wait for one another{where}, for {longest:.1f} s: {circle}."
    by_rank = {s.rank: s for s in found}
    return " ".join(
        _accusation(by_rank.get(rank) or unseen(rank), [waiting[r] for r in ranks])
        for rank, ranks in sorted(blamed.items())
    )


def culprits(found: list[RankStatus], patience: float = PATIENCE) -> dict[int, list[int]]:
    """Return which ranks keep others waiting, and which others. Ranks that wait for one another in a circle of groups
    are left out."""
    waiting, blamed = _waiting(found, patience), dict[int, list[int]]()
    for rank in waiting:
        for culprit in _roots(rank, waiting):
            blamed.setdefault(culprit, []).append(rank)
    return blamed


def _waiting(found: list[RankStatus], patience: float) -> dict[int, RankStatus]:
    return {s.rank: s for s in found if s.blames and s.state != STOPPED and s.since >= patience}


def _roots(rank: int, waiting: dict[int, RankStatus]) -> set[int]:
    """Return the ranks at the ends of the chains of waits, across groups. A chain that is a circle has no end."""
    seen, ends, follow = {rank}, set(), list(waiting[rank].blames)
    while follow:
        one = follow.pop()
        if one in seen:
            continue
        seen.add(one)
        if one in waiting:
            follow += waiting[one].blames
        else:
            ends.add(one)
    return ends


def _accusation(culprit: RankStatus, waiting: list[RankStatus]) -> str:
    keeps = f"Rank {culprit.label} keeps {names(s.rank for s in waiting)} waiting"
    longest = max(waiting, key=lambda s: s.since)
    direct = [s for s in waiting if culprit.rank in s.blames]
    what = max(direct or waiting, key=lambda s: s.since)
    does = f"has {'' if what.arrived else 'not '}arrived at {what.operation}"
    does += ", but does not continue" if what.arrived else ""
    if what.message:
        does = "does not continue receiving" if what.sends else "has sent nothing for"
        does += f" {what.operation} of rank {what.rank}{what.mail}"
    return f"{keeps}, for {longest.since:.1f} s: it {does}; {_whereabouts(culprit)}."


def _whereabouts(culprit: RankStatus) -> str:
    pid = culprit.pid
    if culprit.state == UNSEEN:
        return "it cannot be seen from this machine"
    if culprit.state == STOPPED:
        return f"its process is stopped (kill -CONT {pid} continues it)"
    if culprit.state == GONE:
        return f"its process {pid} has ended"
    if culprit.state == ABSENT:
        return "it has not joined the job (shmcoll.init) yet"
    if culprit.state == ENDED:
        return "it has left the job"
    doing = _DOING.get(process_state(pid), "alive")
    if culprit.message:
        return f"it is {culprit.place}, and {doing}"
    if culprit.flight is None:
        return f"it has called nothing yet, and is {doing}"
    if culprit.flight.flying:
        return f"it is {culprit.place}, and {doing}"
    return f"it is {doing}; its last call was {culprit.operation}, {culprit.since:.1f} s ago"


def stacks_of(found: list[RankStatus], limit: float = 1.0) -> dict[int, list[str]]:
    """Ask the ranks that may still run for their stacks, for `limit` seconds at most; lines by rank."""
    return ask({s.rank: (s.pid, s.start) for s in found if s.pid and s.state not in (ENDED, GONE)}, limit)
