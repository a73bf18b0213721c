"""From a checked call to native code over nodes. It has the methods of `runtime/dispatcher.py` that `calls/` use.

`calls/` check the arguments of every call, and pass them to `run`, or in phases to `routine` and `complete`, in the
form of the native entry, which makes the call (`native/collectives.py`). It works in three places: `inner`, a
communicator of the group's ranks on this node that only the algorithms use; `channel`, MPI; and this process. There are
two more communicators of the same ranks: `node`, for the user, and `within`, for messages of this group.

A group over nodes has a line of turns and a worker of its own (`runtime/turns.py`), so its calls are made one after the
other, and asynchronous ones in the order in which they were submitted. Inside a turn no other call of this group uses
`inner`. An exception that comes out of a call has left the protocol, so it ends the group on all nodes, except
one that all ranks raise together: `ValueError` about what the ranks find together, as in `agreement.py`.
"""

import os
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll import calls
from shmcoll.collectives import RECORDS
from shmcoll.communicator.native_call import unrouted
from shmcoll.diagnostics.call_site import at_site
from shmcoll.engine import context as c
from shmcoll.engine.collective import REDUCING
from shmcoll.engine.compiler.user_operators import of_kernel
from shmcoll.engine.kernels.dtypes import BY_NUMPY, REDUCTIONS, USER, DType
from shmcoll.engine.layout import TABLE_SIZES, WORD
from shmcoll.engine.memory.group import Group, RankName, names
from shmcoll.engine.memory.node_words import CallRecorder
from shmcoll.engine.native import entry, tables
from shmcoll.engine.system.switches import is_on
from shmcoll.errors import CallNotAllowed, InternalError, RankFailed, ShmcollError
from shmcoll.nodes.agreement import Agreement
from shmcoll.nodes.algorithms import halos
from shmcoll.nodes.algorithms.collectives import FUNCTIONS
from shmcoll.nodes.algorithms.staging import FORMS
from shmcoll.nodes.mpi import waiting
from shmcoll.nodes.mpi.failures import Failures
from shmcoll.nodes.opening.layout import WIDE_KERNEL
from shmcoll.nodes.point_to_point.far_messages import FarMessages
from shmcoll.nodes.point_to_point.message_entries import ELSEWHERE, MESSAGES, make_callable
from shmcoll.nodes.point_to_point.posted_receives import PostedReceives
from shmcoll.profiling.recorder import Recorder
from shmcoll.runtime.async_worker import AsyncWorker
from shmcoll.runtime.dispatcher import Calls

if TYPE_CHECKING:
    from shmcoll.communicator import Communicator
    from shmcoll.nodes.mpi.progress import Progress
    from shmcoll.nodes.mpi.topology import Topology
    from shmcoll.nodes.mpi.wire import Channel, Pending
    from shmcoll.nodes.point_to_point.within import Within


class NodesGroup:
    """A group over nodes, as the files beside this one and `runtime/` name its ranks."""

    def __init__(self, inner: Group, index: int, ranks: tuple[int, ...]):
        self._inner, self._index = inner, index
        self.ranks = ranks

    @property
    def size(self) -> int:
        return len(self.ranks)

    def name(self, rank: int) -> RankName:
        """Return the name of a rank of the group, for messages."""
        return RankName(rank, self.ranks[rank])

    def names(self, ranks: Any) -> str:
        """Return the names of some of its ranks, for messages."""
        return names(self.name(rank) for rank in ranks)

    @property
    def title(self) -> str:
        """The members, for messages."""
        return f"world {names(self.ranks)}"

    def has_ended(self) -> bool:
        return self._inner.has_ended()

    def ring_one(self, _rank: int) -> None:
        """Post this rank's doorbell."""
        self._inner.ring_one(self._index)


