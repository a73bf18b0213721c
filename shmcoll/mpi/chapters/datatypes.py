"""MPI's chapter on datatypes: making them, their sizes and bounds.

The contents of a datatype, by which a program reads how it was made, depend on the form of the function that has made
it: that for large counts has its counts, displacements and bounds in one array of MPI_Count.
"""

from collections.abc import Sequence

import numpy as np

from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.abi.memory import Numbers, put_text, text_at
from shmcoll.mpi.objects import derived
from shmcoll.mpi.objects.datatypes import Contents, Datatype
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.handles import DATATYPE

LONGEST_NAME = c["MPI_MAX_OBJECT_NAME"]
_LARGEST = (1 << 31) - 1

# --- making -----------------------------------------------------------------------------------------------------------


def _contents(large: bool, name: str, integers: Sequence[int], addresses: Sequence[int], *types: Datatype) -> Contents:
    """Return the contents of a datatype whose arguments are numbers, and then addresses or bounds."""
    combiner = c[f"MPI_COMBINER_{name}"]
    if large:
        return Contents(combiner, counts=(*integers, *addresses), types=types)
    return Contents(combiner, integers, addresses, types)


@mpi(with_form=True)
def Type_contiguous(large: bool, count: int, old: Datatype) -> Datatype:
    return derived.regular(old, count, 1, old.extent, _contents(large, "CONTIGUOUS", (count,), (), old))


@mpi(with_form=True)
def Type_vector(large: bool, count: int, length: int, stride: int, old: Datatype) -> Datatype:
    contents = _contents(large, "VECTOR", (count, length, stride), (), old)
    return derived.regular(old, count, length, stride * old.extent, contents)


@mpi(with_form=True)
def Type_create_hvector(large: bool, count: int, length: int, stride: int, old: Datatype) -> Datatype:
    contents = _contents(large, "HVECTOR", (count, length), (stride,), old)
    return derived.regular(old, count, length, stride, contents)


@mpi(with_form=True)
def Type_indexed(large: bool, count: int, lengths: Numbers, displacements: Numbers, old: Datatype) -> Datatype:
    some, places = _read(count, lengths, displacements)
    contents = _contents(large, "INDEXED", (count, *some.tolist(), *places.tolist()), (), old)
    return derived.blocks([(old, some, places * old.extent)], contents)


@mpi(with_form=True)
def Type_create_hindexed(large: bool, count: int, lengths: Numbers, displacements: Numbers, old: Datatype) -> Datatype:
    some, places = _read(count, lengths, displacements)
    contents = _contents(large, "HINDEXED", (count, *some.tolist()), places.tolist(), old)
    return derived.blocks([(old, some, places)], contents)


@mpi(with_form=True)
def Type_create_indexed_block(large: bool, count: int, length: int, displacements: Numbers, old: Datatype) -> Datatype:
    (places,) = _read(count, displacements)
    contents = _contents(large, "INDEXED_BLOCK", (count, length, *places.tolist()), (), old)
    return derived.blocks([(old, np.full(count, length), places * old.extent)], contents)


@mpi(with_form=True)
def Type_create_hindexed_block(large: bool, count: int, length: int, displacements: Numbers, old: Datatype) -> Datatype:
    (places,) = _read(count, displacements)
    contents = _contents(large, "HINDEXED_BLOCK", (count, length), places.tolist(), old)
    return derived.blocks([(old, np.full(count, length), places)], contents)


@mpi(with_form=True)
def Type_create_struct(large: bool, count: int, lengths: Numbers, displacements: Numbers, handles: Numbers) -> Datatype:
    some, places = _read(count, lengths, displacements)
    types = [DATATYPE.find(handle) for handle in handles.read(count)]
    contents = _contents(large, "STRUCT", (count, *some.tolist()), places.tolist(), *types)
    parts = [(old, some[i : i + 1], places[i : i + 1]) for i, old in enumerate(types)]
    return derived.blocks(parts, contents, is_struct=True)


