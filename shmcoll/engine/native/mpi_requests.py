"""Requests and probes of MPI in native code: slots of the table (`mpi_table.py`).

A receive that is only begun, and a message that is only probed, need not be known to anybody but this process, as long
as it makes no other call. So they wait in a slot, POSTED or PROBED, and nothing has been done for them. The call that
completes them, MPI_Wait or MPI_Mrecv, receives. All other calls but short sends leave it to Python to settle them
first: Python posts the receives and takes the messages, in their order, so that they are as if it had done so at once.
So their senders go on while this rank waits for something else, and no other receive gets their messages.

    POSTED      a receive. The wait for it receives: it waits if nothing else is deferred; else it polls
    PROBED      a message that has been found, and stays in its ring until MPI_Mrecv
    DONE        a receive that is complete
    RUNNING     a wait has begun to receive for it, and Python leaves it alone
    IN_PYTHON   Python has settled it, and has an object for the handle until it is removed

A slot is written under the GIL. HELD counts those that are neither free nor Python's.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import call_long, peek, peek_int, poke, poke_int, yield_core
from shmcoll.engine.layout import ANY, LARGEST_TAG, WORD
from shmcoll.engine.messages.recv import DATA, FETCH, FILL, MARK, SOON, TRY
from shmcoll.engine.messages.ring_buffers import FOUND_SOURCE, FOUND_TAG, FOUND_TOTAL, FOUND_TYPE, found_message
from shmcoll.engine.native import cpython as py
from shmcoll.engine.native import mpi_table as t
from shmcoll.engine.native.entering import what_hinders
from shmcoll.engine.native.mpi_entry import (
    ANY_SOURCE,
    BYTE,
    PROC_NULL,
    STATUS_BYTES,
    STATUS_IGNORE,
    TO_PYTHON,
    bytes_of,
    ended,
    enter,
    is_memory,
    put_status,
    python_function,
    set_line,
    table,
)
from shmcoll.engine.native.mpi_table import find, int_of
from shmcoll.engine.native.tables import KINDS, ROUTINES, dtype_in

NO_REQUEST = NO_MESSAGE = 0x2C000000
NOBODYS_MESSAGE = 0x6C000000
ANY_TAG = -1
ROUNDS = 64  # of looks for the messages of several receives, before Python waits for them
NOTHING = -2  # no message has come, and nothing has been done


# --- begun ------------------------------------------------------------------------------------------------------------


def irecv(own, large):
    def native(buffer, count, datatype, source, tag, comm, request):
        length = bytes_of(datatype, count if large else int_of(count))
        slot = 0
        if length == 0 or (length > 0 and is_memory(buffer)):
            slot = posted(comm, int_of(source), int_of(tag), buffer, length)
        if slot == 0:
            return call_long(python_function(own), buffer, count, datatype, source, tag, comm, request)
        poke_int(request, t.FIRST_REQUEST + number_of(slot))
        return 0

    return native


def posted(comm, source, tag, buffer, length):
    """Post a receive. Return its slot; 0 if Python has to do it."""
    known = find(table(), t.COMMS, comm)
    if known == 0 or not ANY_SOURCE <= source < peek(known + t.SIZE) or source == PROC_NULL or tag < ANY_TAG:
        return 0
    gil, slot = py.ensure_gil(), 0
    ctx = peek(known + t.MESSAGES)
    if peek(ctx + c.ACTIVE) == 0 and peek(ctx + c.OWNER) == 0:
        slot = held(t.POSTED, peek(known), ANY if source == ANY_SOURCE else source, tag, buffer, length)
    py.leave_gil(gil)
    return slot


def held(state, comm, source, tag, buffer, length):
    """Fill a free slot, and return it; 0 if all are taken."""
    place = table() + t.SLOTS
    for _ in range(t.MOST_SLOTS):
        if peek(place + t.STATE) == t.FREE:
            poke(place + t.STATE, state)
            poke(place + t.COMM, comm)
            poke(place + t.SOURCE, source)
            poke(place + t.TAG, tag)
            poke(place + t.BUFFER, buffer)
            poke(place + t.LENGTH, length)
            poke(place + t.ORDER, peek(table() + t.NEXT))
            count(t.NEXT, 1)
            count(t.HELD, 1)
            count(t.DEFERRED, 1)
            return place
        place += t.SLOT
    return 0


def count(word, by):
    poke(table() + word, peek(table() + word) + by)


def number_of(slot):
    return (slot - table() - t.SLOTS) // t.SLOT


def slot_of(handle, first):
    """Return the slot of a handle; 0 if it has none."""
    i = handle - first
    return table() + t.SLOTS + i * t.SLOT if 0 <= i < t.MOST_SLOTS else 0


def release(slot):
    poke(slot + t.STATE, t.FREE)
    count(t.HELD, -1)


# --- received ---------------------------------------------------------------------------------------------------------


def receive(code, slot, phase, buffer, room, state):
    """Receive the message of a slot that is in this state. Then it is DONE, with what came. Return the code of MPI;
    NOTHING or TO_PYTHON if the slot is as it was. No message can have come if another slot gets it."""
    gil = py.ensure_gil()
    known = find(table(), t.COMMS, peek(slot + t.COMM))
    answer = TO_PYTHON
    is_possible = known and is_loaded(known, code) and peek(slot + t.STATE) == state
    if is_possible and not is_first(slot):
        answer = NOTHING
    elif is_possible:
        poke(slot + t.STATE, t.RUNNING)
        count(t.DEFERRED, -1)
        answer = received(peek(known + t.MESSAGES), code, slot, phase, buffer, room)
        if answer in (TO_PYTHON, NOTHING):
            poke(slot + t.STATE, state)
            count(t.DEFERRED, 1)
        else:
            poke(slot + t.STATE, t.DONE)
    py.leave_gil(gil)
    return answer


def is_loaded(comm, code):
    """Return whether the routine of an operation is: else its answer does not say that no message has come."""
    return peek(peek(comm + t.MESSAGES) + ROUTINES + code * WORD) != 0


def is_first(slot):
    """Return whether no other slot, posted or probed before, may want the same message."""
    if peek(table() + t.DEFERRED) == 1:
        return 1
    place = table() + t.SLOTS
    for _ in range(t.MOST_SLOTS):
        if place != slot and peek(place + t.STATE) in (t.POSTED, t.PROBED, t.RUNNING):
            earlier = peek(place + t.ORDER) < peek(slot + t.ORDER) and peek(place + t.COMM) == peek(slot + t.COMM)
            if earlier and alike(place, slot, t.SOURCE, ANY) and alike(place, slot, t.TAG, ANY_TAG):
                return 0
        place += t.SLOT
    return 1


def alike(one, other, word, wildcard):
    return peek(one + word) == peek(other + word) or wildcard in (peek(one + word), peek(other + word))


def received(ctx, code, slot, phase, buffer, room):
    """Receive into `buffer`, and note source, tag and length in the slot. Call it under the GIL. Return as
    `receive`."""
    answer = what_hinders(ctx, peek(ctx + KINDS + code * WORD))
    if answer == c.OK:
        set_line(ctx + c.X, 0, 0, 0)
        set_line(ctx + c.OUT, BYTE, buffer, room)
        source, tag = peek(slot + t.SOURCE), peek(slot + t.TAG)
        answer = enter(ctx, code, phase, source, tag)
        if answer == c.HALFWAY:  # there is a message
            answer = enter(ctx, code, DATA, source, tag)
    if phase in (TRY, SOON) and answer == c.NOTHING_YET:
        if peek(ctx + c.POLLS) == 0:  # the sender may need this core
            yield_core()
        return NOTHING
    if answer < c.OK:
        where = -1 - answer
        poke(slot + t.SOURCE, where >> 32)
        poke(slot + t.TAG, where & LARGEST_TAG)
        poke(slot + t.LENGTH, peek(found_message(ctx) + FOUND_TOTAL))
        return 0
    return ended(ctx, answer, STATUS_IGNORE, 0)


# --- waits and tests --------------------------------------------------------------------------------------------------


def wait(code, own, _large):
    def native(request, status):
        answer = complete_all(code, 1, request)
        if answer == TO_PYTHON:
            return call_long(python_function(own), request, status)
        retire(request, status)
        return answer

    return native


def test(code, own, _large):
    def native(request, flag, status):
        answer = complete(code, request, 0) if flag else TO_PYTHON
        if answer == NOTHING and peek(table() + t.DEFERRED) == 1:
            poke_int(flag, 0)
            return 0
        if answer in (TO_PYTHON, NOTHING):
            return call_long(python_function(own), request, flag, status)
        retire(request, status)
        poke_int(flag, 1)
        return answer

    return native


def wait_all(code, own, _large):
    def native(number, requests, statuses):
        answer = complete_all(code, int_of(number), requests) if int_of(number) >= 0 else TO_PYTHON
        if answer == TO_PYTHON:
            return call_long(python_function(own), number, requests, statuses)
        if answer == 0:
            for i in range(int_of(number)):
                retire(requests + 4 * i, statuses + STATUS_BYTES * i if statuses > STATUS_IGNORE else 0)
        return answer

    return native


def complete_all(code, number, requests):
    """Wait for a while until requests are complete. Return 0 if they are, an error of MPI, or TO_PYTHON."""
    for _ in range(ROUNDS):
        left, answer = 0, 0
        for i in range(number):
            if answer in (0, NOTHING):
                answer = complete(code, requests + 4 * i, left == 0)
                left += 1 if answer == NOTHING else 0
        if answer not in (0, NOTHING):
            return answer
        if left == 0:
            return 0
        yield_core()
    return TO_PYTHON


def complete(code, request, waits):
    """Complete a request. Return 0 if it is, an error of MPI; TO_PYTHON if Python has it, or has to go on; or NOTHING
    if no message has come."""
    handle = peek_int(request) if request else 0
    if handle in (NO_REQUEST, t.SENT):
        return 0
    slot = slot_of(handle, t.FIRST_REQUEST)
    state = peek(slot + t.STATE) if slot else t.IN_PYTHON
    if state == t.DONE:
        return 0
    if state != t.POSTED:
        return TO_PYTHON
    phase = TRY
    if waits:
        phase = FILL if peek(table() + t.DEFERRED) == 1 else SOON
    return receive(code, slot, phase, peek(slot + t.BUFFER), peek(slot + t.LENGTH), t.POSTED)


def retire(request, status):
    """Make a request that is complete null, and tell its status."""
    slot = slot_of(peek_int(request), t.FIRST_REQUEST)
    if slot:
        put_status(status, peek(slot + t.SOURCE), peek(slot + t.TAG), peek(slot + t.LENGTH))
        gil = py.ensure_gil()
        release(slot)
        py.leave_gil(gil)
    else:
        put_status(status, ANY_SOURCE, ANY_TAG, 0)
        if status > STATUS_IGNORE:
            poke_int(status + 16, 0)
    poke_int(request, NO_REQUEST)


# --- probes -----------------------------------------------------------------------------------------------------------


def mprobe(code, own, _large):
    def native(source, tag, comm, message, status):
        answer, slot = TO_PYTHON, 0
        if message:
            poke_int(message, NOBODYS_MESSAGE)  # until it is there: after Ctrl-C mpi4py looks at it
            put_status(status, PROC_NULL, ANY_TAG, 0)
            answer, slot = probed(code, comm, int_of(source), int_of(tag), FETCH)
        if answer != 0:
            if answer in (TO_PYTHON, NOTHING):
                return call_long(python_function(own), source, tag, comm, message, status)
            return answer
        put_status(status, peek(slot + t.SOURCE), peek(slot + t.TAG), peek(slot + t.LENGTH))
        poke_int(message, t.FIRST_MESSAGE + number_of(slot))
        return 0

    return native


def mrecv(code, own, large):
    def native(buffer, number, datatype, message, status):
        length = bytes_of(datatype, number if large else int_of(number))
        slot = slot_of(peek_int(message), t.FIRST_MESSAGE) if message else 0
        answer = TO_PYTHON
        if message and peek_int(message) == NOBODYS_MESSAGE:
            put_status(status, PROC_NULL, ANY_TAG, 0)
            poke_int(message, NO_MESSAGE)
            return 0
        if slot and (length == 0 or (length > 0 and is_memory(buffer))) and length >= peek(slot + t.LENGTH):
            answer = receive(code, slot, FILL, buffer, length, t.PROBED)
        if answer in (TO_PYTHON, NOTHING):
            return call_long(python_function(own), buffer, number, datatype, message, status)
        put_status(status, peek(slot + t.SOURCE), peek(slot + t.TAG), peek(slot + t.LENGTH))
        gil = py.ensure_gil()
        release(slot)
        py.leave_gil(gil)
        poke_int(message, NO_MESSAGE)
        return answer

    return native


def probed(code, comm, source, tag, phase):
    """Find a message, which stays. Return the code of MPI, TO_PYTHON or NOTHING, and a slot for the message."""
    known = find(table(), t.COMMS, comm)
    answer, slot = TO_PYTHON, 0
    if known == 0 or not is_loaded(known, code) or peek(table() + t.DEFERRED) or source == PROC_NULL:
        return answer, slot
    ctx = peek(known + t.MESSAGES)
    gil = py.ensure_gil()
    told = what_hinders(ctx, peek(ctx + KINDS + code * WORD))
    if told == c.OK and peek(ctx + c.OWNER) == 0:
        set_line(ctx + c.X, 0, 0, 0)
        set_line(ctx + c.OUT, 0, 0, 0)
        wanted = ANY if source == ANY_SOURCE else source
        told = enter(ctx, code, phase, wanted, tag)
        if told == c.HALFWAY:  # there is one
            found = found_message(ctx)
            peer, label, total = peek(found + FOUND_SOURCE), peek(found + FOUND_TAG), peek(found + FOUND_TOTAL)
            is_ours = peek(found + FOUND_TYPE) == dtype_in(BYTE)
            told = enter(ctx, code, MARK, wanted, tag)
            if told == c.OK and is_ours:
                slot = held(t.PROBED, peek(known), peer, label, 0, total)
                answer = 0 if slot else TO_PYTHON
        elif told == c.NOTHING_YET and phase == TRY:
            answer = NOTHING
        if told not in (c.OK, c.NOTHING_YET):
            answer = ended(ctx, told, STATUS_IGNORE, 0)
    py.leave_gil(gil)
    return answer, slot


#: see `mpi_functions.py`
FUNCTIONS = {
    "Irecv": (irecv, "", 7),
    "Wait": (wait, "recv", 2),
    "Test": (test, "recv", 3),
    "Waitall": (wait_all, "recv", 3),
    "Mprobe": (mprobe, "recv", 5),
    "Mrecv": (mrecv, "recv", 5),
}
WITHOUT_LARGE = {"Wait", "Test", "Waitall", "Mprobe"}
