"""The communicator: a group of ranks, and its subgroups. It inherits more methods from `collectives.py`, `objects.py`,
`messages.py`, `shared_memory.py` and other files of this room."""

from __future__ import annotations

import contextlib
import inspect
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self, SupportsIndex

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls import delivery
from shmcoll.communicator import graph, jit_handle, plans
from shmcoll.communicator.collectives import Collectives
from shmcoll.communicator.graph import Graph
from shmcoll.communicator.graph_links import as_links
from shmcoll.communicator.grid import Grid
from shmcoll.communicator.object_reductions import ObjectReductions
from shmcoll.communicator.objects import Parts, new_calls
from shmcoll.communicator.plans import Plan
from shmcoll.communicator.shared_memory import SharedMemory
from shmcoll.communicator.two_way_messages import TwoWayMessages
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory import records
from shmcoll.engine.memory.group import Group, RankName
from shmcoll.errors import ArenaError, CallNotAllowed, RankFailed, ShmcollError
from shmcoll.runtime import shrink
from shmcoll.runtime.dispatcher import Dispatcher
from shmcoll.runtime.group_directory import WORLD, Identity, entered, identity, refusal, refusal_word
from shmcoll.runtime.group_registry import has_joined
from shmcoll.runtime.group_search import OfMembers, OfParent, Watch, await_members, find
from shmcoll.runtime.local_rank import LocalRank
from shmcoll.runtime.process_bound import ProcessBound

if TYPE_CHECKING:
    from shmcoll.communicator.tracing import Trace
    from shmcoll.communicator.types import Array, Shape
    from shmcoll.profiling.statistics import Statistics


