"""How the survivors of a group agree which ranks survive.

The decision. One rank decides: in the order of the old group, the first one that has entered a new group under the
identity of this call of `shrink`. The members of that group are the ranks whose end it did not know of. Every survivor
checks the ranks in that order, itself included:

    a rank that has entered a group    its group is the new one
    a rank that ended before that      the next rank is checked
    a rank that lives                  the survivor waits for it
    itself                             the survivor makes the group and enters it (`group_registry.py`)

Why all survivors find the same group. A survivor goes past a rank in two steps: it finds that the rank has ended, and
then it finds no group of that rank. A process that has ended enters nothing any more. So if one survivor takes the
group of rank r, all ranks before r have ended without a group, and no survivor can stop before r or go past it. The
region of the group stays there, because it is given back only when each of its members has let go or ended. A member
that still looks for it has done neither.

Why no survivor waits forever. It waits only for ranks that live, and for `timeout` seconds in all.
"""

import time

from shmcoll.diagnostics.describe_timeout import timed_out
from shmcoll.engine.memory import records
from shmcoll.engine.memory.group import Group, RankName
from shmcoll.errors import CollectiveTimeout, RankFailed
from shmcoll.runtime import waiting
from shmcoll.runtime.group_directory import Identity, entered
from shmcoll.runtime.group_registry import has_closed


def check_ended(group: Group, me: int) -> None:
    """Raise `ValueError` if no failure has ended the group. me: this rank of the world, for the message."""
    if not group.has_ended() and not any(records.how_ended(group.arena, rank) for rank in group.ranks):
        raise ValueError(
            f"shrink on rank {_name(group, me)}: no rank has failed; use split or subgroup for a part of the ranks"
        )
    group.abort()


def decided_before(group: Group, which: Identity, me: int, timeout: float) -> Group | None:
    """Return the group of a rank before this one, or of this rank, if its call has been interrupted before; None if
    this rank has to make the group.

    Cost: one check of each rank before the first survivor.
    """
    limit = waiting.Limit(group.arena, timeout)
    for rank in group.ranks[: group.ranks.index(me)]:
        decided = _await(group, rank, which, me, limit)
        if decided and me not in decided.ranks:
            text = f"rank {_name(group, rank)} took this rank for dead, and left it out"
            raise RankFailed(f"shrink on rank {_name(group, me)}: {text}", operation="shrink")
        if decided:
            return decided
    return entered(group.arena, me, which, f"shrink on rank {_name(group, me)}")


def living(group: Group) -> tuple[int, ...]:
    """Return the ranks of the world that belong to the group, and have neither ended nor closed it."""
    return tuple(rank for i, rank in enumerate(group.ranks) if not has_closed(group, i))


def _await(group: Group, rank: int, which: Identity, me: int, limit: waiting.Limit) -> Group | None:
    """Return the group that a rank has entered; None if it has ended, or closed the old group, without entering one."""
    place = group.ranks.index(rank)
    while True:
        gone = has_closed(group, place)  # checked first: afterwards the rank enters nothing
        decided = entered(group.arena, rank, which, f"shrink on rank {_name(group, me)}")
        if decided or gone:
            return decided
        if limit.has_passed():
            from shmcoll.diagnostics.explain_wait import explained

            late = f"rank {_name(group, rank)} lives and has not called shrink; all survivors must"
            text = timed_out(f"shrink on rank {_name(group, me)}", limit.seconds, late)
            raise explained(CollectiveTimeout(text, operation="shrink", missing=(place,)), group.arena)
        time.sleep(waiting.NAP)


def _name(group: Group, world: int) -> RankName:
    """Return the name in the group of a rank of the world."""
    return group.name(group.ranks.index(world))