class NodesDispatcher(Calls):
    """Makes the calls of one group over nodes. leaders: how many ranks of a node talk to others about a long array."""

    def __init__(
        self,
        topology: "Topology",
        channel: "Channel",
        inner: "Communicator",
        within: "Within",
        node: "Communicator",
        progress: "Progress",
        leaders: int,
    ):
        self.topology = topology
        self.channel = channel
        self.inner = inner
        self.within = within
        self.node = node
        self.progress = progress
        self.rank, self.size = topology.rank, topology.size
        self.leaders = max(1, min(leaders, topology.smallest))
        self.is_leader = topology.index == 0
        self.local_rank = inner._local_rank
        self.group = NodesGroup(inner._dispatcher.group, inner.rank, channel.ranks)
        self.words = tables.new_context(self.size)
        self.own_table = self.words.ctypes.data + tables.OWN_TABLE
        self.own_ends = memoryview(self.words)[tables.OWN_TABLE // WORD + TABLE_SIZES * self.size :]  # type: ignore[arg-type]
        self.words[c.RANK // WORD], self.words[c.SIZE // WORD] = self.rank, self.size
        self.failures = Failures(topology, channel, inner, within, self.group.name(self.rank), self.words)
        # The turns and the worker need of a group what `NodesGroup` has
        self.worker = AsyncWorker(self.words, self.group, self.rank, self.failures)  # type: ignore[arg-type]
        self.recorder = CallRecorder(inner._dispatcher.group, inner.rank, channel.number, channel.ranks[0])
        self.agreement = Agreement(self)
        self.far_messages = FarMessages(self)
        self.posted = PostedReceives(self, self.far_messages)
        self._indices = {rank: index for index, rank in enumerate(topology.local)}
        self.checks_buffers = is_on("SHMCOLL_CHECK")
        self._profiles = []
        inner._dispatcher.outer = self
        inner._dispatcher.record_by(self.local_rank.recorder)
        self._timeout = inner.timeout
        self.timeout = inner.timeout
        self.operation = ""
        self._routines: dict[str, Callable[..., int]] = {}
        self._kernels: dict[tuple[int, int], int] = {}  # by code of the dtype and number of the reduction
        for comm in (inner, within) if progress.crowded else ():
            comm._dispatcher.words[c.POLLS // WORD] = 0
            comm._dispatcher.words[c.YIELDS // WORD] = waiting.YIELDS_IN_NODE
        progress.add(channel.number, self.failures)
        os.register_at_fork(after_in_child=_shut_in_child(self))

    # --- what `calls/` use --------------------------------------------------------------------------------------------

    def kernel(self, dtype: DType, reduction: str, number: int) -> int:
        """Return the address of the kernel for a dtype and a reduction. From now on native code finds it by itself, and
        that for partial results."""
        key = dtype.code, number
        if key not in self._kernels:
            self._kernels[key] = address = self.inner._dispatcher.kernel(dtype, reduction, number)
            self.words[tables.kernel_slot(dtype.code, number)] = address
            wide, name = BY_NUMPY[dtype.accumulator], "sum" if reduction == "avg" else reduction
            if (wide, name) != (dtype, reduction):
                self.kernel(wide, name, REDUCTIONS[name])
        return self._kernels[key]

    def routine(self, name: str) -> Callable[..., int]:
        """Return what takes the arguments of the native entry of a collective, and returns its status."""
        if name in MESSAGES:  # their native entries are for messages within the node
            return unrouted
        if name not in self._routines:
            self._routines[name] = self._make_routine(name)
        return self._routines[name]

    def native_entry(self, name: str) -> Callable[..., int]:
        """Return the entry of a collective or of messages, which leaves to Python what it does not make."""
        if name in MESSAGES:
            self.within._dispatcher.routine(name)
            indices = [self._indices.get(rank, ELSEWHERE) for rank in range(self.size)]
            address = self.agreement.state.functions[name]
            words = self.within._dispatcher.words
            return make_callable(name, address, words, self.far_messages.native.words, indices) or unrouted
        if name not in FUNCTIONS or not entry.FAST:
            return unrouted
        return self.agreement.state.entry(name, self.words)

    def perform(self, operation: str, status: int, call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Make a call that native code has not made, or report why it has failed."""
        if status == c.NOT_ALONE:
            raise self.failures.error(operation, status)
        if status in (c.MISMATCH, c.REFUSED, c.RAISED, c.UNREADABLE):
            return self.complete(operation, lambda: status)
        return calls.perform(call, self, arguments)  # type: ignore[arg-type]

    def run(self, operation: str, *arguments: Any) -> None:
        """Make a call with the arguments of the native entry."""
        if self.complete(operation, self.routine(operation), arguments) == c.NEEDS_PYTHON:
            raise InternalError(f"{operation} on rank {self.failures.name}: native code does not make this call")

    def complete(
        self, operation: str, call: Callable[..., int], arguments: tuple[Any, ...] = (), status: int = c.BUSY
    ) -> int:
        """Make a call in its turn, and return its status. status: the first answer of its entry."""
        status = status if status == c.NOT_ALONE else self._in_turn(operation, call, arguments)
        if status == c.NOT_ALONE:
            raise self.failures.error(operation, status)
        return status

    def _in_turn(self, operation: str, call: Callable[..., int], arguments: tuple[Any, ...] = ()) -> int:
        turns = self.worker.turns
        if turns.is_mine():
            return self._guarded(operation, call, arguments)
        self.check_open(operation)
        done: int = turns.run(lambda: self._guarded(operation, call, arguments), operation)
        return done

    def left(self, operation: str) -> None:
        """End the group on all nodes, because an exception has come out of one of its calls."""
        self.agreement.keep_memory()
        where = f"{self.topology.describe(self.rank)} was interrupted in {operation}{at_site()}"
        self.failures.end(RankFailed, where, rank=self.rank)
        self.far_messages.sends.let_arrays_leave()

    def check_outside(self, operation: str) -> None:
        """Raise if a call of this thread is inside already."""
        if self.worker.turns.is_within():
            raise CallNotAllowed(
                f"{operation} on rank {self.failures.name}: called by a signal handler, or a finaliser, in the midst "
                f"of another call of the same thread"
            )

    def check_open(self, operation: str) -> None:
        """Raise if no call is possible any more."""
        super().check_open(operation)
        self.channel.wire.check_open()

    def record_by(self, recorder: Recorder | None) -> None:
        """Have calls recorded from now on, or not any more."""
        if recorder:
            self.profile = recorder.attach_over_nodes(self.channel.number, tuple(self.channel.ranks), self.words)
            self._profiles.append(self.profile)
        else:
            self.profile = None
            self.words[c.PROFILE // WORD] = 0

    def finish(self) -> None:
        """Complete what is pending, and refuse further calls."""
        self.check_outside("close")
        self.worker.finish()
        self.far_messages.close()
        self.worker.turns.drain()
        self.failures.shut()
        self.agreement.withdraw()
        self.recorder.close()

    @property
    def timeout(self) -> float:
        """The limit of one wait, in seconds."""
        return self._timeout

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        # A rank waits for its leader while that waits for a late rank of this node, and then for another node. So the
        # leader's limit passes first, and its error names the node
        self._timeout = self.failures.timeout = seconds
        self.inner.timeout = seconds if len(self.topology.nodes) == 1 else min(2 * seconds + 5, 1e9)
        self.within.timeout = seconds

    def index_here(self, rank: int) -> int | None:
        """Return the index in its node of a rank of this node; None for a rank of another node, and for ANY."""
        return self._indices.get(rank)

    # --- what the algorithms use --------------------------------------------------------------------------------------

    def wait(self, pending: "Pending") -> None:
        """Wait until sends and receives of this operation are complete."""
        self.progress.wait(self.failures, pending, self.operation, self.timeout)

    # --- how ----------------------------------------------------------------------------------------------------------

    def _make_routine(self, name: str) -> Callable[..., int]:
        if name == "halo_exchange":
            call: Callable[..., int] = partial(halos.exchange, self, name)
        elif name in FUNCTIONS:
            call = self.agreement.state.entry(name, self.words)
        else:
            raise CallNotAllowed(f"{name}: there is no such operation between nodes; use comm.node.{name}")
        if name in FORMS:
            call = partial(FORMS[name], call, self.size)
        is_reducing = bool(RECORDS[name].form & REDUCING)

        def routine(*arguments: Any) -> int:
            if is_reducing:
                self._find_wide_kernel(*arguments)
            while (status := call(*arguments)) == c.BUSY and self.words.item(c.ACTIVE // WORD) != c.ENDED:
                time.sleep(1e-4)
            return status

        def in_turn(*arguments: Any) -> int:
            if self.operation and self.worker.turns.is_mine():  # inside `_guarded`
                return routine(*arguments)
            return self._in_turn(name, routine, arguments)

        return in_turn

    def _reported(self, operation: str, status: int) -> int:
        """Return the status of a native call, or raise what it has found."""
        if status == c.BUSY:  # the group has ended meanwhile
            self.failures.raise_if_ended(operation)
        if status not in (c.OK, c.HALFWAY, c.NEEDS_PYTHON, c.NOT_ALONE):
            self.agreement.report(operation, status)
        return status

    def _find_wide_kernel(self, operand: np.ndarray, _: Any, kind: int, *words: int) -> None:
        """Let native code find the kernel of a user's function for partial results, if these have another dtype."""
        known = BY_NUMPY[operand.dtype]
        if kind == USER and known.accumulator != known.numpy:
            self.agreement.state.words[WIDE_KERNEL // WORD] = of_kernel(words[3]).kernel(BY_NUMPY[known.accumulator])

    def _guarded(self, operation: str, call: Callable[..., int], arguments: tuple[Any, ...]) -> int:
        """Make a call within this thread's turn."""
        outer, self.operation = self.operation, self.operation or operation
        try:
            if not outer:
                self._await_native_call()
            self.failures.raise_if_ended(self.operation)
            status = self._reported(operation, call(*arguments))
            self.agreement.note_line()
            return status
        except CallNotAllowed:
            raise
        except ValueError as error:
            if not getattr(error, "is_common", False):
                self.left(operation)
            raise
        except ShmcollError as error:
            self.agreement.keep_memory()
            if not self.failures.has_raised(error):
                self.failures.raise_if_ended(self.operation)  # also what the node's group has found
                self.left(operation)
            raise
        except BaseException:
            self.left(operation)
            raise
        finally:
            self.operation = outer
            if not outer:
                self.recorder.end()

    def _await_native_call(self) -> None:
        """Wait until the native call of another thread has ended, which began before this thread had its turn."""
        while self.words.item(c.ACTIVE // WORD) not in (0, c.ENDED):
            time.sleep(1e-4)


def _shut_in_child(dispatcher: NodesDispatcher) -> Callable[[], None]:
    known = weakref.ref(dispatcher)

    def shut() -> None:
        if (found := known()) is not None:
            found.shut()

    return shut
