"""Elements that are not one run of bytes, packed into memory of their own for the time of a call.

The memory is malloc's. Behind the packed bytes there is room for an MPI_Status, which tells how many have been received
whatever the program has asked for.
"""

from shmcoll.engine.atomics import call, copy, peek
from shmcoll.engine.kernels import runs
from shmcoll.engine.native import mpi_table as t
from shmcoll.engine.native.mpi_entry import STATUS_BYTES, is_memory, length_in, table

_UNIT = 8


def packable(datatype, buffer, count):
    """Return the row of a datatype whose elements can be packed here; 0 for another one."""
    known = t.find(table(), t.TYPES, datatype)
    if known == 0 or peek(known + t.IS_RUN) or peek(known + t.RUNS) == 0 or count <= 0 or not is_memory(buffer):
        return 0
    return known


def memory(known, count):
    """Return memory for packed elements; 0 if it cannot be had."""
    return call(peek(table() + t.MALLOC), status_behind(0, known, count) + STATUS_BYTES, 0, 0)


def status_behind(packed, known, count):
    """Return where the status behind packed elements is."""
    length = peek(known + t.BYTES) * count
    return packed + (length + _UNIT - 1) // _UNIT * _UNIT


def free(packed):
    call(peek(table() + t.FREE_MEMORY), packed, 0, 0)


def pack(known, buffer, count, packed):
    runs.pack(peek(known + t.RUNS), peek(known + t.RUN_ROWS), buffer, peek(known + t.EXTENT), count, packed)


def unpack(known, buffer, packed, status):
    """Put what has been received where it belongs."""
    length, size = length_in(status), peek(known + t.BYTES)
    table_of_runs, rows, extent = peek(known + t.RUNS), peek(known + t.RUN_ROWS), peek(known + t.EXTENT)
    whole = length // size
    runs.unpack(table_of_runs, rows, buffer, extent, whole, packed)
    source, left = packed + whole * size, length - whole * size
    for row in range(table_of_runs, table_of_runs + rows * runs.ROW, runs.ROW):  # a part of an element
        for i in range(peek(row + runs.COUNT)):
            part = min(left, peek(row + runs.LENGTH))
            if part > 0:
                copy(buffer + whole * extent + peek(row + runs.OFFSET) + i * peek(row + runs.STEP), source, part)
                source += part
                left -= part
