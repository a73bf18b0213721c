"""MPI's collectives of blocks of different lengths, of ordinary communicators, in native code.

The counts and displacements of the program go into the table of the communicator's context, in bytes, as the entry of
shmcoll's own calls fills it (`entry_counts.py`).
"""

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.atomics import call, call_long, peek, peek_int, poke
from shmcoll.engine.collective import OWN_COUNTS, X_AT_ROOT
from shmcoll.engine.layout import LARGEST_COUNT, WORD
from shmcoll.engine.native import cpython as py
from shmcoll.engine.native import mpi_table as t
from shmcoll.engine.native.entering import what_hinders
from shmcoll.engine.native.entry import FILLED
from shmcoll.engine.native.entry_counts import arrays_suit, is_given, receives, row, send_all_of_x, sends, set_row
from shmcoll.engine.native.mpi_entry import (
    BYTE,
    IN_PLACE,
    TO_PYTHON,
    bytes_of,
    ended,
    is_memory,
    python_function,
    set_line,
    table,
)
from shmcoll.engine.native.mpi_table import find, int_of
from shmcoll.engine.native.tables import KINDS, OWN_TABLE, ROUTINES
from shmcoll.engine.protocol.count_tables import BOTH, PHASE, TABLE

NONE = -1  # bytes of a side that has no array


def all_gather_v(code, own, large):
    def native(source, count, datatype, target, counts, places, recvtype, comm):
        known, length = find(table(), t.COMMS, comm), bytes_of(datatype, count if large else int_of(count))
        item, answer = bytes_of(recvtype, 1), TO_PYTHON
        if known and length >= 0 and item > 0 and source != IN_PLACE and target != IN_PLACE:
            answer = move(known, code, 0, source, length, 0, 0, 0, target, NONE, counts, places, item, large)
        if answer == TO_PYTHON:
            return call_long(python_function(own), source, count, datatype, target, counts, places, recvtype, comm)
        return answer

    return native


def gather_v(code, own, large):
    def native(source, count, datatype, target, counts, places, recvtype, root, comm):
        known, at, answer = find(table(), t.COMMS, comm), int_of(root), TO_PYTHON
        length, item = bytes_of(datatype, count if large else int_of(count)), bytes_of(recvtype, 1)
        if known and length >= 0 and source != IN_PLACE:
            if at != peek(known + t.RANK):
                answer = move(known, code, at, source, length, 0, 0, 0, 0, NONE, 0, 0, 0, large)
            elif item > 0:
                answer = move(known, code, at, source, length, 0, 0, 0, target, NONE, counts, places, item, large)
        if answer == TO_PYTHON:
            f = python_function(own)
            return call_long(f, source, count, datatype, target, counts, places, recvtype, root, comm)
        return answer

    return native


def scatter_v(code, own, large):
    def native(source, counts, places, datatype, target, count, recvtype, root, comm):
        known, at, answer = find(table(), t.COMMS, comm), int_of(root), TO_PYTHON
        length, item = bytes_of(recvtype, count if large else int_of(count)), bytes_of(datatype, 1)
        if known and length >= 0 and target != IN_PLACE:
            if at != peek(known + t.RANK):
                answer = move(known, code, at, 0, NONE, 0, 0, 0, target, length, 0, 0, 0, large)
            elif item > 0:
                answer = move(known, code, at, source, NONE, counts, places, item, target, length, 0, 0, 0, large)
        if answer == TO_PYTHON:
            f = python_function(own)
            return call_long(f, source, counts, places, datatype, target, count, recvtype, root, comm)
        return answer

    return native


def all_to_all_v(code, own, large):
    def native(source, counts, places, datatype, target, recvcounts, recvplaces, recvtype, comm):
        known, item, other = find(table(), t.COMMS, comm), bytes_of(datatype, 1), bytes_of(recvtype, 1)
        answer = TO_PYTHON
        if known and item > 0 and other > 0 and source != IN_PLACE:
            out, room = target, NONE
            answer = move(
                known, code, 0, source, NONE, counts, places, item, out, room, recvcounts, recvplaces, other, large
            )
        if answer == TO_PYTHON:
            f = python_function(own)
            return call_long(f, source, counts, places, datatype, target, recvcounts, recvplaces, recvtype, comm)
        return answer

    return native


