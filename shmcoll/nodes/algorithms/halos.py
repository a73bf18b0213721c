"""The exchange of halos over nodes: `Grid.exchange`.

Axis by axis, so that corners arrive with the second axis: each rank sends its outer layers, halos of earlier axes
included, to the neighbours before and behind it, and writes what they send into its halo. Before that all ranks get
the shapes of all, and each of them checks that neighbours have equal extents.

What a rank sends to one neighbour is one block: first the layers for that rank's halo behind, then those for its halo
before. With two ranks on a periodic axis both are for the same rank.
"""

from typing import TYPE_CHECKING

import numpy as np

from shmcoll.calls.arrays import exact
from shmcoll.engine import context as c
from shmcoll.errors import CollectiveMismatch
from shmcoll.nodes.mpi.wire import as_bytes, table_at

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher

_OK = int(c.OK)
_COLUMNS = 4  # of the table: axis, ranks along it, the distance of neighbours in ranks, whether it is periodic
_MOST = 16  # dimensions


def exchange(
    d: "NodesDispatcher",
    name: str,
    x: np.ndarray,
    _0: np.ndarray,
    _1: int,
    mark: int,
    width: int,
    _2: int,
    axes: int,
    address: int,
) -> int:
    if not (x.flags.c_contiguous and x.flags.aligned and x.flags.writeable):
        return int(c.NEEDS_PYTHON)  # another array of the shape and dtype for which the arguments have been checked
    x = exact(x)
    table = table_at(address, _COLUMNS * axes).reshape(axes, _COLUMNS).tolist()
    own = np.zeros(1 + _MOST, np.int64)
    own[0], own[1 : 1 + x.ndim] = x.ndim, x.shape
    rows = d.agreement.open_rows(name, x, (mark, width), own.view(np.uint8))
    shapes = [row[1 : 1 + row[0]].tolist() for row in np.ascontiguousarray(rows).view(np.int64)]
    for rank, (axis, *axis_of_grid) in ((rank, one) for rank in range(d.size) for one in table):
        for peer in _neighbours(rank, *axis_of_grid):
            if peer is not None and _face(shapes[peer], axis) != _face(shapes[rank], axis):
                wrong = f"rank {d.group.name(rank)} has shape {shapes[rank]}, its neighbour {d.group.name(peer)}"
                wrong += f" along axis {axis} has {shapes[peer]}"
                d.agreement.refuse(CollectiveMismatch, f"{name} #{d.agreement.sequence}: {wrong}")
    for axis, ranks, distance, periodic in table:
        _fill(d, x, width, axis, *_neighbours(d.rank, ranks, distance, periodic))
    return _OK


def _face(shape: list[int], axis: int) -> list[int]:
    return [extent for i, extent in enumerate(shape) if i != axis]


def _neighbours(rank: int, ranks: int, distance: int, periodic: int) -> tuple[int | None, int | None]:
    """Return the ranks before and behind along an axis; None beyond an open boundary."""
    place = rank // distance % ranks
    found = []
    for step in (-1, 1):
        inside = periodic or 0 <= place + step < ranks
        found.append(rank + ((place + step) % ranks - place) * distance if inside else None)
    return found[0], found[1]


def _fill(d: "NodesDispatcher", x: np.ndarray, width: int, axis: int, before: int | None, behind: int | None) -> None:
    def layers(begin: int, end: int | None) -> np.ndarray:
        return x[(*[slice(None)] * axis, slice(begin, end))]

    # By peer: what goes there, and where what comes from there is written
    sent: dict[int, list[np.ndarray]] = {}
    places: dict[int, list[np.ndarray]] = {}
    if before is not None:  # our first layers are for its halo behind
        sent.setdefault(before, []).append(layers(width, 2 * width))
    if behind is not None:
        sent.setdefault(behind, []).append(layers(-2 * width, -width))
        places.setdefault(behind, []).append(layers(-width, None))
    if before is not None:
        places.setdefault(before, []).append(layers(0, width))
    counts = np.zeros(d.size, np.int64)
    for peer, parts in sent.items():
        counts[peer] = sum(part.nbytes for part in parts)
    displs = np.cumsum(counts) - counts
    joined = [as_bytes(np.ascontiguousarray(part)) for peer in sorted(sent) for part in sent[peer]]
    source = np.concatenate(joined) if joined else np.empty(0, np.uint8)
    target = np.empty_like(source)
    d.agreement.swap(source, target, counts, displs)
    for peer, parts in places.items():
        at = int(displs[peer])
        for part in parts:
            part[...] = target[at : at + part.nbytes].view(x.dtype).reshape(part.shape)
            at += part.nbytes
