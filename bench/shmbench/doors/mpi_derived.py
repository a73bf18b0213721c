"""Derived datatypes: columns and a block of a matrix, and the exchange in which each rank gets a block of columns."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from shmbench.doors import Apart
from shmbench.timing.ab_timing import Entry, Repeated

WIDTH, QUICK = 1024, 128  # of the square matrix


def apart(world: Any, quick: bool) -> Iterator[Apart]:
    """Yield the calls with elements of a matrix."""
    n = QUICK if quick else WIDTH
    for count in (1, 16):
        name = "column" if count == 1 else f"{count} columns"
        yield Apart(f"{name} of a matrix, there and back", 8 * count * n, partial(_columns, world, n, count))
    half = n // 2
    yield Apart("block of a matrix, there and back", 8 * half * half, partial(_block, world, n))
    yield Apart("Alltoallw of blocks of columns", 8 * n * n, partial(_transposed, world, n))


def _columns(world: Any, n: int, count: int) -> Mapping[str, Entry]:
    from mpi4py import MPI

    return {"mpi": _ping_pong(world, MPI.DOUBLE.Create_vector(n, count, n).Commit(), n, np.s_[:, :count])}


def _block(world: Any, n: int) -> Mapping[str, Entry]:
    from mpi4py import MPI

    half, start = n // 2, n // 4
    datatype = MPI.DOUBLE.Create_subarray([n, n], [half, half], [start, start]).Commit()
    return {"mpi": _ping_pong(world, datatype, n, np.s_[start : start + half, start : start + half])}


def _ping_pong(world: Any, datatype: Any, n: int, part: Any) -> Entry:
    """Return the entry in which a part of a matrix of the partner comes to that part of another one."""
    rank, partner = world.rank, world.rank ^ 1
    if partner >= world.size:
        return Repeated(lambda: None, lambda: 0)
    theirs, right = np.arange(n * n, dtype=np.float64).reshape(n, n) + partner, np.empty((n, n))
    x, out = theirs - partner + rank, np.empty((n, n))
    sent, received = [x, 1, datatype], [out, 1, datatype]

    def call() -> None:
        if rank % 2:
            world.Recv(received, partner)
            world.Send(sent, partner)
        else:
            world.Send(sent, partner)
            world.Recv(received, partner)

    right[...] = -1
    right[part] = theirs[part]
    return Repeated(call, partial(_wrong, call, out, right))


def _transposed(world: Any, n: int) -> Mapping[str, Entry]:
    """Return the entry in which each rank has n / ranks rows of a matrix, and gets as many columns."""
    from mpi4py import MPI

    ranks, rank = world.size, world.rank
    each = n // ranks
    whole = np.arange(ranks * each * ranks * each, dtype=np.float64).reshape(ranks * each, ranks * each)
    mine = np.s_[rank * each : (rank + 1) * each]
    x, out, right = whole[mine].copy(), np.empty((ranks * each, each)), whole[:, mine]

    def datatypes(sizes: list[int], axis: int) -> list[Any]:
        make = MPI.DOUBLE.Create_subarray
        return [
            make(sizes, [each, each], [k * each * (axis == 0), k * each * (axis == 1)]).Commit() for k in range(ranks)
        ]

    counts, places = [1] * ranks, [0] * ranks
    sent = [x, counts, places, datatypes([each, ranks * each], 1)]
    received = [out, counts, places, datatypes([ranks * each, each], 0)]
    call = partial(world.Alltoallw, sent, received)
    return {"mpi": Repeated(call, partial(_wrong, call, out, right))}


def _wrong(call: Callable[[], Any], out: np.ndarray, right: np.ndarray) -> int:
    out[...] = -1
    call()
    return int(np.count_nonzero(out != right))