class Communicator(ProcessBound, SharedMemory, ObjectReductions, TwoWayMessages, Collectives):
    """A group of ranks that call collectives together. `shmcoll.init()` returns the group of all ranks.

    Every method is a collective unless its description says otherwise: all ranks of the group call it, in the same
    order, with the same shape, dtype and arguments. Arrays may have any memory layout. A result is a new C-contiguous
    numpy array unless `out` is passed, which is then written and returned. `out` may also be an array of another
    library, if it shows its memory by DLPack, the array interface or the buffer protocol. All algorithms of a
    collective give the same bits.

    With `async_op=True` a method returns a `Work` at once. Leave the arrays alone until it is done.

    Errors of every method: `TypeError`, `ValueError` and `IndexError` report a mistake of this rank. They are raised
    before anything is sent, and the call may be repeated. `CollectiveMismatch`, `RankFailed` and `CollectiveTimeout`
    end the group: every later call on it raises the cause again. `CallNotAllowed` is raised if no call can be made: on
    a closed communicator, in a fork of the rank, in a signal handler that has interrupted another call, or in a
    collective while another thread of the rank is in one. Threads that make collectives at the same time use
    communicators of their own: see `dup`.
    """

    _title, _instead = "a communicator", "call shmcoll.init() in the function that uses it"
    _dispatcher_type = Dispatcher

    def __init__(
        self, local_rank: LocalRank, group: Group, name: str, which: Identity = WORLD, subgroup_name: str = ""
    ):
        self._name = name
        self._local_rank = local_rank
        self._identity = which
        self._subgroup_name = subgroup_name
        self._splits = self._shrinks = 0
        self._messages: Communicator | None = None  # the group of its messages: see `_for_messages`
        self._composite = {}
        self._object_calls = new_calls()
        self._open(self._dispatcher_type(local_rank, group, group.ranks.index(local_rank.rank)))
        self._closing = threading.RLock()
        self._is_closed = False
        local_rank.communicators[which] = self  # last: an interrupt before leaves nothing behind

    def __repr__(self) -> str:
        return f"<shmcoll.Communicator {self._name}: rank {self._rank} of {self._size}>"

    @property
    def ranks(self) -> list[int]:
        """The ranks of the group, as they are numbered in the group of all ranks."""
        return list(self._dispatcher.group.ranks)

    @property
    def name(self) -> str:
        """The name of the group in messages: "world", or its ranks."""
        return self._name

    @property
    def launcher(self) -> str:
        """The program that started this process, such as "shmrun" or "torchrun"; "none" for a job of one rank."""
        return self._local_rank.launcher

    @property
    def nodes(self) -> tuple[tuple[int, ...], ...]:
        """The ranks of each machine. A group on one machine has one node; see `shmcoll.from_mpi`."""
        return (tuple(range(self._size)),)

    @property
    def node(self) -> Communicator:
        """The communicator of the ranks on this rank's machine: this one, if all ranks are on one machine."""
        return self

    @property
    def timeout(self) -> float:
        """The limit of one wait, in seconds. It can be set, from 1e-6 to 1e9.

        A rank that waits longer for another one raises `CollectiveTimeout`. The default is 300 (SHMCOLL_TIMEOUT,
        `shmrun --wait-timeout`).
        """
        return float(self._dispatcher.timeout)

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float, np.integer, np.floating)):
            raise TypeError(f"timeout must be a positive number of seconds, got {seconds!r}")
        if not 1e-6 <= seconds <= 1e9:
            raise ValueError(f"timeout must be a positive number of seconds, from 1e-6 to 1e9, got {seconds!r}")
        self._dispatcher.failures.note_limit()
        self._dispatcher.words[c.TIMEOUT // WORD] = int(seconds * 1e9)

    @property
    def handle(self) -> Array:
        """This communicator for jitted code: the first argument of the functions of `shmcoll.jit`."""
        return jit_handle.make(self)

    def abort(self, text: str) -> None:
        """End the group. Not a collective.

        Pending and later calls of every rank raise `RankFailed`.

        Args:
            text: the reason; the `RankFailed` quotes it.

        Raises:
            CallNotAllowed: the communicator is closed.
        """
        if self._dispatcher.failures.is_shut:  # this is false in a fork of the rank, which has its own memory
            self._dispatcher.check_open("abort")
        records.end(
            self._dispatcher.group,
            self._rank,
            records.ABORTED,
            f"rank {self._dispatcher.failures.name} aborted: {text}",
        )
        self._dispatcher.words[c.ACTIVE // WORD] = c.ENDED

    def plan(self, operation: str, *args: Any, **keywords: Any) -> Plan:
        """Prepare a call that is to be made many times on the same arrays. Not a collective.

        The arguments are checked once, now. Each call of the plan uses what the arrays contain at that time, with the
        counts and displacements given here.

        Args:
            operation: the name of a collective of arrays, or "send", "recv" or "sendrecv".
            args: what the method takes. The arrays must be numpy arrays that can be used in place.
            keywords: what the method takes, except `async_op`. Without `out` the result is one array, made now. A rank
                that receives blocks of unequal length, or a message, passes `out`.

        Returns:
            A `Plan`: `plan()` makes the call and returns the result; `plan.start()` returns a `Work`. With
            `shared=True` all ranks make plans, and the result that they share is made by the first call.

        Raises:
            TypeError: the method does not take these arguments.
            ValueError: there is no plan of this operation, an array would be copied, or only the call finds out the
                size of the result and `out` is missing.

        Example:
            >>> x, y = np.ones(4), np.empty(4)
            >>> plan = comm.plan("all_reduce", x, out=y)
            >>> plan() is y
            True
        """
        return plans.make(self, operation, args, keywords)

    def trace(self, file: str | os.PathLike[str] | None = None) -> AbstractContextManager[Trace]:
        """Record the calls of all ranks while the block runs. A collective, at the begin and at the end of the block.

        All calls of these ranks are recorded, those of other communicators as well, until a rank leaves the block: the
        last 65,536 of each rank. A call costs 20 to 80 ns more meanwhile. If the block raises an exception, no file is
        written.

        Args:
            file: rank 0 writes the timeline there, in the Trace Event format, which Perfetto (ui.perfetto.dev) and
                chrome://tracing open. A name that ends in .gz is that of a compressed file. None: no file.

        Returns:
            A context manager. It yields an object with `statistics` and `write(file)`, on rank 0 from the end of the
            block on.

        Raises:
            ArenaError: on all ranks, there is no memory for what is recorded.
            OSError: on all ranks, rank 0 cannot write the file.
            TypeError: `file` is not a path.
            ValueError: on all ranks, the name of rank 0 has a null byte.

        Example:
            >>> with comm.trace() as trace:
            ...     total = comm.all_reduce(np.ones(3))
            >>> [one.calls for one in trace.statistics.operations if comm.rank == 0] in ([], [comm.size])
            True
        """
        from shmcoll.communicator import tracing  # late: most programs record nothing, and it takes a while to import

        return tracing.recorded(self, file)

    def _difference_of_clocks(self) -> tuple[int, int]:
        """Return what to add to this rank's times for the clock of rank 0, and by how many ns that may be wrong."""
        return 0, 0

    def statistics(self) -> Statistics:
        """Return where the time of this rank's node goes, since its ranks began to record. Not a collective.

        Returns:
            For each operation and class of size how often it was called, how many bytes, how long, and how much of that
            was spent waiting for other ranks; for each rank how long the others waited for it. `print` shows tables and
            a verdict, `document()` returns figures.

        Raises:
            CallNotAllowed: nothing is recorded. Start the job with `shmrun --stats` or SHMCOLL_STATS=1.
        """
        from shmcoll.communicator import tracing

        return tracing.statistics_of(self)

    def grid(self, dims: Shape, periods: bool | Sequence[bool] = False) -> Grid:
        """Arrange the ranks as a Cartesian grid, to exchange halos with neighbours. Not a collective.

        Args:
            dims: the number of ranks along each axis, as a sequence or one number. Numbers given as 0 are chosen as
                close to each other as possible, as MPI_Dims_create does. A group of one rank may have no axes, `()`.
            periods: whether an axis is closed to a ring, for all axes or for each.

        Returns:
            A `Grid`. Its ranks are numbered as by MPI_Cart_create: the last coordinate varies fastest.

        Raises:
            ValueError: the product of `dims` is not the number of ranks.
            TypeError: `dims` has an entry that is not an integer.
        """
        return Grid(self, dims, periods)

    def graph(
        self, sources: Sequence[SupportsIndex | None], destinations: Sequence[SupportsIndex | None] | None = None
    ) -> Graph:
        """Connect the ranks as a graph, for collectives of neighbours.

        Each rank names the ranks that it receives from, and those that it sends to, in any order. A rank may name
        itself, and another rank more than once.

        Args:
            sources: ranks of this group; None for no rank.
            destinations: ranks of this group; None for no rank. By default the sources.

        Returns:
            A `Graph`. It has its own group: its messages never match those of this communicator.

        Raises:
            ArenaError: on all ranks, there is no memory for the group.
            TypeError: an argument is not a sequence of integers.
            ValueError: a rank does not exist. Or, on all ranks, a rank names another one as a destination, which does
                not name it as a source as many times.

        Example:
            >>> after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
            >>> with comm.graph(sources=[before], destinations=[after]) as ring:
            ...     ring.all_gather([comm.rank]).tolist() == [before]
            True
        """
        with self._dispatcher.checking("graph") as check:
            incoming = as_links(sources, "sources", self._size, *check)
            outgoing = incoming if destinations is None else as_links(destinations, "destinations", self._size, *check)
        return graph.make(self, incoming, outgoing)

    # --- groups -------------------------------------------------------------------------------------------------------

    def split(self, color: int | None, key: int = 0) -> Communicator | None:
        """Divide the group: the ranks that pass the same `color` form a new group.

        Args:
            color: any integer; None for a rank that joins no new group.
            key: ranks of a new group are numbered by their keys, and by their rank in this group where keys are equal.

        Returns:
            The communicator of the new group; None if the color is None.

        Raises:
            ArenaError: on all ranks, there is no memory for the group of a color. No group is made.
            TypeError: color or key is not an integer.

        Example:
            >>> half = comm.split(comm.rank % 2)
            >>> half.ranks == [rank for rank in range(comm.size) if rank % 2 == comm.rank % 2]
            True
        """
        with self._dispatcher.checking("split") as check:
            number = 0 if color is None else given.as_word(color, "color", *check)
            mine = (color is not None, number, given.as_word(key, "key", *check))
        return self._split("split", mine)

    def dup(self) -> Communicator:
        """Return a new communicator of the same ranks in the same order.

        Operations and messages on one never interfere with those on the other. So a library can call collectives beside
        its caller's without knowing of them, and threads can make collectives at the same time, each with its own
        communicator.

        Raises:
            ArenaError: on all ranks, there is no memory for the group.

        Example:
            >>> with comm.dup() as own:
            ...     own.ranks == comm.ranks
            True
        """
        made = self._split("dup", (True, 0, self._rank))
        assert made is not None
        return made

    def _split(self, call: str, mine: tuple[bool, int, int], *, messages: bool = False) -> Communicator | None:
        """Return the group of the ranks of one color. mine: whether this rank joins a group, its color and its key.
        messages: whether it gets a group for messages, too, which its `_for_messages` returns."""
        self._local_rank.check_not_within(call)
        watch = OfParent(self._dispatcher.failures, call, self.timeout)
        ranks: tuple[int, ...] = ()
        new: list[Identity] = []  # of the groups: the one that is returned, and that of its messages
        led: list[Group] = []
        made: list[Communicator] = []
        groups = self._local_rank.groups

        def make(parts: Parts) -> None:
            nonlocal ranks
            members = self._members(parts, call, mine)
            self._splits += 1
            if mine[0]:
                ranks = tuple(self._dispatcher.group.ranks[rank] for rank in members)
                new.append(identity(ranks, "split", self._identity, self._splits))
                if messages:
                    new.append(identity(ranks, "messages", new[0]))
            found, slots = None, [0, 0]  # the error of a leader that has no memory; what it tells: 1 + slot, or why
            if new and members[0] == self._rank:
                try:
                    with self._local_rank.lock:
                        led.extend(groups.lead(ranks, which, cells=i == 0) for i, which in enumerate(new))
                    slots = [1 + groups.slot_of(group) for group in led] + slots
                except ArenaError as error:
                    if not getattr(error, "is_common", False):
                        raise
                    found, slots = error, [refusal_word(error)] * 2
            # Dimensions unlike those of the first part: see `composite_calls.py`
            told = parts.all_gather(np.array(slots[:2])).tolist()
            if min(told) < 0:
                leader = next(i for i, word in enumerate(told) if word < 0) // 2
                who = f"{call} on rank {self._dispatcher.failures.name}: {self._dispatcher.group.names([leader])}"
                raise found or refusal(who, told[2 * leader])
            for i, which in enumerate(new):
                slot = told[2 * members[0] + i] - 1
                made.append(self._joined(ranks, which, watch, cells=i == 0, slot=slot, led=led[i] if led else None))
            if len(made) > 1:
                made[0]._pair_with(made[1])

        try:
            self._compose(call, make)
            return made[0] if made else None
        except BaseException as error:
            for which in new:
                self._abandon(ranks, which, watch, error)
            raise

    def _members(self, parts: Parts, call: str, mine: tuple[bool, int, int]) -> list[int]:
        """Return the ranks of the color of this one, in their new order. Those of a `dup` are known."""
        if call == "dup":
            return list(range(self._size))
        told = parts.all_gather(np.array([mine], np.int64)).tolist()
        members = [rank for rank in range(self._size) if mine[0] and told[rank][:2] == [1, mine[1]]]
        return sorted(members, key=lambda rank: told[rank][2])

    def _close_because(self, call: str, error: BaseException) -> None:
        """Leave a group because an error ends the call that has made it. Other ranks may wait in the group already:
        they learn why."""
        self.abort(f"{call}: {str(error) or type(error).__name__}")
        self.close()

    def subgroup(self, ranks: Iterable[SupportsIndex], *, name: str = "") -> Communicator:
        """Return the group of some ranks of this group. Only its members call it.

        Ranks are numbered in the order that they have in this group. The same ranks in the same order, with the same
        name, give the same communicator until this rank closes it. Waits for the member with the lowest rank, up to
        `timeout`.

        Args:
            ranks: ranks of this group, this rank among them.
            name: groups of the same ranks with different names are different groups: their operations never interfere.

        Returns:
            The communicator of these ranks.

        Raises:
            ArenaError: on all members, there is no memory for the group.
            RankFailed: the member with the lowest rank has failed.
            CollectiveTimeout: the member with the lowest rank has not called it.
            TypeError: `ranks` is not a sequence of integers, or `name` is not a string.
            ValueError: a rank does not exist or is named twice, or this rank is not among them.

        Example:
            >>> if comm.rank % 2 == 0:
            ...     even = comm.subgroup(range(0, comm.size, 2))
            ...     even.barrier()
            ...     even.close()
        """
        with self._dispatcher.checking("subgroup") as check:
            if not isinstance(ranks, (Iterable, np.ndarray)) or isinstance(ranks, str):
                raise TypeError(
                    f"subgroup on rank {check[1]}: ranks must be a sequence of ranks, got {type(ranks).__name__}"
                )
            if not isinstance(name, str):
                raise TypeError(f"subgroup on rank {check[1]}: name must be a string, got {type(name).__name__}")
            members = sorted(given.as_peer(rank, "rank", self._size, *check) for rank in ranks)
            if self._rank not in members or len(set(members)) != len(members):
                raise ValueError(
                    f"subgroup on rank {check[1]}: ranks {members} must be different and hold this rank; "
                    f"only members call it"
                )
        return self._of_members(members, name)

    def _of_members(self, members: Sequence[int], name: str) -> Communicator:
        """Return the group of some ranks of this group, numbered in this order. See `subgroup`."""
        self._dispatcher.check_rank("subgroup")
        self._local_rank.check_not_within("subgroup")
        arena, rank = self._local_rank.arena, self._local_rank.rank
        world = tuple(self._dispatcher.group.ranks[rank] for rank in members)
        which = identity(world, "subgroup", name, self._local_rank.closes[world, name])
        self._local_rank.subgroups.add(which)
        return self._join(world, which, OfMembers(arena, world, rank, self.timeout), name)

    def _for_messages(self) -> Communicator:
        """Return a group of the same ranks for messages alone, so that they pass the asynchronous collectives of this
        one. What ends one group ends both. All ranks call it once. They leave both if it fails."""
        if self._messages:
            return self._messages
        ranks, local_rank = self._dispatcher.group.ranks, self._local_rank
        watch = OfMembers(local_rank.arena, ranks, local_rank.rank, self.timeout)
        try:
            made = self._join(ranks, identity(ranks, "messages", self._identity), watch, cells=False)
            self._pair_with(made)
            return made
        except BaseException as error:
            if not self._stays_open():
                self._close_because("the group of its messages", error)
            raise

    def _pair_with(self, messages: Communicator) -> None:
        """Have what ends one of these two groups end both. messages: that of the messages of this one."""
        self._messages, mine, theirs = messages, self._dispatcher.failures, messages._dispatcher.failures
        mine.partner, theirs.partner, theirs.where = theirs, mine, mine.where

    def shrink(self) -> Communicator:
        """Return the group of the ranks that are left, after a failure has ended this one. Every survivor calls it.

        Ranks keep their relative order. Ranks that have closed this group are not members. A rank that dies while
        `shrink` runs may still be a member; the first collective of the new group then raises `RankFailed`, and you can
        shrink that group.

        Under `shmrun --on-failure continue` and `shmcoll.run(..., on_failure="continue")` survivors have as much time
        as they want. Otherwise the launcher ends them soon after the failure.

        Returns:
            The communicator of the survivors.

        Raises:
            ValueError: this group has not ended.
            ArenaError: on all survivors, there is no memory for the group.
            CollectiveTimeout: a rank, which the text names, has not called it within `timeout`. You can call it again.
        """
        local_rank = self._local_rank
        self._dispatcher.check_open("shrink")
        with self._dispatcher.checking("shrink"):
            shrink.check_ended(self._dispatcher.group, local_rank.rank)
        which = identity(self._dispatcher.group.ranks, "shrink", self._identity, self._shrinks + 1)
        try:
            group = shrink.decided_before(self._dispatcher.group, which, local_rank.rank, self.timeout)
            local_rank.check_not_within("shrink")
            with local_rank.lock:
                self._dispatcher.check_open("shrink")  # another thread may have closed it meanwhile
                if which not in local_rank.communicators:
                    group = group or local_rank.groups.lead(shrink.living(self._dispatcher.group), which)
                    Communicator(local_rank, group, f"{list(group.ranks)}", which)
                made: Communicator = local_rank.communicators[which]
        except ArenaError:
            self._shrinks += 1  # valid for all survivors: they try again under another identity
            raise
        self._shrinks += 1  # not before a group is decided: a rank that has timed out tries again for the same group
        return made

    def close(self) -> None:
        """Leave the group. Not a collective.

        Its memory is freed when all members have left it; the memory of a communicator that is never closed is freed at
        the end of the job. Pending asynchronous work, and calls of other threads, are completed first. Posted receives
        whose messages have not arrived are withdrawn: at once if none can arrive any more, else after 3 s; stderr
        reports which. Ranks that wait for this rank, or call it afterwards, get `RankFailed`. Calling `close` again has
        no effect.

        Raises:
            ValueError: this is the group of all ranks, which the end of the process closes.
            CallNotAllowed: a signal handler or finaliser calls it during another call of its thread.
        """
        if self._stays_open():
            raise ValueError("close: the group of all ranks is closed by the end of the process; leave this call out")
        local_rank = self._local_rank
        if self._is_closed or local_rank.pid != os.getpid():
            return  # before the lock, which may be locked forever in a fork of the rank
        local_rank.check_not_within("close")
        if self._closing._is_owned():  # type: ignore[attr-defined]
            raise CallNotAllowed(
                f"close on rank {local_rank.rank}: called by a signal handler or finaliser during another close"
            )
        with self._closing:  # without `member.lock`, because this may take long; another thread may close it, too
            if self._is_closed:
                return
            delivery.has_pending(self._dispatcher)  # what has been received ends well
            self._dispatcher.finish()
            with local_rank.lock:
                self._is_closed = True
                local_rank.forget(self._identity)
                local_rank.count_close(self._dispatcher.group.ranks, self._subgroup_name, self._identity)
                local_rank.groups.leave(self._dispatcher.group, self._rank, self._dispatcher.buffers.drop_all())
            local_rank.leave_if_unused()

    def __enter__(self) -> Self:
        """Return the communicator itself: at the end of a `with` block it is closed. The group of all ranks stays open.

        Example:
            >>> with comm.split(comm.rank % 2) as half:
            ...     half.barrier()
        """
        self._dispatcher.check_open("with")
        return self

    def __exit__(self, *_: object) -> None:
        if not self._stays_open():
            self.close()

    def _stays_open(self) -> bool:
        return self._is_world() and not self._local_rank.is_beside

    def _is_world(self) -> bool:
        return self._dispatcher.group.offset == self._local_rank.arena.world

    def _join(
        self, ranks: tuple[int, ...], which: Identity, watch: Watch, name: str = "", *, awaits: bool = False, **how: Any
    ) -> Communicator:
        """Return the communicator of a group that this rank belongs to, made by the first of its ranks. After an error
        the group is abandoned. awaits: whether the leader waits until all members have joined. Others: as for
        `_joined`."""
        try:
            made = self._joined(ranks, which, watch, name, **how)
            if made._rank == 0 and awaits:
                await_members(made._dispatcher.group, watch)
            return made
        except BaseException as error:
            if not getattr(error, "is_common", False):
                self._abandon(ranks, which, watch, error)
            # Unless the group exists, or has been refused, this rank may look for it again
            if self._local_rank.rank == ranks[0] or isinstance(error, (ArenaError, RankFailed)):
                self._local_rank.count_close(ranks, name, which)
            raise

    def _joined(
        self,
        ranks: tuple[int, ...],
        which: Identity,
        watch: Watch,
        name: str = "",
        *,
        make: Callable[..., Communicator] | None = None,
        cells: bool = True,
        slot: int | None = None,
        led: Group | None = None,
    ) -> Communicator:
        """Do the same; the caller abandons the group after an error. watch: see `group_search.py`. name: that of a
        subgroup. make: makes the communicator, by default `Communicator`. cells: whether it makes collectives. slot: as
        for `find`. led: the group, which this rank has led already."""
        make, local_rank = make or Communicator, self._local_rank
        local_rank.check_not_within(watch.call)
        known: dict[Identity, Communicator] = local_rank.communicators
        if which not in known:
            with local_rank.looking():
                group = led
                if local_rank.rank != ranks[0]:
                    group = find(local_rank.arena, ranks, which, local_rank.rank, watch, cells=cells, slot=slot)
                with local_rank.lock:
                    if which not in known:  # another thread may have made it meanwhile
                        group = group or local_rank.groups.lead(ranks, which, cells=cells)
                        make(local_rank, group, f"{list(ranks)}", which, name)
        return known[which]

    def _abandon(self, ranks: tuple[int, ...], which: Identity, watch: Watch, error: BaseException) -> None:
        """Leave a group because an error leaves the call that makes it."""
        local_rank, group = self._local_rank, None
        me, why = ranks.index(local_rank.rank), f": {error}" if isinstance(error, ShmcollError) else " by an interrupt"
        text = f"rank {RankName(me, local_rank.rank)} left {watch.call}{why}"
        with local_rank.looking(), local_rank.lock:
            if which in local_rank.communicators:
                local_rank.communicators[which]._dispatcher.abandon()
                local_rank.forget(which)
            if me != 0:
                with contextlib.suppress(ShmcollError):
                    group = entered(local_rank.arena, ranks[0], which, watch.call, cells=False)
                if group and not watch.is_joint and not has_joined(group, me):
                    group = None  # this rank may call again
            local_rank.groups.abandon(group, me, which, text, leaves=not watch.is_joint)


def name_methods(kind: type) -> None:
    """Have Python's own errors about arguments name `Communicator`, and not the class that defines a method, which
    users do not know."""
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_"):
            method.__qualname__ = inspect.unwrap(method).__qualname__ = f"Communicator.{name}"
            if getattr(Communicator, name, None) is method:
                method.__module__ = __name__  # where pickle finds it by that name


name_methods(Communicator)
