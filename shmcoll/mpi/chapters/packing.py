"""MPI's chapter on datatypes: packing and unpacking, and how many elements have come.

Packed bytes of MPI_Pack are those of the elements, with nothing between them. The ranks are on one machine.
"""

import numpy as np

from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.abi.memory import Numbers, text_at
from shmcoll.mpi.objects import external32
from shmcoll.mpi.objects import status as statuses
from shmcoll.mpi.objects.buffers import Buffer, memory_at
from shmcoll.mpi.objects.communicators import Comm
from shmcoll.mpi.objects.datatypes import Datatype
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi

_LARGEST = (1 << 31) - 1
_UNDEFINED = c["MPI_UNDEFINED"]


@mpi(inout=("position",))
def Pack(given: int, count: int, datatype: Datatype, packed: int, size: int, position: Numbers, _comm: Comm) -> None:
    buffer = Buffer(given, count, datatype)
    at = _room(packed, size, position, buffer.bytes)
    buffer.pack_into(memory_at(packed + at, buffer.bytes))
    position.value = at + buffer.bytes


@mpi(inout=("position",))
def Unpack(packed: int, size: int, position: Numbers, target: int, count: int, datatype: Datatype, _comm: Comm) -> None:
    buffer = Buffer(target, count, datatype)
    buffer.fill_from(_taken(packed, size, position, buffer.bytes))


@mpi(with_form=True)
def Pack_size(large: bool, count: int, datatype: Datatype, _comm: Comm) -> int:
    return _number(large, _checked(count) * datatype.size)


@mpi(inout=("position",))
def Pack_external(
    form: int, given: int, count: int, datatype: Datatype, packed: int, size: int, position: Numbers
) -> None:
    _check_form(form)
    data = external32.to_external(datatype, Buffer(given, count, datatype).packed())
    at = _room(packed, size, position, len(data))
    memory_at(packed + at, len(data))[:] = data
    position.value = at + len(data)


@mpi(inout=("position",))
def Unpack_external(
    form: int, packed: int, size: int, position: Numbers, target: int, count: int, datatype: Datatype
) -> None:
    _check_form(form)
    buffer = Buffer(target, count, datatype)
    data = _taken(packed, size, position, count * external32.size_of(datatype))
    buffer.fill_from(external32.from_external(datatype, data))


@mpi()
def Pack_external_size(form: int, count: int, datatype: Datatype) -> int:
    _check_form(form)
    return _checked(count) * external32.size_of(datatype)


def _check_form(form: int) -> None:
    if text_at(form) != "external32":
        raise MPIError("MPI_ERR_ARG", f"representation {text_at(form)!r} is not external32")


def _checked(count: int) -> int:
    if count < 0:
        raise MPIError("MPI_ERR_COUNT", f"count {count} is negative")
    return count


def _taken(packed: int, size: int, position: Numbers, length: int) -> np.ndarray:
    at = _room(packed, size, position, length)
    position.value = at + length
    return memory_at(packed + at, length)


def _room(packed: int, size: int, position: Numbers, length: int) -> int:
    """Return the position, from which on there is room for so many bytes."""
    at: int = position.value
    if not 0 <= at <= size - length:
        raise MPIError("MPI_ERR_TRUNCATE", f"{length} bytes from position {at} on are not in a buffer of {size}")
    if length and not packed:
        raise MPIError("MPI_ERR_BUFFER", "the packed buffer is a null pointer")
    return at


# --- how many elements have come --------------------------------------------------------------------------------------


@mpi(with_form=True)
def Get_count(large: bool, status: int, datatype: Datatype) -> int:
    length = statuses.at(status).bytes
    if datatype.size == 0:
        return 0 if length == 0 else _UNDEFINED
    count, rest = divmod(length, datatype.size)
    return _UNDEFINED if rest else _number(large, count)


@mpi(with_form=True)
def Get_elements(large: bool, status: int, datatype: Datatype) -> int:
    return _number(large, _elements(statuses.at(status).bytes, datatype))


@mpi()
def Get_elements_x(status: int, datatype: Datatype) -> int:
    return _elements(statuses.at(status).bytes, datatype)


@mpi()
def Status_set_elements(status: int, datatype: Datatype, count: int) -> None:
    told = statuses.at(status)
    told.bytes = _bytes(_checked(count), datatype)
    told.store(status, with_error=True)


@mpi()
def Status_set_elements_x(status: int, datatype: Datatype, count: int) -> None:
    Status_set_elements(status, datatype, count)


def _elements(length: int, datatype: Datatype) -> int:
    """Return how many basic elements begin a row of so many bytes; MPI_UNDEFINED if the last is not whole."""
    if datatype.size == 0:
        return 0 if length == 0 else _UNDEFINED
    whole, rest = divmod(length, datatype.size)
    ends = np.cumsum(datatype.runs.lengths)
    run = int(np.searchsorted(ends, rest, side="right"))  # which the rest ends in
    within = rest - int(ends[run - 1]) if run else rest
    sizes = datatype.runs.lengths // datatype.elements
    if within % int(sizes[run]):
        return _UNDEFINED
    return whole * int(datatype.elements.sum()) + int(datatype.elements[:run].sum()) + within // int(sizes[run])


def _bytes(count: int, datatype: Datatype) -> int:
    """Return how many bytes so many basic elements have."""
    if datatype.size == 0:
        return 0
    whole, rest = divmod(count, int(datatype.elements.sum()))
    ends = np.cumsum(datatype.elements)
    run = int(np.searchsorted(ends, rest, side="right"))
    within = rest - int(ends[run - 1]) if run else rest
    sizes = datatype.runs.lengths // datatype.elements
    return whole * datatype.size + int(datatype.runs.lengths[:run].sum()) + within * int(sizes[run])


def _number(large: bool, number: int) -> int:
    """Return a number that comes out; MPI_UNDEFINED if an int cannot hold it."""
    return number if large or number <= _LARGEST else _UNDEFINED
