"""MPI's messages of ordinary communicators in native code.

A message is bytes, whatever its datatype. MPI_Isend of one that is not too long does not wait for its receiver: it
stores the message in a ring (STORE in `engine/messages/send.py`). So its request is complete when it returns: all of
them are one, SENT. See `mpi_entry.py`. MPI_Sendrecv does the same, and so does MPI_Send behind a receive that is only
begun: both ranks may send first.
"""

from shmcoll.engine.atomics import call_long, peek, peek_int, poke_int
from shmcoll.engine.layout import ANY
from shmcoll.engine.messages.recv import FILL
from shmcoll.engine.messages.ring_buffers import PART_BYTES, STORED_BYTES
from shmcoll.engine.messages.send import BEGIN, STORE
from shmcoll.engine.native import mpi_packing as packing
from shmcoll.engine.native import mpi_table as t
from shmcoll.engine.native.mpi_entry import (
    ANY_SOURCE,
    AT_ONCE,
    BYTE,
    PROC_NULL,
    STATUS_IGNORE,
    TO_PYTHON,
    bytes_of,
    is_memory,
    length_in,
    put_status,
    python_function,
    run,
    table,
)
from shmcoll.engine.native.mpi_table import find, int_of

UNKNOWN = 1 << 62


def send(code, own, large):
    def native(buffer, count, datatype, dest, tag, comm):
        number = count if large else int_of(count)
        length = length_of(datatype, number)
        waits = length > PART_BYTES and (length > STORED_BYTES or peek(table() + t.DEFERRED) == 0)
        phase, more = (BEGIN, 0) if waits else (phase_for(length), AT_ONCE)
        answer = sent_elements(code, phase, buffer, number, datatype, dest, tag, comm, more)
        if answer == TO_PYTHON:
            return call_long(python_function(own), buffer, count, datatype, dest, tag, comm)
        return answer

    return native


def isend(code, own, large):
    def native(buffer, count, datatype, dest, tag, comm, request):
        number = count if large else int_of(count)
        answer = TO_PYTHON
        length = length_of(datatype, number)
        if length <= STORED_BYTES:
            answer = sent_elements(code, phase_for(length), buffer, number, datatype, dest, tag, comm, AT_ONCE)
        if answer == TO_PYTHON:
            return call_long(python_function(own), buffer, count, datatype, dest, tag, comm, request)
        if answer == 0:
            poke_int(request, t.SENT)
        return answer

    return native


def recv(code, own, large):
    def native(buffer, count, datatype, source, tag, comm, status):
        number = count if large else int_of(count)
        answer = received_elements(code, buffer, number, datatype, source, tag, comm, status)
        if answer == TO_PYTHON:
            return call_long(python_function(own), buffer, count, datatype, source, tag, comm, status)
        return answer

    return native


def sendrecv(send_code, recv_code, own, large):
    """Two calls, if the message that goes is not long. If the receive needs Python, that is MPI_Recv: its number comes
    next (`FUNCTIONS`)."""
    python_recv = own + 2

    def native(buffer, count, datatype, dest, tag, into, room, recvtype, source, recvtag, comm, status):
        number, places = count if large else int_of(count), room if large else int_of(room)
        answer = TO_PYTHON
        length = length_of(datatype, number)
        if length <= STORED_BYTES and is_wanted(source, recvtag, comm):
            answer = sent_elements(send_code, phase_for(length), buffer, number, datatype, dest, tag, comm, AT_ONCE)
        if answer == TO_PYTHON:
            f = python_function(own)
            return call_long(f, buffer, count, datatype, dest, tag, into, room, recvtype, source, recvtag, comm, status)
        if answer == 0:
            answer = received_elements(recv_code, into, places, recvtype, source, recvtag, comm, status)
            if answer == TO_PYTHON:
                return call_long(python_function(python_recv), into, room, recvtype, source, recvtag, comm, status)
        return answer

    return native


def phase_for(length):
    """Return how a message begins that does not wait for its receiver. A short one finds room nearly always."""
    return STORE if length > PART_BYTES else BEGIN


def length_of(datatype, count):
    """Return the bytes of elements of any datatype; more than any message has, if it is not known here."""
    known = find(table(), t.TYPES, datatype)
    return peek(known + t.BYTES) * count if known else UNKNOWN


def sent_elements(code, phase, buffer, count, datatype, dest, tag, comm, more):
    """Send elements. Return the code of MPI, or TO_PYTHON. phase: BEGIN or STORE. more: see `run`."""
    known = packing.packable(datatype, buffer, count)
    if known == 0:
        return sent(code, phase, buffer, bytes_of(datatype, count), dest, tag, comm, more)
    packed = packing.memory(known, count)
    if packed == 0:
        return TO_PYTHON
    packing.pack(known, buffer, count, packed)
    answer = sent(code, phase, packed, peek(known + t.BYTES) * count, dest, tag, comm, more)
    packing.free(packed)
    return answer


def received_elements(code, buffer, count, datatype, source, tag, comm, status):
    """Receive elements. Return the code of MPI, or TO_PYTHON."""
    known = packing.packable(datatype, buffer, count)
    if known == 0:
        return received(code, buffer, bytes_of(datatype, count), source, tag, comm, status)
    packed = packing.memory(known, count)
    if packed == 0:
        return TO_PYTHON
    told = packing.status_behind(packed, known, count)
    answer = received(code, packed, peek(known + t.BYTES) * count, source, tag, comm, told)
    if answer == 0:
        packing.unpack(known, buffer, packed, told)
        put_status(status, peek_int(told + 8), peek_int(told + 12), length_in(told))
    packing.free(packed)
    return answer


def is_wanted(source, tag, comm):
    """Return whether a receive has a source and a tag that a message may have."""
    known, peer = find(table(), t.COMMS, comm), int_of(source)
    return known and ANY_SOURCE <= peer < peek(known + t.SIZE) and peer != PROC_NULL and int_of(tag) >= -1


def sent(code, phase, buffer, length, dest, tag, comm, more):
    """Send bytes. Return the code of MPI, or TO_PYTHON."""
    known = find(table(), t.COMMS, comm)
    if known and length >= 0 and (length == 0 or is_memory(buffer)):
        return run(
            peek(known + t.MESSAGES), code, phase, int_of(dest), int_of(tag), BYTE, buffer, length, 0, 0, 0, 0, more
        )
    return TO_PYTHON


def received(code, buffer, length, source, tag, comm, status):
    """Receive bytes. Return the code of MPI, or TO_PYTHON."""
    known, peer = find(table(), t.COMMS, comm), int_of(source)
    if known and length >= 0 and (length == 0 or is_memory(buffer)) and peer != PROC_NULL:
        wanted = ANY if peer == ANY_SOURCE else peer  # the others are not in the group, which is found out later
        told = max(status, STATUS_IGNORE)
        return run(peek(known + t.MESSAGES), code, FILL, wanted, int_of(tag), 0, 0, 0, BYTE, buffer, length, told, 0)
    return TO_PYTHON


#: see `mpi_functions.py`
FUNCTIONS = {
    "Send": (send, "send", 6),
    "Rsend": (send, "send", 6),
    "Sendrecv": (sendrecv, "send recv", 12),
    "Recv": (recv, "recv", 7),  # behind Sendrecv
    "Isend": (isend, "send", 7),
}
