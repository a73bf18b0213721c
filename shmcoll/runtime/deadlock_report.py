"""The report of ranks that wait for one another in a circle: see `engine/protocol/deadlock.py`.

The rank that finds the circle writes why the group ends. Only the ranks themselves know their lines. So each rank of
the circle, once its wait has ended, notes its call as a site, and waits for the sites of the others. Nobody waits for
long: a rank that does not arrive, because its process is stopped, is quoted from its mailbox, without a line.
"""

import time
from collections.abc import Mapping, Sequence

from shmcoll.diagnostics.describe_call import called, message_in_words
from shmcoll.engine import layout
from shmcoll.engine.memory import records
from shmcoll.engine.memory.group import Group
from shmcoll.runtime import waiting

_PLACE = -1  # of the site of a receive, in place of the number of a collective


def circle(group: Group, rank: int) -> list[int]:
    """Return the ranks that a rank has followed to itself, each before its source, the lowest first; empty if the
    mailboxes do not say so."""
    found = [rank]
    while len(found) <= group.size:
        following = source(group, found[-1])
        if following == rank:
            first = found.index(min(found))
            return found[first:] + found[:first]
        if not 0 <= following < group.size:
            break
        found.append(following)
    return []


def source(group: Group, rank: int) -> int:
    """Return the rank that a rank waits for, or has waited for last in its sleep."""
    return group.arena.load(group.mailbox(rank) + layout.RECEIVES_FROM)


def note_call(group: Group, rank: int, call: str) -> None:
    """Note the call of this rank, with its line."""
    records.note_site(group, rank, _PLACE, call)


def calls(group: Group, ranks: Sequence[int], patience: float) -> dict[int, str]:
    """Return the call of each of these ranks, which have `patience` seconds to note it."""
    end = time.monotonic() + patience
    while True:
        noted = {rank: records.site(group, rank, _PLACE) for rank in ranks}
        if None not in noted.values() or time.monotonic() >= end:
            return {rank: call or _in_mailbox(group, rank) for rank, call in noted.items()}
        time.sleep(waiting.SOON)


def in_words(group: Group, calls: Mapping[int, str]) -> str:
    """Return the sentence for the ranks of a circle and their calls."""
    each = "; ".join(f"rank {group.name(rank)} in {call}" for rank, call in calls.items())
    return (
        f"{group.names(calls)} wait for one another: {each}; nothing that they wait for is on its way. One of them "
        f"must send first, or post its receive (async_op=True), or use sendrecv"
    )


def _in_mailbox(group: Group, rank: int) -> str:
    if not group.arena.load(group.mailbox(rank) + layout.MESSAGE):
        return called(group, rank, group.published(rank))
    tag = group.arena.load(group.mailbox(rank) + layout.MESSAGE_TAG)
    return message_in_words(group, "recv", source(group, rank), tag)
