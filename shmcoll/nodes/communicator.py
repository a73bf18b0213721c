"""The communicator over nodes. It has the methods of every other one; what differs is below.

Many calls have native entries of this room (`native/`). All others leave the arguments to `calls/`, which check them
and call the dispatcher of this room: their methods find the entry that answers that Python goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

from shmcoll.communicator.communicator import Communicator, name_methods
from shmcoll.communicator.native_call import unrouted
from shmcoll.communicator.object_rows import Rows
from shmcoll.communicator.objects import Parts, new_calls
from shmcoll.engine import context as c
from shmcoll.errors import CallNotAllowed, RankFailed
from shmcoll.nodes import clocks, groups, survivors
from shmcoll.nodes.dispatcher import NodesDispatcher
from shmcoll.nodes.messages import NodesMessages
from shmcoll.nodes.shared_results import NodesSharedResults

if TYPE_CHECKING:
    from shmcoll.communicator.types import Array, DTypeLike, Shape


class NodesCommunicator(NodesSharedResults, NodesMessages):
    """A group of ranks on several machines. `shmcoll.init()` returns that of all ranks, if there are several.

    Within a node the ranks share memory; between nodes MPI carries the messages. Arrays in shared memory, `views` and
    `shmcoll.jit` work within a node: on `comm.node`.
    """

    _title = "a communicator over nodes"
    _dispatcher: Any  # `NodesDispatcher`, which has what the methods use

    def __init__(self, job: Any, dispatcher: NodesDispatcher, name: str, mpi_comm: Any):
        self.mpi_comm = mpi_comm  # of these ranks, to shrink the group; None if this MPI cannot
        self.shrinking: Future[Any] | None = None  # which has MPI's communicator of the survivors (`survivors.py`)
        self._job = job  # `job.Job`, which makes the communicators
        self._name = name
        self._local_rank = dispatcher.local_rank
        self._splits = self._shrinks = 0
        self._composite = {}
        self._object_calls = new_calls()
        self._open(dispatcher)  # type: ignore[arg-type]
        self._within = dispatcher.within
        self._closing = threading.RLock()
        self._is_closed = False

    def __repr__(self) -> str:
        nodes = len(self._dispatcher.topology.nodes)
        return f"<shmcoll.Communicator {self._name} over {nodes} nodes: rank {self._rank} of {self._size}>"

    @property
    def nodes(self) -> tuple[tuple[int, ...], ...]:
        """The ranks of each node, in the order of the lowest ranks of the nodes."""
        nodes: tuple[tuple[int, ...], ...] = self._dispatcher.topology.nodes
        return tuple(tuple(sorted(ranks)) for ranks in nodes)

    @property
    def node(self) -> Communicator:
        """The communicator of this group's ranks on this rank's node."""
        node: Communicator = self._dispatcher.node
        return node

    @property
    def leaders(self) -> int:
        """How many ranks of each node send and receive a long array."""
        leaders: int = self._dispatcher.leaders
        return leaders

    @property
    def timeout(self) -> float:
        """The limit of one wait, in seconds; see `Communicator.timeout`."""
        seconds: float = self._dispatcher.timeout
        return seconds

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        inner = self._dispatcher.inner
        inner.timeout = seconds  # which checks it
        self._dispatcher.timeout = float(seconds)

    @property
    def handle(self) -> NoReturn:
        """Not between nodes: jitted code works within a node."""
        raise self._only_within("handle", "shmcoll.jit works within a node: pass comm.node.handle")

    def abort(self, text: str) -> None:
        """End the group on all nodes; see `Communicator.abort`."""
        self._dispatcher.check_open("abort")
        who = self._dispatcher.topology.describe(self._rank)
        self._dispatcher.failures.end(RankFailed, f"{who} aborted: {text}", rank=self._rank)

    def empty(self, shape: Shape, dtype: DTypeLike = "float64") -> NoReturn:
        """Not between nodes: shared arrays are in the memory of one node."""
        raise self._only_within("empty", "shared arrays are in the memory of one node: use comm.node.empty")

    def zeros(self, shape: Shape, dtype: DTypeLike = "float64") -> NoReturn:
        """Not between nodes: shared arrays are in the memory of one node."""
        raise self._only_within("zeros", "shared arrays are in the memory of one node: use comm.node.zeros")

    def full(self, shape: Shape, value: Any, dtype: DTypeLike | None = None) -> NoReturn:
        """Not between nodes: shared arrays are in the memory of one node."""
        raise self._only_within("full", "shared arrays are in the memory of one node: use comm.node.full")

    def views(self, x: Array) -> NoReturn:
        """Not between nodes: a rank sees the memory of its node only."""
        raise self._only_within("views", "a rank sees the memory of its node: use comm.node.views")

    # --- groups -------------------------------------------------------------------------------------------------------

    def _split(self, call: str, mine: tuple[bool, int, int], *, messages: bool = False) -> Communicator | None:
        return groups.split(self, call, mine)

    def subgroup(self, ranks: Iterable[SupportsIndex], *, name: str = "") -> Communicator:
        """Return the group of some ranks of this group; see `Communicator.subgroup`."""
        return groups.subgroup(self, ranks, name)

    def shrink(self) -> Communicator:
        """Return the group of the ranks that are left, after a failure has ended this one.

        Every survivor of this group calls it, under Open MPI with `mpiexec --with-ft ulfm`. See `Communicator.shrink`.

        Raises:
            ValueError: no rank has failed.
            CallNotAllowed: this rank has closed the group.
            NotImplementedError: this MPI does not go on after a failure.
            RankFailed: another rank has died meanwhile. You can call it again.
            CollectiveTimeout: a rank that lives has not called it within `timeout`. You can call it again.
        """
        return survivors.shrink(self)

    def close(self) -> None:
        """Leave the group; see `Communicator.close`."""
        groups.close(self)

    def _is_world(self) -> bool:
        return self is self._job.world

    def _difference_of_clocks(self) -> tuple[int, int]:
        return clocks.difference(self)

    # --- how ----------------------------------------------------------------------------------------------------------

    def _load(self, name: str) -> Callable[..., int]:
        entry: Callable[..., int] = self._dispatcher.native_entry(name)
        setattr(self, f"_{name}", entry)
        return entry

    def _again(self, operation: str, status: int, call: Callable[..., Any], *arguments: Any) -> Any:
        return self._dispatcher.perform(operation, status, call, arguments)

    def _parts(self, call: str, root: int = -1) -> Parts:
        if ("", -1) not in self._composite:
            self._composite["", -1] = NodesParts(self._dispatcher, self._dispatcher)
        return self._composite["", -1]

    def _only_within(self, operation: str, advice: str) -> CallNotAllowed:
        return CallNotAllowed(f"{operation} on rank {self._rank}: this communicator has several nodes; {advice}")


class NodesParts(Parts):
    """The collectives of a group over nodes as parts of a composite call."""

    def _left_by(self, error: BaseException) -> None:
        is_harmless = isinstance(error, CallNotAllowed) or getattr(error, "is_common", False)
        if not is_harmless:
            self._dispatcher.left("a composite call")

    def _load(self, name: str) -> Callable[..., int]:
        setattr(self, f"_{name}", unrouted)
        return unrouted

    def _row_entry(self, collective: str) -> tuple[Callable[..., int], int]:
        return unrouted, 0

    def _move_rows(self, collective: str, entry: Callable[..., int], rows: Rows, root: int) -> int:
        x, out, *_ = rows.arguments
        if x is None:
            row = self.broadcast(None, root) if collective == "broadcast" else self.scatter(None, root)
            out[0, : row.size] = row.reshape(-1)
        elif collective == "broadcast":
            self.broadcast(x, root)
        elif collective == "scatter":
            self.scatter(x, root, out=out)
        elif collective == "all_gather":
            self.all_gather(x, out=out)
        else:
            self.all_to_all(x, out=out)
        return c.GOES_ON if rows.say_more() else c.OK


name_methods(NodesCommunicator)
