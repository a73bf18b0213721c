"""What a user calls: a group of ranks, its subgroups, shared arrays. More of it in `collectives.py`, `objects.py` and
`messages.py`."""

import os
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.communicator import jit_handle, plans, shared_arrays
from shmcoll.communicator.grid import Grid
from shmcoll.communicator.messages import Messages
from shmcoll.communicator.objects import Objects
from shmcoll.communicator.plans import OPERATIONS, Plan
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory import records
from shmcoll.engine.memory.group import Group
from shmcoll.errors import ArenaError
from shmcoll.runtime import shrink
from shmcoll.runtime.dispatcher import Dispatcher
from shmcoll.runtime.group_registry import WORLD, Identity, find, identity
from shmcoll.runtime.local_rank import LocalRank
from shmcoll.runtime.turns import CallNotAllowed


class Communicator(Objects, Messages):
    """A group of ranks that call collectives together. `shmcoll.init()` makes that of all ranks.

    Every method is a collective where not said otherwise: all ranks of the group call it, in the same order, with the
    same shape, dtype and arguments where not said otherwise. Arrays may be of any layout; results are new C-contiguous
    numpy arrays unless `out` is given, which is then written and returned. With `async_op=True` a method returns a
    `Work` at once. `algorithm` forces one where there are several; all give the same bits.

    Errors of every method: `TypeError`, `ValueError`, `IndexError` for this rank's own mistake, before anything is
    published; `CollectiveMismatch`, `RankFailed`, `CollectiveTimeout` end the group, and every later call on it raises
    the cause again.
    """

    def __init__(self, local_rank: LocalRank, group: Group, name: str, which: Identity = WORLD):
        self.rank = group.ranks.index(local_rank.rank)
        self.size = group.size
        self.ranks = list(group.ranks)
        self.name = name
        self.launcher = local_rank.launcher
        self._local_rank = local_rank
        self._identity = which
        self._splits = self._shrinks = 0
        self._composite = {}
        self._dispatcher = Dispatcher(local_rank, group, self.rank)
        self._closing = threading.RLock()
        self._is_closed = False
        local_rank.dispatchers.append(self._dispatcher)

    def __repr__(self) -> str:
        return f"<shmcoll.Communicator {self.name}: rank {self.rank} of {self.size}>"

    @property
    def timeout(self) -> float:
        """Limit of one wait, in seconds."""
        return float(self._dispatcher.words[c.TIMEOUT // WORD]) / 1e9

    @timeout.setter
    def timeout(self, seconds: float) -> None:
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float, np.integer, np.floating)):
            raise TypeError(f"timeout must be a positive number of seconds, got {seconds!r}")
        if not 1e-6 <= seconds <= 1e9:
            raise ValueError(f"timeout must be a positive number of seconds, from 1e-6 to 1e9, got {seconds!r}")
        self._dispatcher.words[c.TIMEOUT // WORD] = int(seconds * 1e9)

    @property
    def handle(self) -> np.ndarray:
        """This communicator for jitted code: an argument for the functions of `shmcoll.jit`."""
        return jit_handle.make(self)

    def abort(self, text: str) -> None:
        """End the group: every rank's pending and later calls raise `RankFailed` quoting `text`. Not a collective."""
        if self._dispatcher.failures.is_shut:  # not so in a fork of the rank, whose memory is its own
            self._dispatcher.check_open("abort")
        records.end(
            self._dispatcher.group, self.rank, records.ABORTED, f"rank {self._dispatcher.failures.name} aborted: {text}"
        )
        self._dispatcher.words[c.ACTIVE // WORD] = c.ENDED

    def plan(self, operation: str, *args: Any, **keywords: Any) -> Plan:
        """A collective to be called many times on the same arrays: `plan = comm.plan("all_reduce", x, out=y); plan()`.

        operation: a name such as "all_reduce" or "barrier", without the `_v` forms; then what the method takes. The
        arguments are checked now, and not again: the arrays must be used where they are (`ValueError` for one that
        would be copied), and their contents are what they are at each call. Without `out` the result is one array, made
        now. Not a collective itself.
        """
        if operation not in OPERATIONS:
            raise ValueError(f"plan: no plan of {operation!r}; there are plans of {', '.join(OPERATIONS)}")
        return plans.make(self._dispatcher, getattr(self, operation), operation, args, keywords)

    def grid(self, dims: Any, periods: Any = False) -> Grid:
        """The ranks as a Cartesian grid, to exchange halos with neighbours: see `Grid`. Not a collective itself.

        dims: how many ranks lie along each axis, as a sequence or one number; those given as 0 are chosen as close to
        each other as can be, as MPI_Dims_create does. periods: whether an axis is closed to a ring, for all axes or for
        each. Ranks are numbered as by MPI_Cart_create, the last axis fastest. `ValueError` when the product of dims is
        not the number of ranks.
        """
        return Grid(self._dispatcher, dims, periods)

    # --- shared arrays ------------------------------------------------------------------------------------------------

    def empty(self, shape: Any, dtype: Any = "float64") -> np.ndarray:
        """An array in the memory that the ranks share, freed with the array. Not a collective.

        shape, dtype: as for `numpy.empty`; dtype one that collectives know. Its elements are zero. Raises `ArenaError`
        when all ranks together would take more than the heap allows (`shmrun --heap`, SHMCOLL_HEAP).
        """
        return self._shared("empty", shape, dtype)

    def zeros(self, shape: Any, dtype: Any = "float64") -> np.ndarray:
        """As `empty`: shared memory is handed out cleared."""
        return self._shared("zeros", shape, dtype)

    def full(self, shape: Any, value: Any, dtype: Any = None) -> np.ndarray:
        """As `empty`, with every element `value`; dtype defaults to that of the value."""
        self._dispatcher.check_rank("full")
        with self._dispatcher.checking("full") as check:
            array = shared_arrays.as_filling(value, dtype, *check)
        made = self._shared("full", shape, array.dtype)
        with self._dispatcher.checking("full") as check:
            shared_arrays.fill(made, array, *check)
        return made

    def _shared(self, operation: str, shape: Any, dtype: Any) -> np.ndarray:
        self._dispatcher.check_rank(operation)
        local_rank = self._local_rank
        with self._dispatcher.checking(operation) as check:
            like = shared_arrays.as_description(shape, dtype, *check)
        try:
            return shared_arrays.zeros(local_rank.arena, local_rank.heap, like)
        except ArenaError:
            if local_rank.is_within():  # in a signal handler
                raise
            with local_rank.lock:
                local_rank.groups.sweep()  # groups that their last members have closed since this rank looked
        return shared_arrays.zeros(local_rank.arena, local_rank.heap, like)

    def views(self, x: np.ndarray) -> list[np.ndarray]:
        """Every rank's shared array, in rank order, to be read and written where it lies.

        x: an array made by `empty`, `zeros` or `full`, or a part of one; of any shape and dtype, which may differ
        between ranks. Nothing is copied, and nothing is synchronised: put `barrier()` between writing and reading.
        Memory that others view is given back when its owner and all of them have dropped their arrays. Raises
        `ValueError`, on all ranks, when the array of one of them does not lie in shared memory.
        """
        arena, heap = self._local_rank.arena, self._local_rank.heap
        own, place = self.rank, shared_arrays.place_of(arena, heap, x) if isinstance(x, np.ndarray) else None
        views = []
        with self._parts("views") as parts:
            places = parts.all_gather_object(place)
            missing = [i for i, place in enumerate(places) if place is None]
            if not missing:
                for i, place in enumerate(places):
                    views.append(x if i == own else shared_arrays.view(arena, place, self._local_rank.rank))
                parts.barrier()  # until all hold what they view, nobody may drop its array
        if missing:
            raise ValueError(
                f"views: the array of {self._dispatcher.group.names(missing)} does not lie in shared memory; "
                f"make it with comm.empty, comm.zeros or comm.full"
            )
        return views

    # --- groups -------------------------------------------------------------------------------------------------------

    def split(self, color: int | None, key: int = 0) -> "Communicator | None":
        """A new group of the ranks that give the same `color`; None for a rank whose color is None.

        Ranks are numbered by `key`, then by their rank here. All ranks of this group call it. Raises `ArenaError`, on
        all ranks of a color, when there is no memory for their group.
        """
        with self._dispatcher.checking("split") as check:
            number = 0 if color is None else given.as_word(color, "color", *check)
            mine = (color is not None, number, given.as_word(key, "key", *check))
        with self._parts("split") as parts:
            told = parts.all_to_all(np.tile(np.array([mine], np.int64), (self.size, 1))).tolist()
        self._splits += 1
        if color is None:
            return None
        members = [rank for rank in range(self.size) if told[rank][:2] == [1, mine[1]]]
        members.sort(key=lambda rank: told[rank][2])
        ranks = tuple(self.ranks[rank] for rank in members)
        return self._join(ranks, identity(ranks, "split", self._identity, self._splits))

    def subgroup(self, ranks: Sequence[int]) -> "Communicator":
        """The group of these ranks of this group, numbered in ascending order. Called by its members alone.

        The same ranks give the same communicator until this rank closes it. Waits for the member with the lowest rank,
        up to `timeout`. Raises `ArenaError`, on all members, when there is no memory; `RankFailed` and
        `CollectiveTimeout` for that member.
        """
        with self._dispatcher.checking("subgroup") as check:
            if not isinstance(ranks, (Iterable, np.ndarray)) or isinstance(ranks, str):
                raise TypeError(
                    f"subgroup on rank {check[1]}: ranks must be a sequence of ranks, got {type(ranks).__name__}"
                )
            members = sorted(given.as_peer(rank, "rank", self.size, *check) for rank in ranks)
            if self.rank not in members or len(set(members)) != len(members):
                raise ValueError(
                    f"subgroup on rank {check[1]}: ranks {members} must be different and hold this rank; "
                    f"only members call it"
                )
        self._dispatcher.check_rank("subgroup")
        world = tuple(sorted(self.ranks[rank] for rank in members))
        generation = self._local_rank.closes[world]
        try:
            return self._join(world, identity(world, "subgroup", generation))
        except ArenaError:
            self._local_rank.closes[world] = generation + 1
            raise

    def shrink(self) -> "Communicator":
        """The group of those who are left, after a failure has ended this one. Every survivor calls it.

        Ranks are numbered in the order that they have here; who has closed this group is none of them. Who dies
        meanwhile may still be in it: then its first collective raises `RankFailed`, and it can be shrunk again. Under
        `shmrun --on-failure continue`, or `shmcoll.run(..., on_failure="continue")`, survivors have all the time they
        want; else the launcher ends them.

        Raises `ValueError` while the group has not ended; `ArenaError`, on all survivors, when there is no memory;
        `CollectiveTimeout` naming the rank that did not call it within `timeout`: it can be called again.
        """
        local_rank = self._local_rank
        self._dispatcher.check_open("shrink")
        with self._dispatcher.checking("shrink"):
            shrink.check_ended(self._dispatcher.group, local_rank.rank)
        which = identity(tuple(self.ranks), "shrink", self._identity, self._shrinks + 1)
        try:
            group = shrink.decided_before(self._dispatcher.group, which, local_rank.rank, self.timeout)
            local_rank.check_not_within("shrink")
            with local_rank.lock:
                self._dispatcher.check_open("shrink")  # another thread may have closed it meanwhile
                group = group or local_rank.groups.lead(shrink.living(self._dispatcher.group), which)
                made = local_rank.subgroups[which] = Communicator(local_rank, group, f"{list(group.ranks)}", which)
        except ArenaError:
            self._shrinks += 1  # for all survivors: they try again under another identity
            raise
        self._shrinks += 1  # not before anything is decided: who has timed out tries again for the same group
        return made

    def close(self) -> None:
        """Leave the group and give its memory back once all its members have. Not a collective.

        Pending asynchronous work, and calls of other threads, are completed first. Receives that no message has come
        for are withdrawn: at once if none can come any more, else after 3 s; stderr says which. Peers that wait for
        this rank, or call it afterwards, get `RankFailed`. A communicator that is merely forgotten keeps its memory to
        the end of the job.
        """
        if self._dispatcher.group == Group.world(self._local_rank.arena):
            raise ValueError("close: the group of all ranks is closed by the end of the process")
        local_rank = self._local_rank
        if self._is_closed or local_rank.pid != os.getpid():
            return  # before the lock, which a fork of the rank may have found taken
        local_rank.check_not_within("close")
        if self._closing._is_owned():  # type: ignore[attr-defined]
            raise CallNotAllowed(
                f"close on rank {local_rank.rank}: called by a signal handler or finaliser during another close"
            )
        with self._closing:  # another thread may close it, too; `member.lock` is for moments, and this may take long
            if self._is_closed:
                return
            self._dispatcher.finish()
            with local_rank.lock:
                self._is_closed = True
                local_rank.forget(self._dispatcher)
                del local_rank.subgroups[self._identity]
                ranks, closes = tuple(self.ranks), local_rank.closes
                if self._identity == identity(ranks, "subgroup", closes[ranks]):
                    closes[ranks] += 1
                local_rank.groups.leave(self._dispatcher.group, self.rank, self._dispatcher.buffers.drop_all())

    def _join(self, ranks: tuple[int, ...], which: Identity) -> "Communicator":
        """The communicator of a group that this rank belongs to, made by the first of its ranks."""
        local_rank = self._local_rank
        local_rank.check_not_within("subgroup")
        with local_rank.lock:
            if which not in local_rank.subgroups and local_rank.rank == ranks[0]:
                group = local_rank.groups.lead(ranks, which)
                local_rank.subgroups[which] = Communicator(local_rank, group, f"{list(ranks)}", which)
            if which in local_rank.subgroups:
                return local_rank.subgroups[which]
        group = find(local_rank.arena, ranks, which, local_rank.rank, self.timeout)
        with local_rank.lock:
            if which not in local_rank.subgroups:
                local_rank.subgroups[which] = Communicator(local_rank, group, f"{list(ranks)}", which)
            return local_rank.subgroups[which]
