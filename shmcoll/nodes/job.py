"""A job over nodes, as one of its processes knows it: what all its groups share, and how it ends.

The end of a process. A rank whose program ends by an exception tells the other nodes which, at once. At the end of each
process, before MPI's own end, the rank tells the other nodes that it leaves, and withdraws what it has posted: MPICH
aborts at its end if a request is left. A program may end MPI before: MPI deletes the attributes of COMM_SELF first, and
one of them is ours.
"""

import atexit
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from shmcoll.communicator import Communicator
from shmcoll.errors import RankFailed, ShmcollError
from shmcoll.nodes.communicator import NodesCommunicator
from shmcoll.nodes.dispatcher import NodesDispatcher
from shmcoll.nodes.group_watch import OfNodes
from shmcoll.nodes.mpi.progress import not_made
from shmcoll.nodes.mpi.wire import Channel
from shmcoll.nodes.point_to_point.within import maker
from shmcoll.runtime import uncaught
from shmcoll.runtime.group_directory import identity
from shmcoll.runtime.group_search import OfParent, Watch

if TYPE_CHECKING:
    from shmcoll.nodes.mpi.progress import Progress
    from shmcoll.nodes.mpi.topology import Topology
    from shmcoll.nodes.mpi.wire import Wire

_WORLD = 1  # the number of the group of all ranks


class Job:
    """All groups of this process. node: the communicator of all ranks on this node, whose numbers are the indices of
    `topology`. join_again: makes a new job of the ranks of an MPI communicator, and returns its communicator."""

    def __init__(
        self,
        topology: "Topology",
        wire: "Wire",
        progress: "Progress",
        node: Communicator,
        leaders: int,
        join_again: Callable[[Any], Communicator],
    ):
        self.join_again = join_again
        self.topology = topology
        self.wire = wire
        self.progress = progress
        self.node = node
        self._leaders = leaders
        self._number = _WORLD
        self._has_ended = False
        self._pid = os.getpid()
        self.subgroups: dict[tuple[int, tuple[int, ...], str], Communicator] = {}
        watch = OfParent(node._dispatcher.failures, "init", node.timeout)
        self.world = self._open(
            topology, range(topology.size), _WORLD, "world", node, wire.comm if wire.survives else None, watch
        )
        self._open_groups: list[NodesCommunicator] = [self.world]
        node._local_rank.in_words = uncaught.in_words_and_line
        uncaught.tell_of_end(self._failed)
        atexit.register(self._end)
        mpi = wire.mpi
        ending = mpi.Comm.Create_keyval(delete_fn=lambda *_: self._end())
        mpi.COMM_SELF.Set_attr(ending, True)

    def free_number(self) -> int:
        """Return a number that no group of this process has."""
        return self._number + 1

    def take_number(self, number: int) -> None:
        """Note that a group has this number."""
        self._number = max(self._number, number)

    def make(
        self, parent: NodesCommunicator, members: Sequence[int], number: int, call: str, label: str
    ) -> Communicator:
        """Make the group of some ranks of a group, numbered in this order. All of them call it. call: for errors.

        If an error leaves it, the other nodes are told, because their ranks may have the group already.
        """
        d = parent._dispatcher
        try:
            return self._make(parent, members, number, OfNodes(d, call), f"{call} {label}")
        except BaseException as error:
            why = str(error) if isinstance(error, ShmcollError) else "it was interrupted"
            text = f"{d.topology.describe(parent.rank)} left {call} before it had the group: {why}"
            here = set(d.topology.local)
            others = [d.channel.ranks[rank] for rank in members if rank not in here]
            self.wire.tell(others, not_made(number, text, members.index(parent.rank)))
            raise

    def _make(
        self, parent: NodesCommunicator, members: Sequence[int], number: int, watch: Watch, label: str
    ) -> Communicator:
        d = parent._dispatcher
        topology = d.topology.among(members, members.index(parent.rank))
        ranks = [d.channel.ranks[rank] for rank in members]
        if len(topology.nodes) == 1:
            return self._in_node(ranks, number, label, watch)
        own = self._survivable(parent, members, number)
        local = self._in_node([ranks[rank] for rank in topology.local], number, f"{label}, for the user", watch)
        made: Communicator = local
        try:
            made = over_nodes = self._open(topology, ranks, number, f"{ranks}", local, own, watch)
            made.timeout = parent.timeout
            self._open_groups.append(over_nodes)
            return made
        except BaseException as error:
            made._close_because(watch.call, error)
            raise

    def forget(self, comm: NodesCommunicator) -> None:
        """Forget a group that has been closed."""
        self._open_groups = [one for one in self._open_groups if one is not comm]
        self.subgroups = {key: one for key, one in self.subgroups.items() if one is not comm}

    def _survivable(self, parent: NodesCommunicator, members: Sequence[int], number: int) -> Any:
        """Return the MPI communicator of a new group, with which it can be shrunk; None if this MPI cannot."""
        if parent.mpi_comm is None:
            return None
        try:
            return self.wire.among(parent.mpi_comm, members, number)
        except self.wire.mpi.Exception as error:
            name = parent._dispatcher.failures.name
            text = (
                f"a group of ranks {list(members)} cannot be made on rank {name}: a rank has died meanwhile ({error})"
            )
            raise RankFailed(text) from None

    def _open(
        self,
        topology: "Topology",
        ranks: Sequence[int],
        number: int,
        name: str,
        node: Communicator,
        own: Any,
        watch: Watch,
    ) -> NodesCommunicator:
        local = [ranks[rank] for rank in topology.local]
        made: list[Communicator] = []
        try:
            made.append(self._in_node(local, number, "for algorithms", watch))
            how = {"make": maker(topology, ranks), "cells": False}
            made.append(within := self._in_node(local, number, "for messages", watch, **how))
            channel = Channel(self.wire, number, ranks)
            dispatcher = NodesDispatcher(topology, channel, made[0], within, node, self.progress, self._leaders)
            if topology.index == 0:
                self.progress.watch()
            return NodesCommunicator(self, dispatcher, name, own)
        except BaseException as error:
            for one in made:
                one._close_because(watch.call, error)
            raise

    def _in_node(self, ranks: Sequence[int], number: int, label: str, watch: Watch, **how: Any) -> Any:
        """Return a communicator of ranks of the job that are all on this node. how: as for `Communicator._join`."""
        local = tuple(self.topology.places[rank][1] for rank in ranks)
        return self.node._join(local, identity(local, "nodes", str(number), label), watch, awaits=True, **how)

    def _failed(self, error: BaseException) -> None:
        """Tell the other nodes that an exception ends this process."""
        if os.getpid() == self._pid and not uncaught.is_consequence(error):
            self.progress.rank_died(self.wire.rank, f"raised {uncaught.in_words_and_line(error)}")

    def _end(self) -> None:
        """Leave, before MPI ends."""
        if os.getpid() != self._pid or self._has_ended or self.wire.mpi.Is_finalized():
            return
        self._has_ended = True
        for comm in list(self._open_groups):
            comm._dispatcher.far_messages.close()
            comm._dispatcher.agreement.withdraw()
        self.progress.leave()
        self.progress.close()
