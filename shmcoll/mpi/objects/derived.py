"""Datatypes that are made of others: blocks of elements at places, for each of MPI's constructors.

Bounds, as the standard has them: an element begins at the least lb and ends at the greatest ub of what is in it. If the
program has set bounds of some of it (`resized`), only those count. The end of a structure is aligned like its basic
type that needs most, unless bounds were set.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.objects.datatypes import Contents, Datatype
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.handles import DATATYPE
from shmcoll.mpi.objects.runs import Runs, check_number, joined

_C, _FORTRAN = c["MPI_ORDER_C"], c["MPI_ORDER_FORTRAN"]
_NONE, _BLOCK, _CYCLIC = (c[f"MPI_DISTRIBUTE_{name}"] for name in ("NONE", "BLOCK", "CYCLIC"))
_DEFAULT = c["MPI_DISTRIBUTE_DFLT_DARG"]

Blocks = tuple[Datatype, np.ndarray, np.ndarray]  # of which datatype, how many each, where they begin in bytes


def blocks(parts: Sequence[Blocks], contents: Contents, *, is_struct: bool = False) -> Datatype:
    """Return the datatype of blocks."""
    for _, lengths, _ in parts:
        check_counts("block length", lengths)
    alignment = max([old.alignment for old, lengths, _ in parts if (lengths > 0).any()], default=1)
    bounds = [(old.has_bounds, *_bounds(old, *some)) for old, *some in parts if _has_any(old, some[0])]
    has_bounds = any(is_set for is_set, _, _ in bounds)
    counted = [bound for is_set, *bound in bounds if is_set == has_bounds]
    lb, ub = min((low for low, _ in counted), default=0), max((high for _, high in counted), default=0)
    if is_struct and not has_bounds:
        ub += -(ub - lb) % alignment

    def find() -> Runs:
        return joined([old.runs.blocks(old.extent, lengths, places) for old, lengths, places in parts])

    size = sum(old.size * int(lengths.sum()) for old, lengths, _ in parts)
    return _added(Datatype(find, size, lb, ub - lb, contents, alignment=alignment, has_bounds=has_bounds))


def regular(old: Datatype, count: int, length: int, stride: int, contents: Contents) -> Datatype:
    """Return the datatype of `count` equally long blocks at equal distances in bytes."""
    check_counts("count", [count])
    check_counts("block length", [length])
    number = count * length
    has_any = number > 0 and (old.has_bounds or old.size > 0)
    ends = (0, (count - 1) * stride), (0, (length - 1) * old.extent)  # of blocks, of the elements in one
    lb, ub = (old.lb + sum(map(min, ends)), old.lb + old.extent + sum(map(max, ends))) if has_any else (0, 0)
    pieces, each = (1, number) if stride == length * old.extent else (count, length)
    check_number(pieces)

    def find() -> Runs:
        return old.runs.blocks(old.extent, np.full(pieces, each), np.arange(pieces) * stride)

    alignment, has_bounds = (old.alignment if number else 1), has_any and old.has_bounds
    return _added(Datatype(find, number * old.size, lb, ub - lb, contents, alignment=alignment, has_bounds=has_bounds))


def _added(made: Datatype) -> Datatype:
    DATATYPE.add(made)
    return made


def resized(old: Datatype, lb: int, extent: int, contents: Contents) -> Datatype:
    """Return a datatype with other bounds."""
    made = old.copied()
    made.lb, made.extent, made.has_bounds = lb, extent, True
    return _as_derived(made, contents)


def duplicate(old: Datatype) -> Datatype:
    """Return a copy with the attributes whose functions say so."""
    attributes = old.attributes.copied(old)
    made = old.copied()
    made.attributes = attributes
    is_committed = old.is_committed
    _as_derived(made, Contents(c["MPI_COMBINER_DUP"], types=(old,)))
    made.is_committed = is_committed
    DATATYPE.changed(made)
    return made


def _as_derived(made: Datatype, contents: Contents) -> Datatype:
    for name in ("is_contiguous", "rows"):
        made.__dict__.pop(name, None)
    made.contents, made.name, made.is_committed = contents, "", False
    return _added(made)


def subarray(
    old: Datatype, sizes: Sequence[int], subsizes: Sequence[int], starts: Sequence[int], order: int, contents: Contents
) -> Datatype:
    """Return the datatype of a part of an array."""
    for i, (size, part, start) in enumerate(zip(sizes, subsizes, starts, strict=True)):
        if not (0 < part <= size and 0 <= start <= size - part):
            raise MPIError(
                "MPI_ERR_ARG", f"dimension {i}: {part} elements from {start} on are not in an array of {size}"
            )
    spans = [(np.array([start]), np.array([part])) for start, part in zip(starts, subsizes, strict=True)]
    return _of_dimensions(old, sizes, spans, order, contents)


def distributed(
    old: Datatype,
    size: int,
    rank: int,
    gsizes: Sequence[int],
    distribs: Sequence[int],
    dargs: Sequence[int],
    psizes: Sequence[int],
    order: int,
    contents: Contents,
) -> Datatype:
    """Return the datatype of a rank's part of an array that is spread over a grid of ranks."""
    check_counts("number of ranks", psizes, least=1)
    if int(np.prod(psizes)) != size or not 0 <= rank < size:
        raise MPIError("MPI_ERR_ARG", f"rank {rank} of {size} is not in a grid of {'x'.join(map(str, psizes))} ranks")
    place = np.unravel_index(rank, tuple(psizes))
    spans = [
        _span(i, n, kind, given, ranks, int(mine))
        for i, (n, kind, given, ranks, mine) in enumerate(zip(gsizes, distribs, dargs, psizes, place, strict=True))
    ]
    return _of_dimensions(old, gsizes, spans, order, contents)


