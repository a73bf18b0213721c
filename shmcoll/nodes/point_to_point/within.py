"""Messages between the ranks of one node: those of one machine, in a group of its own.

A group over nodes has on each node a communicator in which only messages of that group travel, so they meet neither the
calls of algorithms nor the messages of `comm.node`. Everything that `engine/messages` promises holds there: order,
tags, synchronous sends, posted receives, proven deadlocks. Its ranks have other numbers than in the group over nodes:
`posted_receives.py` and `messages.py` translate them on the way in and out, and the texts of errors name the latter.

How its end and that of the group over nodes become one. A rank that ends the group over nodes ends this one, too, with
the same reason (`failures.py`), which wakes the ranks that sleep in native code here. A rank that finds here why this
group has ended, or whose limit passes, asks `Failures.from_messages` for the error to raise. That ends the group over
nodes on all nodes, if this rank is the first.

Why nobody waits forever: as on one machine, and the thread of the node's leader ends this group when another node ends
the group over nodes (`progress.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from shmcoll.communicator.communicator import Communicator
from shmcoll.diagnostics.describe_timeout import with_advice
from shmcoll.engine.memory.group import Group, RankName, names
from shmcoll.engine.messages.buffers import MessageBuffers
from shmcoll.errors import CollectiveTimeout, ShmcollError
from shmcoll.runtime.dispatcher import Dispatcher
from shmcoll.runtime.failure_reporter import FailureReporter
from shmcoll.runtime.local_rank import LocalRank

if TYPE_CHECKING:
    from shmcoll.nodes.mpi.topology import Topology


class Owner(Protocol):
    """The failures of the group over nodes (`failures.py`)."""

    def from_messages(self, operation: str, error: ShmcollError) -> ShmcollError: ...

    def of_messages(self) -> None: ...


@dataclass(frozen=True)
class GroupWithin(Group):
    """The ranks of a group over nodes that are on this node. numbers: their names in that group."""

    numbers: tuple[RankName, ...] = ()

    def name(self, rank: int) -> RankName:
        return self.numbers[rank]

    @property
    def title(self) -> str:
        return f"world {names(number.world for number in self.numbers)}"


class ReporterWithin(FailureReporter):
    """Makes of each error that ends the group that of the group over nodes."""

    def __init__(self, group: Group, words: np.ndarray, rank: int, mail: MessageBuffers):
        super().__init__(group, words, rank, mail)
        self.where = f"rank {self.name}"
        self.owner: Owner | None = None  # of this group, once it is made

    def error(self, operation: str, status: int) -> BaseException:
        found = super().error(operation, status)
        if self.owner is None or self.is_shut or not isinstance(found, ShmcollError):
            return found
        return self.owner.from_messages(operation, found)

    def _timeout(self, text: str, missing: Sequence[int], facts: Any = None) -> ShmcollError:
        """Return the error without the table of the ranks: the group over nodes adds it, and ends this group then."""
        return CollectiveTimeout(with_advice(text) + ".", missing=tuple(missing))


class DispatcherWithin(Dispatcher):
    """Ends the group over nodes when an exception has come out of one of its calls."""

    reporter = ReporterWithin
    failures: ReporterWithin

    def left(self, operation: str) -> None:
        super().left(operation)
        if self.failures.owner is not None:
            self.failures.owner.of_messages()


class Within(Communicator):
    """The messages of the ranks of one node. It makes no collective, so its region has no cells."""

    _dispatcher_type = DispatcherWithin
    _dispatcher: DispatcherWithin


def maker(topology: "Topology", ranks: Sequence[int]) -> Callable[..., Within]:
    """Return what makes the communicator of the ranks on this node of a group over nodes, which has these ranks of the
    job."""
    numbers = tuple(RankName(rank, ranks[rank]) for rank in topology.local)

    def make(local_rank: LocalRank, group: Group, *rest: Any) -> Within:
        return Within(local_rank, GroupWithin(group.arena, group.offset, group.ranks, numbers), *rest)

    return make
