"""Ranks as a Cartesian grid, its parts, and the exchange of halos between neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

import numpy as np

from shmcoll import calls
from shmcoll.calls import arguments as given
from shmcoll.calls import buffer_check
from shmcoll.calls.arrays import product
from shmcoll.calls.halo_exchange import checked
from shmcoll.communicator import graph
from shmcoll.communicator.graph import Graph
from shmcoll.communicator.graph_links import Links
from shmcoll.communicator.native_call import native_call
from shmcoll.engine import context as c
from shmcoll.engine.system.text import shown
from shmcoll.runtime.process_bound import ProcessBound
from shmcoll.runtime.work import Work

if TYPE_CHECKING:
    from shmcoll.communicator import Communicator
    from shmcoll.communicator.types import Array


class Grid(ProcessBound):
    """The ranks of a communicator as a Cartesian grid. `comm.grid` makes it.

    Ranks are numbered as by MPI_Cart_create: the last coordinate varies fastest.

    Example:
        >>> grid = comm.grid((0, 0), periods=True)  # as square as the number of ranks allows
        >>> u = np.zeros((8, 8))  # 6 x 6 elements of this rank, and a halo of width 1
        >>> u[1:-1, 1:-1] = comm.rank
        >>> u = grid.exchange(u)
        >>> before, behind = grid.neighbours(1)
        >>> (int(u[4, 0]), int(u[4, -1])) == (before, behind)
        True
    """

    _title, _instead = "the grid of a communicator", "call comm.grid in the function that uses it"

    def __init__(
        self,
        comm: Communicator,
        dims: SupportsIndex | Sequence[SupportsIndex],
        periods: bool | Sequence[bool] = False,
    ):
        self._comm = comm
        self._dispatcher = dispatcher = comm._dispatcher
        with dispatcher.checking("grid") as check:
            self._dims = _as_dims(dims, dispatcher.size, *check)
            self._periods = _as_flags(periods, len(self._dims), "periods", *check)
        self._coords = _coordinates(dispatcher.rank, self._dims)
        self._entry: Callable[..., int] | None = None
        self._checked: tuple[Any, ...] | None = None  # shape, dtype, width, axes of the last call; and its words
        self._words: tuple[int, ...] = ()
        self._table = np.zeros(0, np.int64)

    def __repr__(self) -> str:
        dims = " x ".join(map(str, self.dims)) or "1"
        return f"<shmcoll.Grid of {dims} ranks, periods {self.periods}: rank {self._dispatcher.rank} at {self.coords}>"

    @property
    def comm(self) -> Communicator:
        """The communicator whose ranks the grid arranges."""
        return self._comm

    @property
    def dims(self) -> tuple[int, ...]:
        """The number of ranks along each axis."""
        return self._dims

    @property
    def periods(self) -> tuple[bool, ...]:
        """For each axis, whether it is closed to a ring."""
        return self._periods

    @property
    def coords(self) -> tuple[int, ...]:
        """The coordinates of this rank."""
        return self._coords

    def rank_at(self, coords: SupportsIndex | Sequence[SupportsIndex]) -> int | None:
        """Return the rank at some coordinates. Not a collective.

        Args:
            coords: one coordinate for each axis. Along periodic axes it is taken modulo the number of ranks.

        Returns:
            The rank; None if the coordinates are outside the grid.

        Raises:
            ValueError: the number of coordinates is not the number of axes.
            TypeError: a coordinate is not an integer.
        """
        name = self._dispatcher.failures.name
        listed = list(coords) if isinstance(coords, Iterable) else [coords]
        if len(listed) != len(self._dims):
            raise ValueError(
                f"rank_at on rank {name}: {shown(coords)} must be {len(self._dims)} coordinates, one for each axis "
                f"of the grid"
            )
        places = [given.as_index(place, "coordinate", "rank_at", name) for place in listed]
        rank = 0
        for place, ranks, is_periodic in zip(places, self._dims, self._periods, strict=True):
            if not (is_periodic or 0 <= place < ranks):
                return None
            rank = rank * ranks + place % ranks
        return rank

    def coords_of(self, rank: SupportsIndex) -> tuple[int, ...]:
        """Return the coordinates of a rank. Not a collective.

        Args:
            rank: a rank of the communicator.

        Raises:
            TypeError: the rank is not an integer.
            ValueError: there is no such rank.
        """
        dispatcher = self._dispatcher
        return _coordinates(
            given.as_peer(rank, "rank", dispatcher.size, "coords_of", dispatcher.failures.name), self._dims
        )

    def neighbours(self, axis: int, distance: SupportsIndex = 1) -> tuple[int | None, int | None]:
        """Return the ranks before and behind this one along an axis, as MPI_Cart_shift does. Not a collective.

        Args:
            axis: an axis of the grid. May be negative.
            distance: how many steps away. A negative number exchanges before and behind.

        Returns:
            (rank before, rank behind); None beyond an open boundary. Messages take None as nobody.

        Raises:
            IndexError: the axis does not exist.
            TypeError: the distance is not an integer.

        Example:
            >>> grid = comm.grid(comm.size)
            >>> before, behind = grid.neighbours(0, 2)
            >>> x, source, _ = comm.sendrecv(np.array([comm.rank]), behind, source=before)
            >>> source == before
            True
        """
        name = self._dispatcher.failures.name
        axis = given.as_axis(axis, "axis", len(self._dims), "neighbours", name)
        steps = given.as_index(distance, "distance", "neighbours", name)
        return self._away(axis, -steps), self._away(axis, steps)

    def _away(self, axis: int, steps: int) -> int | None:
        return self.rank_at((*self._coords[:axis], self._coords[axis] + steps, *self._coords[axis + 1 :]))

    def sub(self, keep: bool | Sequence[bool]) -> Grid:
        """Divide the grid into grids of fewer axes, as MPI_Cart_sub does. A collective of all ranks of the grid.

        Ranks that differ only in coordinates along the axes that are kept form a grid. It has a communicator of its
        own, `sub.comm`, which may be closed.

        Args:
            keep: for each axis, whether the new grids have it; equal on all ranks. A grid without axes has one rank.

        Returns:
            The `Grid` of this rank.

        Raises:
            ArenaError: on all ranks of a new grid, there is no memory for their group.
            ValueError: `keep` is not True or False for each axis, or this rank and others keep different axes.

        Example:
            >>> grid = comm.grid((1, comm.size))
            >>> row = grid.sub(keep=(False, True))
            >>> row.dims == (comm.size,) and row.comm.size == comm.size
            True
            >>> row.comm.close()
        """
        with self._dispatcher.checking("sub") as check:
            kept = _as_flags(keep, len(self._dims), "keep", *check)
        place, mask = 0, 0
        for at, ranks, stays in zip(self._coords, self._dims, kept, strict=True):
            place = place if stays else place * ranks + at
            mask = 2 * mask + stays
        comm = self._comm.split(place << len(kept) | mask)  # so ranks that keep other axes are not among them
        assert comm is not None
        try:
            axes = [axis for axis, stays in enumerate(kept) if stays]
            dims = [self._dims[axis] for axis in axes]
            if comm.size != product(dims):
                raise ValueError(
                    f"sub on rank {self._dispatcher.failures.name}: keep {kept} differs from what other ranks of the "
                    f"grid have passed; pass the same on all ranks"
                )
            return Grid(comm, dims, [self._periods[axis] for axis in axes])
        except BaseException:
            comm.close()
            raise

    def graph(self) -> Graph:
        """Return the graph of all neighbours, for neighbour collectives. A collective of all ranks of the grid.

        The sources and the destinations of a rank are its neighbours: before and behind along the first axis, then
        along the next one, and so on. Beyond an open boundary they are None.

        Returns:
            A `Graph`. What a rank receives from the neighbour before it was sent to the neighbour behind, also where
            both are the same rank.

        Raises:
            ArenaError: on all ranks, there is no memory for the graph's group.
        """
        around = [self.neighbours(axis) for axis in range(len(self._dims))]
        ranks = [rank for pair in around for rank in pair]
        numbers = range(0, 2 * len(around), 2)  # the edges along each axis; the next number is for those against it
        incoming = [edge for number in numbers for edge in (number, number + 1)]
        outgoing = [edge for number in numbers for edge in (number + 1, number)]
        return graph.make(self._comm, Links(ranks, incoming), Links(ranks, outgoing))

    @overload
    def exchange(
        self, x: Array, width: int = ..., *, axes: int | Sequence[int] | None = ..., async_op: Literal[False] = ...
    ) -> Array: ...
    @overload
    def exchange(
        self, x: Array, width: int = ..., *, axes: int | Sequence[int] | None = ..., async_op: Literal[True]
    ) -> Work[Array]: ...
    def exchange(
        self, x: Array, width: int = 1, *, axes: int | Sequence[int] | None = None, async_op: bool = False
    ) -> Any:
        """Fill the halo of `x` from the neighbours. A collective of all ranks of the communicator.

        Along each axis of the grid, the outer `width` layers of `x` on both sides are the halo, and the `width` layers
        within them go to the neighbour. Corners and edges are filled, too, as if the arrays of all ranks were windows
        of one array. What is beyond an open boundary stays as it is; where it is also in a neighbour's halo, the
        neighbour's values are copied with it. A rank may be its own neighbour, or have the same rank on both sides.

        Args:
            x: C-contiguous numpy array of at most 8 dimensions (7 of a dtype that has no reductions), of any dtype of
                fixed size, written in place. Along each axis of the grid it has at least 3 * `width` elements. Its
                shape may differ between ranks, but neighbours along an axis have equal extents along all other axes.
            width: the number of layers.
            axes: the axes of `x` that are the axes of the grid; by default the first ones.
            async_op: return a `Work` at once.

        Returns:
            `x`.

        Raises:
            TypeError: `x` is not a numpy array, or its elements have no fixed size.
            ValueError: `x` cannot be filled in place, or is too short.
            CollectiveMismatch: on all ranks, before anything is written, the extents of two neighbours differ.
        """
        arguments = (x, width, axes, self._dims, self._periods)
        if not self._dims:  # no halo
            checked(self._dispatcher, *arguments)
            return self._dispatcher.worker.ended(x) if async_op else x
        if async_op:
            dispatcher = self._dispatcher
            exchange = partial(calls.halo_exchange, dispatcher, *arguments)
            call = buffer_check.around(exchange, dispatcher, "halo_exchange", {"x": x}, "x")
            return dispatcher.worker.submit(call, collective="halo_exchange")
        if type(x) is not np.ndarray or not (axes is None or type(axes) in (int, tuple)) or type(width) is not int:
            return calls.halo_exchange(self._dispatcher, *arguments)
        if self._checked != (x.shape, x.dtype, width, axes):
            self._words, self._table = checked(self._dispatcher, *arguments)
            self._checked = (x.shape, x.dtype, width, axes)
        return self._fill(x)

    @native_call(
        "x, x, *self._words",
        entry="self._entry or self._load()",
        operation='"halo_exchange"',
        otherwise="self._again(x, status)",
        answer="x",
    )
    def _fill(self, x: Array) -> Array:  # type: ignore[empty-body]
        """Make the call that has been checked."""

    def _load(self) -> Callable[..., int]:
        self._entry = self._dispatcher.routine("halo_exchange")
        return self._entry

    def _again(self, x: Array, status: int) -> Array:
        if status == c.NEEDS_PYTHON:  # same shape, but no array that can be filled in place
            assert self._checked is not None
            _, _, width, axes = self._checked
            return calls.halo_exchange(self._dispatcher, x, width, axes, self._dims, self._periods)
        self._dispatcher.complete("halo_exchange", self._load(), (x, x, *self._words), status)
        return x


def _as_dims(dims: Any, size: int, operation: str, rank: int) -> tuple[int, ...]:
    """Return the number of ranks along each axis. Numbers given as 0 are chosen."""
    listed = list(dims) if isinstance(dims, (tuple, list, np.ndarray)) and np.ndim(dims) else [dims]
    if isinstance(dims, (tuple, list, np.ndarray)) and not len(listed):
        if size == 1:
            return ()
        raise ValueError(
            f"{operation} on rank {rank}: dims is empty; give the number of ranks along each axis, as in (0, 0) for "
            f"two axes, where a 0 lets it choose"
        )
    counts = [given.as_index(ranks, "dims", operation, rank) for ranks in listed]
    fixed = product([ranks for ranks in counts if ranks])
    if not counts or min(counts) < 0 or size % fixed or (0 not in counts and fixed != size):
        raise ValueError(
            f"{operation} on rank {rank}: dims {listed} do not give a place to each of {size} ranks; "
            f"their product must be {size}, and a 0 lets it choose"
        )
    chosen = iter(_balanced(size // fixed, counts.count(0)))
    return tuple(ranks or next(chosen) for ranks in counts)


def _coordinates(rank: int, dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return the coordinates of a rank; the last one varies fastest."""
    found = []
    for ranks in reversed(dims):
        rank, place = divmod(rank, ranks)
        found.append(place)
    return tuple(reversed(found))


def _balanced(ranks: int, axes: int) -> list[int]:
    """Return factors of a number, one per axis, that are close to each other, in falling order, as MPI_Dims_create."""
    factors = [1] * axes
    primes, prime = [], 2
    while ranks > 1:
        while ranks % prime == 0:
            primes.append(prime)
            ranks //= prime
        prime += 1
    for prime in reversed(primes):
        factors.sort()
        factors[0] *= prime
    return sorted(factors, reverse=True)


def _as_flags(flags: Any, axes: int, name: str, operation: str, rank: int) -> tuple[bool, ...]:
    listed = list(flags) if isinstance(flags, (tuple, list, np.ndarray)) else [flags] * axes
    if len(listed) != axes or not all(isinstance(one, (bool, np.bool_, int)) for one in listed):
        raise ValueError(
            f"{operation} on rank {rank}: {name} {shown(flags)} must be True or False, "
            f"or one of them for each of {axes} axes"
        )
    return tuple(map(bool, listed))
