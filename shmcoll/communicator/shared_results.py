"""Results that all ranks of a node share: `all_gather`, `gather`, `broadcast` and `scatter` with `shared=True`.

One rank, the owner of the result, takes memory for it in its heap: the root, or rank 0. The call is composite:

    owner                 takes addresses in its heap
    all_gather, gather    all ranks exchange shape and dtype, and these addresses. If the arrays differ, all raise
                          `ValueError`
    broadcast, scatter    the owner broadcasts the addresses
    all                   each rank holds them (`engine/memory/holds.py`), and commits its part of the memory. All tell
                          whether they could. If there is too little, all raise `ArenaError`, and no byte has moved
    all_gather, gather    each rank copies its x to its own part: no two ranks write the same byte
    broadcast, scatter    the owner copies x there
    all                   a barrier. Before it no rank reads what another one writes, and the owner keeps the memory.
                          Behind it no rank writes any more: the arrays that are returned are read-only

A plan keeps the memory until it is deleted. In its later calls all ranks first meet in an all_gather of a number: then
no rank reads what the last call has written. Then they write, and meet in the barrier, as above.

Each rank returns an array on that memory, which is freed when all ranks have deleted theirs, or have ended. A rank that
dies in the call ends the group. The others then drop what they have, as always when a call fails. If a rank dies later,
the memory remains, even that of a dead owner. A process that a rank forks reads zeros there, as in every shared array.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.calls.arrays import cut, deliver, whole_shape
from shmcoll.calls.ignored import ignored
from shmcoll.communicator import shared_arrays
from shmcoll.communicator.objects import Objects, Parts
from shmcoll.communicator.plans import Plan
from shmcoll.communicator.shared_arrays import ArrayLocation
from shmcoll.engine import layout
from shmcoll.engine.memory.available_memory import mib
from shmcoll.engine.system.text import shown
from shmcoll.errors import ArenaError
from shmcoll.runtime.local_rank import LocalRank
from shmcoll.runtime.work import Work

GATHERING = ("all_gather", "gather")


class SharedResults(Objects):
    """The calls whose result is in the memory that the ranks share."""

    _local_rank: LocalRank
    node: Any

    def _share(self, operation: str, shared: Any, later: Any, x: Any, **arguments: Any) -> Any:
        """Make the call of a method with `shared=True`, now or later. Another value is refused."""
        if not isinstance(shared, (bool, np.bool_)):
            with self._dispatcher.checking(operation) as check:
                raise TypeError(f"{operation} on rank {check[1]}: shared must be True or False, got {shown(shared)}")
        if not shared:  # numpy's False
            return getattr(self, operation)(x, **arguments, async_op=later)
        call = SharedPlan(self, operation, x, arguments.get("root", 0), arguments.get("out"))
        return call.start() if later else call()

    def _plan_shared(self, operation: str, x: Any, *, root: Any = 0, out: Any = None) -> SharedPlan:
        """Return the plan of a call with `shared=True`, whose arguments are checked now and in each call."""
        self._shared_arguments(operation, x, root, out)
        return SharedPlan(self, operation, x, root, out)

    def _shared_arguments(self, operation: str, x: Any, root: Any, out: Any) -> tuple[int, Any]:
        """Check the arguments of a call, and return the root, and the array of this rank or None."""
        self._dispatcher.check_rank(operation)
        with self._dispatcher.checking(operation) as check:
            root = given.as_root(root, self._size, *check)
            if out is not None and "out" not in ignored(operation, self._rank, root):
                raise ValueError(
                    f"{operation} on rank {check[1]}: with shared=True the result is a new array: pass no out"
                )
            if operation not in GATHERING and self._rank != root:
                return root, None
            return root, _blocks(x, self._size, *check) if operation == "scatter" else given.as_moved(x, *check)

    def _agree(self, operation: str, root: int, body: Callable[[Parts], Any]) -> Any:
        """Make the composite call. Raises the errors that all ranks find together."""
        whole = self._compose(f"shared {operation}", body, -1 if operation == "all_gather" else root)
        if isinstance(whole, ArenaError):
            text = f"{operation} on rank {self._dispatcher.failures.name}: {whole}"
            raise ArenaError(text, needed=whole.needed, available=whole.available)
        if isinstance(whole, ValueError):
            raise whole
        return whole

    # --- parts --------------------------------------------------------------------------------------------------------

    def _make_shared(self, parts: Parts, operation: str, owner: int, x: Any) -> Any:
        """Return the array that all ranks share, or the error that all ranks raise. x: None on a rank that passes no
        array."""
        gathers = operation in GATHERING
        whole, place = None, None
        arena, purpose = self._local_rank.arena, f"the shared result of {operation}"
        if self._rank == owner:
            like = np.broadcast_to(np.zeros((), x.dtype), whole_shape(x.shape, self._size)) if gathers else x
            whole, place = self._owned(like, purpose)
        with self._telling(whole):
            with self._local_rank.learning(self._dispatcher.group):
                if gathers:
                    told = parts.all_gather_object((x.shape, x.dtype, place))
                    if error := differing(operation, [one[:2] for one in told]):
                        return error
                    place = told[owner][2]
                else:
                    place = parts.broadcast_object(place, owner)
                    # The owner may be ahead, and too many frames are between it and the program for native code
                    self._dispatcher.failures.note_line(f"shared {operation}")
                if isinstance(place, ArenaError):
                    return place
                self._check_alive(operation)
                if self._rank != owner:
                    whole = shared_arrays.view(arena, place, self._local_rank.rank)
            if missing := self._commit(parts, place, purpose):
                return missing
            self._write(parts, operation, owner, whole, x)
            parts.barrier()
        return whole

    def _write_again(self, parts: Parts, operation: str, owner: int, whole: Any, x: Any) -> None:
        parts.all_gather(np.zeros(1, np.int64))  # before it, a rank may still read what the last call has written
        self._write(parts, operation, owner, whole, x)
        parts.barrier()

    def _write(self, _parts: Parts, operation: str, owner: int, whole: Any, x: Any) -> None:
        """Copy what this rank passes into the array that all ranks share."""
        if operation in GATHERING:
            cut(whole, self._size)[self._rank][...] = x
        elif self._rank == owner:
            whole[...] = x

    def _commit(self, parts: Parts, place: ArrayLocation | None, purpose: str) -> ArenaError | None:
        """Commit the memory, a part on each rank. Returns an error, which is the same on all ranks, if there is too
        little."""
        amounts = [0, 0]
        try:
            if place:
                shared_arrays.commit_part(self._local_rank.arena, place, self.node.rank, self.node.size, purpose)
        except ArenaError as error:
            amounts = [error.needed, error.available]
        told = parts.all_gather(np.array(amounts)).reshape(-1, 2).tolist()
        rank, (needed, available) = max(enumerate(told), key=lambda one: one[1])
        if not needed:
            return None
        name = self._dispatcher.group.name(rank)
        text = (
            f"rank {name} found no memory for its part of {purpose}: {mib(needed)} needed, {mib(available)} available"
        )
        return ArenaError(text, needed=needed, available=available)

    # --- memory -------------------------------------------------------------------------------------------------------

    def _array_like(self, like: np.ndarray, purpose: str = "", *, commits: bool = True) -> np.ndarray:
        """Return an array of zeros in this rank's heap, of the shape and dtype of another one."""
        local_rank = self._local_rank
        try:
            return shared_arrays.zeros(local_rank.arena, local_rank.heap, like, purpose, commits=commits)
        except ArenaError:
            if local_rank.is_within():  # in a signal handler
                raise
            with local_rank.lock:
                local_rank.groups.sweep()  # groups that their last members have closed since the last `sweep`
        return shared_arrays.zeros(local_rank.arena, local_rank.heap, like, purpose, commits=commits)

    def _owned(self, like: np.ndarray, purpose: str) -> tuple[np.ndarray | None, ArrayLocation | ArenaError | None]:
        """Take memory for a result. Returns the array and its location, or None and the error to tell the others."""
        try:
            whole = self._array_like(like, purpose, commits=False)
            return whole, shared_arrays.place_of(self._local_rank.arena, self._local_rank.heap, whole)
        except ArenaError as error:
            return None, error

    @contextmanager
    def _telling(self, own: np.ndarray | None) -> Iterator[None]:
        """Do so where other ranks learn of an array of this rank, and hold it. Its memory is doubted after an error."""
        heap, arena = self._local_rank.heap, self._local_rank.arena
        try:
            yield
        except BaseException:
            if own is not None and (place := shared_arrays.place_of(arena, heap, own)) and place.bytes:
                heap.doubt(place.first)
            raise

    def _map_at(self, result: np.ndarray, address: int) -> bool:
        """Show a shared result at another address, too, a page's beginning, as a private copy that shares the memory of
        all pages that are not written. Returns whether that can be done; the caller keeps the result."""
        arena = self._local_rank.arena
        length = layout.align(result.nbytes, mmap.PAGESIZE)
        offset = result.ctypes.data - arena.address
        return offset % mmap.PAGESIZE == 0 and arena.map_privately(offset, length, address)

    def _check_alive(self, operation: str) -> None:
        """Raise if the group has ended: the array that this rank has learned of may be gone."""
        if self._dispatcher.group.has_ended():
            self._dispatcher.failures.look(operation)


