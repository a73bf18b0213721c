"""What the ranks of a node look at while they wait for their part of a group over nodes; see `runtime/group_search.py`.

The call is one of a group over nodes, the parent. A rank of the node that leaves it ends the parent, in its node before
it does anything else, or dies.
"""

import time
from typing import TYPE_CHECKING

from shmcoll.errors import CollectiveTimeout, RankFailed, ShmcollError

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher


class OfNodes:
    """The watch of a call of a group over nodes that makes another one."""

    def __init__(self, dispatcher: "NodesDispatcher", call: str):
        self._dispatcher = dispatcher
        self.call, self.limit, self.is_joint = call, dispatcher.timeout, True

    def look(self) -> None:
        d = self._dispatcher
        d.progress.look()
        d.progress.look_at_lives(d.failures, [], time.monotonic())
        d.failures.raise_if_ended(self.call)

    def lost(self, leader: int, _how: str) -> BaseException:
        return self._ended(RankFailed, leader, "left the job without taking part: its process has ended")

    def late(self, world: int, what: str) -> BaseException:
        return self._ended(CollectiveTimeout, world, f"{what} within {self.limit:g} s")

    def _ended(self, kind: type[ShmcollError], local: int, what: str) -> BaseException:
        """Return why the parent has ended, or end it because of a rank of this node, by its number in the arena."""
        d = self._dispatcher
        try:
            self.look()
            rank = d.channel.ranks.index(d.progress.world_rank(local))
            d.failures.end(kind, f"{self.call}: {d.topology.describe(rank)} {what}", rank=rank, missing=[rank])
            d.failures.raise_if_ended(self.call)
        except ShmcollError as error:
            return error
        return RankFailed(self.call)  # not reached