@mpi(with_form=True)
def Type_create_subarray(
    large: bool, dimensions: int, sizes: Numbers, subsizes: Numbers, starts: Numbers, order: int, old: Datatype
) -> Datatype:
    shape, parts, firsts = (one.tolist() for one in _read(dimensions, sizes, subsizes, starts, least=1))
    combiner, counts = c["MPI_COMBINER_SUBARRAY"], (*shape, *parts, *firsts)
    contents = Contents(combiner, (dimensions, *counts, order), types=(old,))
    if large:
        contents = Contents(combiner, (dimensions, order), counts=counts, types=(old,))
    return derived.subarray(old, shape, parts, firsts, order, contents)


@mpi(with_form=True)
def Type_create_darray(
    large: bool,
    size: int,
    rank: int,
    dimensions: int,
    gsizes: Numbers,
    distribs: Numbers,
    dargs: Numbers,
    psizes: Numbers,
    order: int,
    old: Datatype,
) -> Datatype:
    shape, *how = (one.tolist() for one in _read(dimensions, gsizes, distribs, dargs, psizes, least=1))
    combiner, numbers = c["MPI_COMBINER_DARRAY"], (*how[0], *how[1], *how[2], order)
    contents = Contents(combiner, (size, rank, dimensions, *shape, *numbers), types=(old,))
    if large:
        contents = Contents(combiner, (size, rank, dimensions, *numbers), counts=shape, types=(old,))
    return derived.distributed(old, size, rank, shape, how[0], how[1], how[2], order, contents)


@mpi(with_form=True)
def Type_create_resized(large: bool, old: Datatype, lb: int, extent: int) -> Datatype:
    return derived.resized(old, lb, extent, _contents(large, "RESIZED", (), (lb, extent), old))


@mpi()
def Type_dup(old: Datatype) -> Datatype:
    return derived.duplicate(old)


def _read(count: int, *arrays: Numbers, least: int = 0) -> list[np.ndarray]:
    derived.check_counts("count", [count], least)
    return [one.array(count) for one in arrays]


# --- using ------------------------------------------------------------------------------------------------------------


@mpi(inout=("datatype",))
def Type_commit(datatype: Numbers) -> None:
    committed = DATATYPE.find(datatype.value)
    committed.is_committed = True
    DATATYPE.changed(committed)


@mpi(inout=("datatype",))
def Type_free(datatype: Numbers) -> None:
    freed = DATATYPE.find(datatype.value)
    if freed.is_predefined:
        raise MPIError("MPI_ERR_TYPE", f"{freed.in_words} belongs to MPI and cannot be freed")
    freed.attributes.clear(freed)
    DATATYPE.remove(freed)
    datatype.value = DATATYPE.null


@mpi()
def Type_set_name(datatype: Datatype, name: int) -> None:
    datatype.name = text_at(name)[: LONGEST_NAME - 1]


@mpi(nullable=("datatype",))
def Type_get_name(datatype: Datatype | None, name: int) -> int:
    return put_text(name, "MPI_DATATYPE_NULL" if datatype is None else datatype.name, LONGEST_NAME)


@mpi(with_form=True)
def Type_size(large: bool, datatype: Datatype) -> int:
    return datatype.size if large or datatype.size <= _LARGEST else c["MPI_UNDEFINED"]


@mpi()
def Type_size_x(datatype: Datatype) -> int:
    return datatype.size


@mpi()
def Type_get_extent(datatype: Datatype) -> tuple[int, int]:
    return datatype.lb, datatype.extent


@mpi()
def Type_get_extent_x(datatype: Datatype) -> tuple[int, int]:
    return datatype.lb, datatype.extent


@mpi()
def Type_get_true_extent(datatype: Datatype) -> tuple[int, int]:
    return datatype.true_lb, datatype.true_ub - datatype.true_lb


@mpi()
def Type_get_true_extent_x(datatype: Datatype) -> tuple[int, int]:
    return datatype.true_lb, datatype.true_ub - datatype.true_lb
