"""MPI's chapter on datatypes: how a datatype was made, and datatypes that are found by what they must hold."""

from functools import cache
from typing import Any

from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.objects.datatypes import BY_NAME, PAIRS, Contents, Datatype
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.handles import DATATYPE

_UNDEFINED = c["MPI_UNDEFINED"]

# --- how it was made --------------------------------------------------------------------------------------------------


@mpi(with_form=True)
def Type_get_envelope(large: bool, datatype: Datatype) -> tuple[int, ...]:
    made = datatype.contents
    numbers, addresses, types = len(made.integers), len(made.addresses), len(made.types)
    if large:
        return numbers, addresses, len(made.counts), types, made.combiner
    _check_counts(datatype)
    return numbers, addresses, types, made.combiner


@mpi(with_form=True)
def Type_get_contents(large: bool, datatype: Datatype, *given: Any) -> None:
    made = datatype.contents
    if datatype.is_named:
        raise MPIError("MPI_ERR_TYPE", f"{datatype.in_words} was not made of others, so it has no contents")
    if not large:
        _check_counts(datatype)
    numbers = [made.integers, made.addresses, *([made.counts] if large else [])]
    needed = [*map(len, numbers), len(made.types)]
    for room, length in zip(given, needed, strict=False):
        if room < length:
            raise MPIError(
                "MPI_ERR_ARG", f"room for {room} arguments of {datatype.in_words}, which has {length} of a kind"
            )
    *arrays, handles = given[len(needed) :]
    for array, field in zip(arrays, numbers, strict=True):
        array.write(field)
    handles.write([for_program(one).handle for one in made.types])


def for_program(datatype: Datatype) -> Datatype:
    """Return a datatype that the program may free: another one that is the same, or MPI's own."""
    if datatype.is_predefined:
        return datatype
    made = datatype.copied()
    DATATYPE.add(made)
    return made


def _check_counts(datatype: Datatype) -> None:
    if datatype.contents.counts:
        raise MPIError("MPI_ERR_TYPE", f"{datatype.in_words} was made with large counts; call the function with _c")


# --- by what it must hold ---------------------------------------------------------------------------------------------

#: by class: names and sizes
_OF_CLASS = {
    c["MPI_TYPECLASS_INTEGER"]: ("INTEGER", (1, 2, 4, 8, 16)),
    c["MPI_TYPECLASS_REAL"]: ("REAL", (2, 4, 8, 16)),
    c["MPI_TYPECLASS_COMPLEX"]: ("COMPLEX", (4, 8, 16, 32)),
    c["MPI_TYPECLASS_COMPLEX"] + 1: ("LOGICAL", (1, 2, 4, 8, 16)),  # MPI 5; its name is missing in MPICH 5.0's header
}
_DIGITS = {2: 1, 4: 2, 9: 4, 18: 8, 38: 16}  # of an integer: its size
_PRECISIONS = {(6, 37): 4, (15, 307): 8, (33, 4931): 16}  # digits and range of a real number: its size


@mpi()
def Type_match_size(typeclass: int, size: int) -> Datatype:
    name, sizes = _OF_CLASS.get(typeclass, ("", ()))
    if size not in sizes:
        raise MPIError("MPI_ERR_ARG", f"no datatype of {name or f'class {typeclass}'} has {size} bytes")
    return BY_NAME[f"{name}{size}"]


@mpi()
def Type_create_f90_integer(r: int) -> Datatype:
    size = next((size for digits, size in _DIGITS.items() if r <= digits), None)
    return _f90("INTEGER", size, (r,))


@mpi()
def Type_create_f90_real(p: int, r: int) -> Datatype:
    return _f90("REAL", _size_of_real(p, r), (p, r))


@mpi()
def Type_create_f90_complex(p: int, r: int) -> Datatype:
    size = _size_of_real(p, r)
    return _f90("COMPLEX", size and 2 * size, (p, r))


def _size_of_real(p: int, r: int) -> int | None:
    if p == r == _UNDEFINED:
        return None
    return next((size for (digits, most), size in _PRECISIONS.items() if p <= digits and r <= most), None)


@cache
def _f90(name: str, size: int | None, arguments: tuple[int, ...]) -> Datatype:
    """Return the datatype of a Fortran kind: the same each time, as the standard has it."""
    if size is None:
        raise MPIError("MPI_ERR_ARG", f"no datatype of {name} has the precision and range {arguments}")
    made = BY_NAME[f"{name}{size}"].copied()
    made.contents, made.name = Contents(c[f"MPI_COMBINER_F90_{name}"], arguments), ""
    DATATYPE.add(made)
    return made


@mpi()
def Type_get_value_index(value: Datatype, index: Datatype) -> Datatype | None:
    return PAIRS.get((value, index))
