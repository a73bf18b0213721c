"""The methods of a communicator for arrays in the memory that the ranks share. `shared_arrays.py` makes them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import numpy as np

from shmcoll.communicator import shared_arrays
from shmcoll.communicator.objects import Parts
from shmcoll.communicator.shared_results import SharedResults

if TYPE_CHECKING:
    from shmcoll.communicator.types import Array, ArrayLike, DTypeLike, Shape


class SharedMemory(SharedResults):
    """Arrays that every rank of the group can read and write."""

    def empty(self, shape: Shape, dtype: DTypeLike = "float64") -> Array:
        """Make an array in the memory that the ranks share. Not a collective.

        The memory is freed with the array. Collectives of such arrays copy less; `views` shows them to other ranks.

        Args:
            shape: as for `numpy.empty`.
            dtype: as for `numpy.empty`, any of fixed size.

        Returns:
            C-contiguous array of zeros.

        Raises:
            ArenaError: all ranks together would take more than the heap allows (`shmrun --heap`, SHMCOLL_HEAP).
            TypeError: the shape or dtype is not one.
            ValueError: an array cannot have this shape.
        """
        return self._shared("empty", shape, dtype)

    def zeros(self, shape: Shape, dtype: DTypeLike = "float64") -> Array:
        """Make an array of zeros in the memory that the ranks share, as `empty` does. Not a collective.

        Args:
            shape: as for `empty`.
            dtype: as for `empty`.

        Returns:
            C-contiguous array of zeros.

        Raises:
            ArenaError: as for `empty`.
            TypeError: as for `empty`.
            ValueError: as for `empty`.
        """
        return self._shared("zeros", shape, dtype)

    def full(self, shape: Shape, value: ArrayLike, dtype: DTypeLike | None = None) -> Array:
        """Make an array in the memory that the ranks share, with every element set to a value. Not a collective.

        Args:
            shape: as for `empty`.
            value: a number, or an array that can be broadcast to the shape.
            dtype: as for `empty`; by default that of the value.

        Returns:
            C-contiguous array.

        Raises:
            ArenaError: as for `empty`.
            TypeError: as for `empty`, or the value cannot be converted to the dtype.
            ValueError: as for `empty`, or the value does not fit the dtype or the shape.
        """
        self._dispatcher.check_rank("full")
        with self._dispatcher.checking("full") as check:
            array = shared_arrays.as_filling(value, dtype, *check)
        made = self._shared("full", shape, array.dtype)
        with self._dispatcher.checking("full") as check:
            shared_arrays.fill(made, array, *check)
        return made

    def _shared(self, operation: str, shape: Shape, dtype: DTypeLike) -> Array:
        self._dispatcher.check_rank(operation)
        with self._dispatcher.checking(operation) as check:
            like = shared_arrays.as_description(shape, dtype, *check)
        return self._array_like(like)

    def views(self, x: Array) -> list[Array]:
        """Return the shared arrays of all ranks, to be read and written in place.

        Nothing is copied, and nothing is synchronised: call `barrier()` between writing and reading. The memory is
        freed when its owner and all ranks that view it have dropped their arrays.

        Args:
            x: an array made by `empty`, `zeros` or `full`, or a part of one. Shape and dtype may differ between ranks.

        Returns:
            A list of arrays, in rank order.

        Raises:
            ValueError: on all ranks, the array of one of them was not made that way.

        Example:
            >>> mine = comm.full(3, comm.rank)
            >>> views = comm.views(mine)
            >>> [int(view[0]) for view in views] == list(range(comm.size))
            True
        """
        self._dispatcher.check_rank("views")
        arena, heap = self._local_rank.arena, self._local_rank.heap
        own, place = self._rank, shared_arrays.place_of(arena, heap, x) if isinstance(x, np.ndarray) else None

        def make(parts: Parts) -> tuple[list[Array], list[int]]:
            with self._telling(x if place else None):
                with self._local_rank.learning(self._dispatcher.group):
                    places = parts.all_gather_object(place)
                    missing = [i for i, place in enumerate(places) if place is None]
                    if missing:
                        return [], missing
                    self._check_alive("views")
                    rank = self._local_rank.rank
                    views = [x if i == own else shared_arrays.view(arena, one, rank) for i, one in enumerate(places)]
                parts.barrier()  # until all ranks hold what they view, no rank may drop its array
            return views, missing

        views, missing = self._compose("views", make)
        if missing:
            raise ValueError(
                f"views: the array of {self._dispatcher.group.names(missing)} was not made by comm.empty, "
                f"comm.zeros or comm.full; copy it into an array that was"
            )
        return views

    def allocating(self) -> AbstractContextManager[None]:
        """Return a context manager: ordinary numpy arrays that its body makes are in shared memory. Not a collective.

        It changes numpy's allocator (NEP 49), so results of `np.ones`, `a * 2 + b`, `np.concatenate`, pandas and scipy
        are in shared memory too, if they take 64 KiB or more. Collectives of such arrays copy less. It holds for the
        calling thread or asyncio task; `shmrun --share-arrays` and SHMCOLL_SHARE_ARRAYS hold for all threads. Arrays
        outlive the body and the communicator. An array that finds no room is an ordinary private one; `shmrun --report`
        counts these.

        Raises:
            NotImplementedError: this numpy has another kind of allocator.

        Example:
            >>> with comm.allocating():
            ...     x = np.arange(100_000) * 2.0
            >>> comm.is_shared(x)
            True
        """
        self._dispatcher.check_rank("allocating")
        return self._local_rank.share_arrays().allocating()

    def is_shared(self, x: Array) -> bool:
        """Return whether the memory of an array is in the memory that the ranks share. Not a collective.

        That is so for arrays made by `empty`, `zeros` and `full`, for arrays made under `allocating` or
        `shmrun --share-arrays`, and for their parts and views.

        Args:
            x: a numpy array.

        Raises:
            TypeError: `x` is not a numpy array.
        """
        self._dispatcher.check_rank("is_shared")
        with self._dispatcher.checking("is_shared") as (operation, rank):
            if not isinstance(x, np.ndarray):
                raise TypeError(f"{operation} on rank {rank}: x must be a numpy array, got {type(x).__name__}")
        arena = self._local_rank.arena
        return 0 <= x.ctypes.data - arena.address < arena.size