class SharedPlan(Plan):
    """A planned call whose result all ranks share. The first call takes memory; every call writes there."""

    def __init__(self, comm: SharedResults, operation: str, x: Any, root: Any, out: Any = None):
        is_ignored = operation not in GATHERING and type(root) is int and comm.rank != root
        self._comm, self._operation, self._given = comm, operation, (None if is_ignored else x, root, out)
        self._dispatcher = comm._dispatcher
        self._is_made = False
        self._whole: Any = None
        self._result = None

    def __call__(self) -> Any:
        """Make the call and return the result."""
        comm, operation = self._comm, self._operation
        root, x = comm._shared_arguments(operation, *self._given)
        if self._is_made:
            comm._agree(operation, root, lambda parts: comm._write_again(parts, operation, root, self._whole, x))
            return self._result
        self._whole = comm._agree(operation, root, lambda parts: comm._make_shared(parts, operation, root, x))
        self._is_made = True
        if operation == "gather" and comm.rank != root:
            return None
        whole = shared_arrays.read_only(self._whole)
        self._result = deliver(whole[comm.node.rank, ...] if operation == "scatter" else whole, None)
        return self._result

    def start(self) -> Work[Any]:
        """Make the call asynchronously."""
        return cast("Work[Any]", self._comm._later(self._operation, self, self._given[0]))


def _blocks(x: Any, size: int, operation: str, rank: int) -> np.ndarray:
    """Return x of scatter as an array of one block for each rank."""
    if given.is_list_of_arrays(x):
        return np.stack(given.as_list(x, size, operation, rank))
    array = given.as_moved(x, operation, rank)
    given.check_divisible(array, 0, size, operation, rank)
    return array.reshape(size, array.shape[0] // size, *array.shape[1:])


def differing(operation: str, told: list[tuple[tuple[int, ...], np.dtype]]) -> ValueError | None:
    """Return the error of arrays that do not go together, which all ranks raise; None if they do. told: shape and dtype
    of each rank."""
    odd = next((rank for rank, one in enumerate(told) if one != told[0]), None)
    if odd is None:
        return None
    first, other = (f"{told[rank][1]}{list(told[rank][0])} on rank {rank}" for rank in (0, odd))
    return ValueError(
        f"{operation}: the arrays differ: {first}, {other}; with shared=True, shape and dtype are equal on all ranks"
    )
