"""MPI's messages of ordinary communicators, for datatypes whose elements are runs of bytes, in native code.

A message is bytes, whatever its datatype. A send whose message is short has been made when it returns, so its request
is complete: all of them are one, SENT. See `mpi_entry.py`.
"""

from shmcoll.engine.atomics import call_long, peek, poke_int
from shmcoll.engine.layout import ANY
from shmcoll.engine.messages.recv import FILL
from shmcoll.engine.messages.ring_buffers import PART_BYTES
from shmcoll.engine.messages.send import BEGIN
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
    python_function,
    run,
    table,
)
from shmcoll.engine.native.mpi_table import find, int_of


def send(code, own, large):
    def native(buffer, count, datatype, dest, tag, comm):
        length = bytes_of(datatype, count if large else int_of(count))
        answer = sent(code, buffer, length, dest, tag, comm, AT_ONCE if length <= PART_BYTES else 0)
        if answer == TO_PYTHON:
            return call_long(python_function(own), buffer, count, datatype, dest, tag, comm)
        return answer

    return native


def isend(code, own, large):
    def native(buffer, count, datatype, dest, tag, comm, request):
        length = bytes_of(datatype, count if large else int_of(count))
        answer = TO_PYTHON
        if length <= PART_BYTES:
            answer = sent(code, buffer, length, dest, tag, comm, AT_ONCE)
        if answer == TO_PYTHON:
            return call_long(python_function(own), buffer, count, datatype, dest, tag, comm, request)
        if answer == 0:
            poke_int(request, t.SENT)
        return answer

    return native


def recv(code, own, large):
    def native(buffer, count, datatype, source, tag, comm, status):
        length = bytes_of(datatype, count if large else int_of(count))
        answer = received(code, buffer, length, source, tag, comm, status)
        if answer == TO_PYTHON:
            return call_long(python_function(own), buffer, count, datatype, source, tag, comm, status)
        return answer

    return native


def sendrecv(send_code, recv_code, own, large):
    """Two calls, if the message that goes is short. If the receive needs Python, it is MPI_Recv of Python, whose number
    comes next (`FUNCTIONS`)."""
    python_recv = own + 2

    def native(buffer, count, datatype, dest, tag, into, room, recvtype, source, recvtag, comm, status):
        length = bytes_of(datatype, count if large else int_of(count))
        given = bytes_of(recvtype, room if large else int_of(room))
        answer = TO_PYTHON
        if length <= PART_BYTES and given >= 0 and is_wanted(source, recvtag, comm):
            answer = sent(send_code, buffer, length, dest, tag, comm, AT_ONCE)
        if answer == TO_PYTHON:
            f = python_function(own)
            return call_long(f, buffer, count, datatype, dest, tag, into, room, recvtype, source, recvtag, comm, status)
        if answer == 0:
            answer = received(recv_code, into, given, source, recvtag, comm, status)
            if answer == TO_PYTHON:
                return call_long(python_function(python_recv), into, room, recvtype, source, recvtag, comm, status)
        return answer

    return native


def is_wanted(source, tag, comm):
    """Return whether a receive has a source and a tag that a message may have."""
    known, peer = find(table(), t.COMMS, comm), int_of(source)
    return known and ANY_SOURCE <= peer < peek(known + t.SIZE) and peer != PROC_NULL and int_of(tag) >= -1


def sent(code, buffer, length, dest, tag, comm, more):
    """Send bytes. Return the code of MPI, or TO_PYTHON."""
    known = find(table(), t.COMMS, comm)
    if known and length >= 0 and (length == 0 or is_memory(buffer)):
        return run(known, code, BEGIN, int_of(dest), int_of(tag), BYTE, buffer, length, 0, 0, 0, 0, more)
    return TO_PYTHON


def received(code, buffer, length, source, tag, comm, status):
    """Receive bytes. Return the code of MPI, or TO_PYTHON."""
    known, peer = find(table(), t.COMMS, comm), int_of(source)
    if known and length >= 0 and (length == 0 or is_memory(buffer)) and peer != PROC_NULL:
        wanted = ANY if peer == ANY_SOURCE else peer  # the others are not in the group, which is found out later
        told = max(status, STATUS_IGNORE)
        return run(known, code, FILL, wanted, int_of(tag), 0, 0, 0, BYTE, buffer, length, told, 0)
    return TO_PYTHON


#: see `mpi_functions.py`
FUNCTIONS = {
    "Send": (send, "send", 6),
    "Rsend": (send, "send", 6),
    "Sendrecv": (sendrecv, "send recv", 12),
    "Recv": (recv, "recv", 7),  # behind Sendrecv
    "Isend": (isend, "send", 7),
}
