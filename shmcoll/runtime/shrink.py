"""How the survivors of a group agree on who they are.

The first rank of the old group, in its order, that has entered a new group under the identity of this shrinking has
decided: its members are those whose end it did not know of. Every survivor asks the ranks in that order, itself too:

    a rank that has entered a group    its group is the one
    a rank that has ended without      the next rank is asked
    a rank that lives                  it is waited for
    itself                             it makes the group and enters it (`group_registry.py`)

Why all come to the same: a survivor goes past a rank only after it has looked whether that rank entered a group, having
known before that it has ended; a process that has ended enters nothing any more. So if one survivor follows rank r, all
ranks before r have ended without a group, and nobody can stop before r, or go past it. The region stays, because it is
given back only when all its members, whoever asks among them, have let go or ended.

Why nobody waits for ever: a rank that is waited for lives, and has `timeout` seconds to call.
"""

import time

from shmcoll.engine.memory import records
from shmcoll.engine.memory.group import Group, RankName
from shmcoll.errors import CollectiveTimeout, RankFailed
from shmcoll.runtime.group_registry import Identity, entered, has_closed

_NAP = 0.001  # seconds


def check_ended(group: Group, me: int) -> None:
    """Raise `ValueError` while no failure has ended the group. `me`: this rank of the world, for the message."""
    if not group.has_ended() and not any(records.how_ended(group.arena, rank) for rank in group.ranks):
        raise ValueError(
            f"shrink on rank {_name(group, me)}: no rank has failed; use split or subgroup for a part of the ranks"
        )
    group.abort()


def decided_before(group: Group, which: Identity, me: int, timeout: float) -> Group | None:
    """Return the group that a rank before this one has decided upon; None when it is this one's turn.

    Cost: one look at each rank before the first survivor.
    """
    end = time.monotonic() + timeout
    for rank in group.ranks[: group.ranks.index(me)]:
        decided = _await(group, rank, which, me, end)
        if decided and me not in decided.ranks:
            text = f"rank {_name(group, rank)} took this rank for dead, and left it out"
            raise RankFailed(f"shrink on rank {_name(group, me)}: {text}", operation="shrink")
        if decided:
            return decided
    return None


def living(group: Group) -> tuple[int, ...]:
    """Return ranks of the world that belong to the group, and have neither ended nor closed it."""
    return tuple(rank for i, rank in enumerate(group.ranks) if not has_closed(group, i))


def _await(group: Group, rank: int, which: Identity, me: int, end: float) -> Group | None:
    """Return what a rank has decided; None when it has ended, or closed the old group, without."""
    place = group.ranks.index(rank)
    while True:
        gone = has_closed(group, place)  # before we look: afterwards it enters nothing
        decided = entered(group.arena, rank, which, f"shrink on rank {_name(group, me)}")
        if decided or gone:
            return decided
        if time.monotonic() > end:
            from shmcoll.diagnostics.hang_report import explained

            late = f"rank {_name(group, rank)} lives and did not call shrink in time; all survivors must"
            text = f"shrink on rank {_name(group, me)}: {late}"
            raise explained(CollectiveTimeout(text, operation="shrink", missing=(place,)), group.arena)
        time.sleep(_NAP)


def _name(group: Group, world: int) -> RankName:
    """Return a rank of the world, by its name in the group."""
    return group.name(group.ranks.index(world))
