"""How a member waits for the leader of a group that is being made, outside of routines.

It looks into the leader's directory (`group_directory.py`), and naps. It also looks at what shows that the leader will
not enter the group, or that the group would be of no use. That depends on the call:

    a collective of the parent   the end of the parent; a member of the parent that has failed, which ends the parent
                                 now; the end of the leader
    `subgroup`                   a member of the new group that has failed; the end of the leader; LEFT in its
                                 directory. The end of the parent shows nothing: survivors may call `subgroup` after it

Why the members agree. In `split` and `dup`, all ranks of the parent make an exchange when the leaders have entered
their groups, in which a leader tells its slot. So a member finds the group at its first look. A leader that leaves the
call in this exchange abandons the group (`group_registry.py`). A member that leaves the call later ends the group,
which it finds in the leader's directory.

Over nodes, the leader waits until each member of its node has joined the group. A member that leaves the call before it
has joined ends the parent. It may not even know which group it would have joined. The leader finds the end of the
parent, and abandons the group. A member that leaves the call later ends the group. So nobody waits in a group for a
member that has left the call.

The leader of a subgroup does not wait: members may call in any order. A member that has left `subgroup` before it has
joined, and lives, is one that has not called it yet.

Why nobody waits forever: a member joins or leaves the call, which ends the parent; the leader enters the group or LEFT,
or ends the parent; or a process ends. Else the limit passes.
"""

import time
from typing import Protocol

from shmcoll.diagnostics.describe_timeout import timed_out
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.errors import CollectiveTimeout, RankFailed
from shmcoll.runtime import waiting
from shmcoll.runtime.failure_reporter import FailureReporter
from shmcoll.runtime.group_directory import Identity, entered
from shmcoll.runtime.group_registry import has_joined


class Watch(Protocol):
    """The signs that a rank looks at while it waits for a group.

    call: the call that makes the group. limit: seconds of a wait. is_joint: whether all members are in the call.
    """

    call: str
    limit: float
    is_joint: bool

    def look(self) -> None:
        """Raise why the group will not be made."""

    def lost(self, leader: int, how: str) -> BaseException:
        """Return the error for a leader that has ended without the group. leader: its rank in the world."""

    def late(self, world: int, what: str) -> BaseException:
        """Return the error for a rank of the world that has not done something within the limit."""


def find(
    arena: Arena,
    ranks: tuple[int, ...],
    which: Identity,
    me: int,
    watch: Watch,
    *,
    cells: bool = True,
    slot: int | None = None,
) -> Group:
    """Return the group that its leader, ranks[0], has entered or will enter. me: this rank of the world, for messages.
    cells: as in `GroupRegistry.lead`. slot: where, if the leader has told that. LOOKING must count the call.

    Raises what the watch raises, and `ArenaError` if the leader had no memory for the group.
    """
    leader, pauses = ranks[0], None
    purpose = f"{watch.call} of world ranks {list(ranks)} on world rank {me}"
    how = ""
    while True:
        # Read after `how`: a leader that has ended enters nothing
        group = entered(arena, leader, which, purpose, cells=cells, slot=slot)
        if group:
            return group
        if how:
            watch.look()  # a failure because of which the leader may have ended
            raise watch.lost(leader, how)
        pauses = pauses or _Pauses(arena, watch)
        pauses.make(leader, "leads the new group, and has not made it")
        how = records.how_ended(arena, leader)


def await_members(group: Group, watch: Watch) -> None:
    """Wait until all members have joined the group. Raises what the watch raises."""
    pauses = _Pauses(group.arena, watch)
    for rank, world in enumerate(group.ranks):
        while not has_joined(group, rank):
            pauses.make(world, "has not joined the new group")


class _Pauses:
    """Between two looks: what the watch looks at now and then, and a nap."""

    def __init__(self, arena: Arena, watch: Watch):
        self._limit, self._watch = waiting.Limit(arena, watch.limit), watch
        self._nap, self._look_at = 1e-5, 0.0

    def make(self, world: int, what: str) -> None:
        """Raise what the watch raises, or if the limit has passed. world, what: see `Watch.late`."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + waiting.SLICE
            self._watch.look()
        if self._limit.has_passed():
            raise self._watch.late(world, what)
        time.sleep(self._nap)
        self._nap = min(2 * self._nap, waiting.NAP)


class OfParent:
    """The watch of a collective of a parent."""

    def __init__(self, failures: FailureReporter, call: str, limit: float):
        self._failures, self.call, self.limit, self.is_joint = failures, call, limit, True

    def look(self) -> None:
        self._failures.look(self.call)

    def lost(self, leader: int, _how: str) -> BaseException:
        return self._failures.lost(self.call, leader)

    def late(self, world: int, what: str) -> BaseException:
        return self._failures.late(self.call, self.limit, world, what)


class OfMembers:
    """The watch of `subgroup`. ranks: of the new group. me: this rank; all of them are ranks of the world."""

    def __init__(self, arena: Arena, ranks: tuple[int, ...], me: int, limit: float):
        self.call, self.limit, self.is_joint = "subgroup", limit, False
        self._arena, self._ranks = arena, ranks
        self._purpose = f"subgroup of world ranks {list(ranks)} on world rank {me}"

    def look(self) -> None:
        for rank, world in enumerate(self._ranks):
            if how := records.how_failed(self._arena, world):
                raise (
                    self._failed(rank, f"world rank {world} {how}") if rank else self.lost(world, f"rank {world} {how}")
                )

    def lost(self, leader: int, how: str) -> BaseException:
        return self._failed(0, f"world {how}; it leads that group, and never made it")

    def late(self, world: int, _what: str) -> BaseException:
        from shmcoll.diagnostics.explain_wait import explained

        what = (
            f"world rank {world}, which leads the group, has not called subgroup with the same ranks (and closed the "
            f"one before as often)"
        )
        text = timed_out(self._purpose, self.limit, what)
        return explained(CollectiveTimeout(text, operation="subgroup", missing=(0,)), self._arena)

    def _failed(self, rank: int, text: str) -> RankFailed:
        return RankFailed(f"{self._purpose}: {text}", operation="subgroup", rank=rank)  # of the group that is made