def _span(i: int, size: int, kind: int, given: int, ranks: int, mine: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where the parts of a dimension that one of the ranks has begin, and how long they are."""
    if kind == _NONE and ranks == 1:
        return np.array([0]), np.array([size])
    if kind not in (_BLOCK, _CYCLIC):
        raise MPIError("MPI_ERR_ARG", f"dimension {i}: distribution {kind} over {ranks} ranks is none of MPI's")
    block = given
    if given == _DEFAULT:
        block = -(-size // ranks) if kind == _BLOCK else 1
    if block <= 0 or (kind == _BLOCK and block * ranks < size):
        raise MPIError("MPI_ERR_ARG", f"dimension {i}: blocks of {block} for {size} elements over {ranks} ranks")
    starts = np.arange(mine * block, size, ranks * block)
    return starts, np.minimum(block, size - starts)


def _of_dimensions(
    old: Datatype,
    sizes: Sequence[int],
    spans: Sequence[tuple[np.ndarray, np.ndarray]],
    order: int,
    contents: Contents,
) -> Datatype:
    """Return the datatype of parts of an array. spans: by dimension, where they begin, and how long they are."""
    if order not in (_C, _FORTRAN):
        raise MPIError("MPI_ERR_ARG", f"order {order} is neither MPI_ORDER_C nor MPI_ORDER_FORTRAN")
    check_counts("size", sizes, least=1)

    def find() -> Runs:
        runs, stride = old.runs, old.extent
        for i in range(len(sizes)) if order == _FORTRAN else reversed(range(len(sizes))):
            starts, lengths = spans[i]
            runs = runs.blocks(stride, lengths, starts * stride)
            stride *= sizes[i]
        return runs

    number, part = prod(sizes), prod(int(lengths.sum()) for _, lengths in spans)
    made = Datatype(find, part * old.size, 0, number * old.extent, contents, alignment=old.alignment, has_bounds=True)
    return _added(made)


def check_counts(what: str, counts: Sequence[int] | np.ndarray, least: int = 0) -> None:
    """Refuse a number that is too small."""
    smallest = np.min(counts, initial=least) if isinstance(counts, np.ndarray) else min(counts, default=least)
    if smallest < least:
        raise MPIError("MPI_ERR_ARG", f"{what} {smallest} is less than {least}")


def _has_any(old: Datatype, lengths: np.ndarray) -> bool:
    return bool((lengths > 0).any()) and (old.has_bounds or old.size > 0)


def _bounds(old: Datatype, lengths: np.ndarray, places: np.ndarray) -> tuple[int, int]:
    some = lengths > 0
    ends = (lengths[some] - 1) * old.extent
    return (
        int((places[some] + np.minimum(ends, 0)).min()) + old.lb,
        int((places[some] + np.maximum(ends, 0)).max()) + old.lb + old.extent,
    )
