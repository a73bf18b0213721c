"""Topologies of communicators: grids and graphs, as MPI describes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from shmcoll.mpi.objects.communicators import PROC_NULL
from shmcoll.mpi.objects.errors import MPIError


@dataclass(frozen=True)
class Cart:
    """A grid of ranks, in row-major order. periods: whether each dimension closes to a ring."""

    dims: tuple[int, ...]
    periods: tuple[bool, ...]

    def rank(self, coords: Sequence[int]) -> int:
        """Return the rank at coordinates; those of a ring may be outside.

        Raises:
            MPIError: the coordinates are outside of the grid.
        """
        rank = 0
        for place, length, is_ring in zip(coords, self.dims, self.periods, strict=True):
            if not (0 <= place < length or is_ring):
                raise MPIError("MPI_ERR_ARG", f"coordinates {list(coords)} are not in a grid of {list(self.dims)}")
            rank = rank * length + place % length
        return rank

    def coords(self, rank: int) -> tuple[int, ...]:
        found = []
        for length in reversed(self.dims):
            rank, place = divmod(rank, length)
            found.append(place)
        return tuple(reversed(found))

    def shifted(self, rank: int, direction: int, by: int) -> int:
        """Return the rank so many steps away; MPI_PROC_NULL beyond the edge."""
        coords = list(self.coords(rank))
        coords[direction] += by
        if not self.periods[direction] and not 0 <= coords[direction] < self.dims[direction]:
            return PROC_NULL
        return self.rank(coords)

    def neighbors(self, rank: int) -> tuple[list[int], list[int]]:
        """Return sources and destinations of neighbour collectives: before and behind, for each dimension."""
        both = [self.shifted(rank, direction, by) for direction, by in product(range(len(self.dims)), (-1, 1))]
        return both, both


@dataclass(frozen=True)
class Graph:
    """A graph that all ranks know. index: the number of neighbours of ranks up to each. edges: the neighbours."""

    index: tuple[int, ...]
    edges: tuple[int, ...]

    def of(self, rank: int) -> list[int]:
        return list(self.edges[self.index[rank - 1] if rank else 0 : self.index[rank]])

    def neighbors(self, rank: int) -> tuple[list[int], list[int]]:
        return self.of(rank), self.of(rank)


@dataclass(frozen=True)
class DistGraph:
    """A graph of which each rank knows its own edges. Weights are None if the program gave none."""

    sources: tuple[int, ...]
    destinations: tuple[int, ...]
    source_weights: tuple[int, ...] | None
    destination_weights: tuple[int, ...] | None

    def neighbors(self, _rank: int) -> tuple[list[int], list[int]]:
        return list(self.sources), list(self.destinations)


def dims_create(nodes: int, dims: Sequence[int]) -> list[int]:
    """Return dimensions whose product is `nodes`: those that are 0 are chosen, as equal as can be, the larger first.

    Raises:
        MPIError: a dimension is negative, or the given ones do not divide the number.
    """
    fixed = 1
    for length in dims:
        if length < 0:
            raise MPIError("MPI_ERR_DIMS", f"dimension {length} is negative")
        fixed *= length or 1
    free = sum(length == 0 for length in dims)
    if nodes < 1 or nodes % fixed or (not free and fixed != nodes):
        raise MPIError("MPI_ERR_DIMS", f"{nodes} ranks do not fit the dimensions {list(dims)}")
    chosen = sorted(_balanced(nodes // fixed, free), reverse=True)
    return [length or chosen.pop(0) for length in dims]


def _balanced(number: int, parts: int) -> list[int]:
    """Return factors of a number, as equal as can be: of all lists of factors the one whose largest is the least."""
    if parts == 0:
        return []
    if parts == 1:
        return [number]
    best: list[int] | None = None
    for factor in range(1, int(number ** (1 / parts)) + 2):
        if number % factor == 0:
            found = [factor, *_balanced(number // factor, parts - 1)]
            if best is None or (max(found), max(found) - min(found)) < (max(best), max(best) - min(best)):
                best = found
    assert best is not None
    return best