def move(comm, code, root, x, length, counts, places, item, out, room, recvcounts, recvplaces, other, large):
    """Call a routine with counts. Return the code of MPI, or TO_PYTHON.

    Args:
        comm: the row of the communicator.
        length, room: bytes of x and of `out` that have no counts; NONE if they have counts, or are not there.
        counts, places, recvcounts, recvplaces: addresses of arrays of the program, or 0.
        item, other: bytes that a count and a displacement count; 0 if there are none.
        large: whether the numbers in these arrays have 64 bits.
    """
    if (item and not (counts and places)) or (other and not (recvcounts and recvplaces)):  # Python tells which is null
        return TO_PYTHON
    size = peek(comm + t.SIZE)
    given = span(counts, places, item, size, large) if counts else length
    taken = span(recvcounts, recvplaces, other, size, large) if recvcounts else room
    if peek(table() + t.DEFERRED) or (given > 0 and not is_memory(x)) or (taken > 0 and not is_memory(out)):
        return TO_PYTHON
    if (given == NONE and counts) or (taken == NONE and recvcounts):  # it is not possible
        return TO_PYTHON
    ctx = peek(comm + t.CONTEXT)
    gil = py.ensure_gil()
    kind, routine = peek(ctx + KINDS + code * WORD), peek(ctx + ROUTINES + code * WORD)
    answer = what_hinders(ctx, kind)
    if answer == c.OK:
        set_line(ctx + c.X, BYTE if given != NONE else 0, x, given)
        set_line(ctx + c.OUT, BYTE if taken != NONE else 0, out, taken)
        poke(ctx + c.REDUCTION, 0)
        poke(ctx + c.ARGUMENT, root)
        poke(ctx + c.ARGUMENT_2, 0)
        poke(ctx + c.ALGORITHM, 0)
        if routine == 0 or not arrays_suit(ctx, kind):
            answer = c.NEEDS_PYTHON
        else:
            fill_sends(ctx, kind, counts, places, item, large)
            fill_receives(ctx, kind, recvcounts, recvplaces, other, large)
            poke(ctx + PHASE, BOTH)
            poke(ctx + TABLE, ctx + OWN_TABLE)
            poke(ctx + c.OPERATION, code)
            answer = call(routine, ctx, FILLED, 0)
    told = ended(ctx, answer, 0, 0)
    py.leave_gil(gil)
    return told


def span(counts, places, item, size, large):
    """Return where the blocks end; NONE if a number is not possible."""
    end = 0
    for i in range(size):
        count, place = number(counts, i, large), number(places, i, large) if places else -1
        if not 0 <= count <= LARGEST_COUNT // item or not 0 <= place <= LARGEST_COUNT // item:
            return NONE
        if count > 0:
            end = max(end, (place + count) * item)
    return end


def number(numbers, i, large):
    return peek(numbers + i * WORD) if large else peek_int(numbers + 4 * i)


def fill_sends(ctx, kind, counts, places, item, large):
    if kind & OWN_COUNTS == 0:
        send_all_of_x(ctx, kind)
    elif sends(ctx, kind):
        fill_rows(ctx, layout.SEND_COUNTS, layout.SEND_DISPLS, counts, places, item, large)
    else:
        set_row(ctx, layout.SEND_COUNTS, 0)
        set_row(ctx, layout.SEND_DISPLS, 0)


def fill_receives(ctx, kind, counts, places, item, large):
    x, out, ends = ctx + c.X, ctx + c.OUT, row(ctx, layout.TABLE_SIZES)
    set_row(ctx, layout.RECV_COUNTS, -1)
    set_row(ctx, layout.RECV_DISPLS, -1)
    set_row(ctx, layout.RECV_ROOM, -1)
    if kind & X_AT_ROOT:
        poke(row(ctx, layout.RECV_COUNTS) + peek(ctx + c.ARGUMENT) * WORD, peek(out + c.COUNT))
    elif receives(ctx, kind):
        fill_rows(ctx, layout.RECV_COUNTS, layout.RECV_DISPLS, counts, places, item, large)
    poke(ends + layout.SOURCE_SIZE * WORD, peek(x + c.COUNT))
    poke(ends + layout.RESULT_SIZE * WORD, peek(out + c.COUNT) if is_given(out) else -1)
    poke(ends + layout.ELEMENT_TYPE * WORD, max(peek(x + c.DTYPE), peek(out + c.DTYPE)))


def fill_rows(ctx, lengths, starts, counts, places, item, large):
    for i in range(peek(ctx + c.SIZE)):
        poke(row(ctx, lengths) + i * WORD, number(counts, i, large) * item)
        poke(row(ctx, starts) + i * WORD, number(places, i, large) * item)


#: see `mpi_functions.py`
FUNCTIONS = {
    "Allgatherv": (all_gather_v, "all_gather_v", 8),
    "Gatherv": (gather_v, "gather_v", 9),
    "Scatterv": (scatter_v, "scatter_v", 9),
    "Alltoallv": (all_to_all_v, "all_to_all_v", 9),
}
