"""Ranks as a Cartesian grid, and the exchange of halos between neighbours."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from shmcoll import calls
from shmcoll.calls import arguments as given
from shmcoll.calls import buffer_check
from shmcoll.calls.arrays import product
from shmcoll.calls.halo_exchange import checked
from shmcoll.engine import context as c
from shmcoll.runtime.dispatcher import Dispatcher


class Grid:
    """The ranks of a communicator as a Cartesian grid, as MPI_Cart_create numbers them: the last coordinate varies
    fastest. `comm.grid` makes it; that is no collective, and costs nothing.

    dims: how many ranks there are along each axis. periods: whether each axis is closed to a ring. coords: where this
    rank is.
    """

    def __init__(self, dispatcher: Dispatcher, dims: Any, periods: Any = False):
        self._dispatcher = dispatcher
        with dispatcher.checking("grid") as check:
            self.dims = _as_dims(dims, dispatcher.size, *check)
            self.periods = _as_periods(periods, len(self.dims), *check)
        self.coords = _coordinates(dispatcher.rank, self.dims)
        self._checked: tuple[Any, ...] | None = None  # shape, width and axes of the last call; what was made of them:
        self._words: tuple[int, ...] = ()
        self._table = np.zeros(0, np.int64)

    def __repr__(self) -> str:
        dims = " x ".join(map(str, self.dims))
        return f"<shmcoll.Grid of {dims} ranks, periods {self.periods}: rank {self._dispatcher.rank} at {self.coords}>"

    def rank_at(self, coords: Sequence[int]) -> int | None:
        """The rank at some coordinates, of which those along periodic axes are taken modulo the ranks there; None for a
        place outside."""
        listed = list(coords) if isinstance(coords, Iterable) else [coords]
        if len(listed) != len(self.dims):
            raise ValueError(f"rank_at: {coords} must be {len(self.dims)} coordinates, one for each axis of the grid")
        places = [given.as_index(place, "coordinate", "rank_at", self._dispatcher.failures.name) for place in listed]
        rank = 0
        for place, ranks, is_periodic in zip(places, self.dims, self.periods, strict=True):
            if not (is_periodic or 0 <= place < ranks):
                return None
            rank = rank * ranks + place % ranks
        return rank

    def neighbours(self, axis: int) -> tuple[int | None, int | None]:
        """The ranks before and behind this one along an axis; None at an open boundary. As MPI_Cart_shift."""
        axis = given.as_axis(axis, "axis", len(self.dims), "neighbours", self._dispatcher.failures.name)
        low, high = (
            self.rank_at((*self.coords[:axis], self.coords[axis] + step, *self.coords[axis + 1 :])) for step in (-1, 1)
        )
        return low, high

    def exchange(self, x: Any, width: int = 1, *, axes: Any = None, async_op: bool = False) -> Any:
        """Fill the halo of `x` from the neighbours, and return `x`. A collective of all ranks of the communicator.

        x: C-contiguous numpy array of at most 8 dimensions, written in place. Along each axis of the grid its outer
        `width` layers on both sides are the halo, and the `width` layers within go to the neighbour. axes: which axes
        of x these are, by default the first ones. Corners and edges are filled, too, as if all ranks' arrays were
        windows of one. What lies beyond an open boundary is left as it is; where that is a neighbour's halo too, the
        neighbour's comes along. A rank may be its own neighbour, or the same rank lie on both sides.

        Extents may differ between ranks, but neighbours along an axis have all others equal: else `CollectiveMismatch`
        on all ranks, which names two that have not, before anything is written. `TypeError`, `ValueError` for an array
        that cannot be filled in place, or is shorter than three times `width` along an axis of the grid.
        [How it works](algorithms.md#halo_exchange)
        """
        arguments = (x, width, axes, self.dims, self.periods)
        if async_op:
            name = self._dispatcher.failures.name
            call = partial(calls.halo_exchange, self._dispatcher, *arguments)
            return self._dispatcher.worker.submit(buffer_check.around(call, "halo_exchange", name, {"x": x}, "x"))
        if type(x) is not np.ndarray or not (axes is None or type(axes) in (int, tuple)) or type(width) is not int:
            return calls.halo_exchange(self._dispatcher, *arguments)
        entry = self._dispatcher.routine("halo_exchange")
        if self._checked != (x.shape, width, axes):
            self._words, self._table = checked(self._dispatcher, *arguments)
            self._checked = (x.shape, width, axes)
        try:
            status = entry(x, x, *self._words)
        except BaseException:
            self._dispatcher.left("halo_exchange")
            raise
        if status == c.NEEDS_PYTHON:  # same shape, but no array that can be filled in place
            return calls.halo_exchange(self._dispatcher, *arguments)
        if status:
            self._dispatcher.complete("halo_exchange", entry, (x, x, *self._words), status)
        return x


def _as_dims(dims: Any, size: int, operation: str, rank: int) -> tuple[int, ...]:
    """How many ranks lie along each axis; those given as 0 are chosen."""
    listed = list(dims) if isinstance(dims, (tuple, list, np.ndarray)) and np.ndim(dims) else [dims]
    if isinstance(dims, (tuple, list, np.ndarray)) and not len(listed):
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
    """Where a rank is; the last coordinate varies fastest."""
    found = []
    for ranks in reversed(dims):
        rank, place = divmod(rank, ranks)
        found.append(place)
    return tuple(reversed(found))


def _balanced(ranks: int, axes: int) -> list[int]:
    """A number as a product of so many factors that are close to each other, in falling order, as MPI_Dims_create."""
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


def _as_periods(periods: Any, axes: int, operation: str, rank: int) -> tuple[bool, ...]:
    listed = list(periods) if isinstance(periods, (tuple, list, np.ndarray)) else [periods] * axes
    if len(listed) != axes or not all(isinstance(one, (bool, np.bool_, int)) for one in listed):
        raise ValueError(
            f"{operation} on rank {rank}: periods {periods} must be True or False, "
            f"or one of them for each of {axes} axes"
        )
    return tuple(map(bool, listed))
