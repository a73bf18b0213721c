"""Receive a message from a rank of another node, in native code; `mail_words.py` has the protocol.

A receive that names its source posts a receive of MPI for the next head of that rank, and tests it for a short time. If
the message fits, the receive copies it to its place, or receives the bytes that follow into that place, and tells a
sender that asks that it is READY. A thread that waits for a receive that Python has posted, or for one from ANY, has
native code look for the next head of any rank and receive it. It takes that over, or has the entry give it to a receive
from ANY that is not posted yet.

Cost: one message of MPI, and a copy; for more than INLINE_BYTES two or three messages, and no copy.
"""

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.atomics import call, clock, copy, load_acquire, peek, poke, yield_core
from shmcoll.engine.layout import ANY, WORD
from shmcoll.engine.messages.recv import DATA
from shmcoll.engine.messages.ring_buffers import ARRAY, FOREIGN_TYPE, SOURCE_SHIFT, WHOLE
from shmcoll.engine.native import cpython as py
from shmcoll.nodes.native.mail_requests import (
    ALWAYS,
    ATTEMPT_NS,
    COMPLETE,
    GIVEN_UP,
    LEAVE_NS,
    UNTIL_SHUT,
    WITHDRAWN,
    begin,
    probe,
    tested,
)
from shmcoll.nodes.native.mail_words import (
    ANYBODY,
    CANCEL,
    CLOSED,
    FAILED_STATUS,
    FOUND,
    FOUND_NUMBER,
    FOUND_SOURCE,
    FREE,
    INCOMING,
    INLINE_BYTES,
    IRECV,
    IS_TELLING,
    ISEND,
    KIND,
    LEFT,
    MATCHED,
    MESSAGE_TAG,
    MOST_INCOMING,
    NUMBER,
    OBJECT_CODE,
    OPEN,
    PAYLOAD_TAG,
    POLLS,
    READY,
    READY_REQUEST,
    READY_TAG,
    RECEIVED,
    RECEIVED_FLAG,
    RECEIVED_STATUS,
    RECEIVING,
    RUNNING,
    SHAPE,
    SHUT,
    SOURCE_PLACE,
    TEST_CANCELLED,
    code_in,
    dimensions_in,
    peer_of,
    tag_in,
)
from shmcoll.nodes.native.messages import C_INT, LONGEST

WAIT_NS = 2_000_000


def recv_far(mail, ctx, rank):
    """Receive a message of a rank of another node, as the context says. Return as `recv` of one machine does: minus the
    source and the tag; HALFWAY if the message is FOUND, and Python makes the array; NEEDS_PYTHON; UNDER_WAY if Python
    has to look after the bytes that follow; or UNREADABLE, with FAILED_STATUS."""
    tag, out, form = peek(ctx + c.ARGUMENT_2), ctx + c.OUT, peek(ctx + c.FORM)
    address, room, dtype, item = peek(out + c.DATA), peek(out + c.COUNT), peek(out + c.DTYPE), peek(out + c.ITEM)
    peer = peer_of(mail, rank)
    if peek(ctx + c.RECV_PHASE) == DATA:
        is_same = peek(mail + FOUND_SOURCE) == peer and peek(mail + FOUND_NUMBER) == form  # which is a number here
        if peek(mail + CLOSED) == SHUT or peek(mail + RECEIVING) != FOUND or not is_same:
            return c.NEEDS_PYTHON
        form = WHOLE if code_in(peek(peek(mail + INCOMING) + KIND)) == OBJECT_CODE else ARRAY
    else:
        if peek(mail + CLOSED) != OPEN or peek(mail + RECEIVING) != FREE:
            return c.NEEDS_PYTHON
        found = fetch(mail, peer, WAIT_NS)
        if found < 0:
            poke(mail + FAILED_STATUS, -found)
            return c.UNREADABLE
        if found != FOUND:
            return c.NEEDS_PYTHON
    status = deliver(mail, rank, tag, address, room, OBJECT_CODE if form == WHOLE else dtype, item, form)
    return c.NEEDS_PYTHON if status < c.OK and has_ended(ctx) else status


def has_ended(ctx):
    """Return whether the group has ended. Then Python raises why. The sender of a message that has come last may have
    been interrupted, and may have changed its array before all of it had left."""
    return load_acquire(peek(ctx + c.GROUP) + layout.ABORT)


def wait_far(mail, patience):
    """Wait for the next head of any rank, for some ns, on behalf of Python, which takes over what is FOUND or MATCHED.
    Return OK, or minus MPI's error. It probes: MPICH loses messages when a receive from any rank is withdrawn."""
    if peek(mail + CLOSED) == SHUT or peek(mail + RECEIVING) != FREE:
        return c.OK
    poke(mail + RECEIVING, RUNNING)
    thread = py.release_gil()
    found = probed(mail, peek(mail + ANYBODY), clock() + patience)
    py.take_gil(thread)
    poke(mail + RECEIVING, FREE)
    return min(fetch(mail, source_of(mail), WAIT_NS), c.OK) if found == COMPLETE else min(found, c.OK)


def fetch(mail, peer, patience):
    """Receive the next head of a rank into INCOMING, and write RECEIVING. Return that, or minus MPI's error."""
    poke(mail + RECEIVING, RUNNING)
    thread = py.release_gil()
    limit = clock() + patience
    found = begin(mail, IRECV, peek(mail + INCOMING), MOST_INCOMING, peer, MESSAGE_TAG, RECEIVED)
    if found == 0:
        found = tested(mail, RECEIVED, RECEIVED_FLAG, RECEIVED_STATUS, limit, UNTIL_SHUT)
        if found == GIVEN_UP:
            found = withdraw(mail)
    py.take_gil(thread)
    state = FREE if found < 0 or found == WITHDRAWN else FOUND if found == COMPLETE else MATCHED
    if state == FOUND:
        poke(mail + FOUND_SOURCE, source_of(mail))
        poke(mail + FOUND_NUMBER, peek(mail + FOUND_NUMBER) + 1)
    poke(mail + RECEIVING, state)
    return found if found < 0 else state


def source_of(mail):
    """Return the rank in the status of a receive."""
    return peek(mail + RECEIVED_STATUS + peek(mail + SOURCE_PLACE)) & C_INT


def withdraw(mail):
    """Withdraw a receive. Return WITHDRAWN; COMPLETE or GIVEN_UP if MPI has found its message; or minus MPI's error."""
    call(peek(mail + CANCEL), mail + RECEIVED, 0, 0)
    found = tested(mail, RECEIVED, RECEIVED_FLAG, RECEIVED_STATUS, clock() + LEAVE_NS, ALWAYS)
    if found != COMPLETE:
        return found
    call(peek(mail + TEST_CANCELLED), mail + RECEIVED_STATUS, mail + RECEIVED_FLAG, 0)
    return WITHDRAWN if peek(mail + RECEIVED_FLAG) & C_INT else COMPLETE


def deliver(mail, rank, tag, address, room, dtype, item, form):
    """Give the message that is FOUND to a receive, if it fits; see `recv_far`. The receive has room for so many
    elements at an address."""
    head = peek(mail + INCOMING)
    code, its_tag, count = code_in(peek(head + KIND)), tag_in(peek(head + KIND)), elements_of(head)
    if (code == OBJECT_CODE) != (form == WHOLE) or peek(head + NUMBER) != 0 or (tag != ANY and tag != its_tag):
        return c.NEEDS_PYTHON
    if code == FOREIGN_TYPE:  # only Python reads what describes it
        return c.NEEDS_PYTHON
    if address != 0 and (code != dtype or count > room or count * item > LONGEST):
        return c.NEEDS_PYTHON
    if address == 0 or count != room:
        return c.HALFWAY
    found = take(mail, rank, address, count * item)
    if found == COMPLETE:
        return -1 - (rank << SOURCE_SHIFT | its_tag)
    if found == GIVEN_UP:
        return c.UNDER_WAY
    poke(mail + FAILED_STATUS, -found)
    return c.UNREADABLE


def take(mail, rank, address, length):
    """Copy or receive the bytes of the message that is FOUND, and write RECEIVING. Return COMPLETE, GIVEN_UP or minus
    MPI's error."""
    head, found = peek(mail + INCOMING), COMPLETE
    if length <= INLINE_BYTES:
        copy(address, head + SHAPE + dimensions_in(peek(head + KIND)) * WORD, length)
    else:
        poke(mail + RECEIVING, RUNNING)
        thread = py.release_gil()
        found = receive_payload(mail, address, length, peer_of(mail, rank))
        py.take_gil(thread)
    poke(mail + RECEIVING, LEFT if found == GIVEN_UP else FREE)
    return found


def receive_payload(mail, address, length, peer):
    """Receive the bytes that follow the head that is FOUND. Return COMPLETE, GIVEN_UP or minus MPI's error."""
    head = peek(mail + INCOMING)
    asked = peek(head + SHAPE + dimensions_in(peek(head + KIND)) * WORD)
    is_waiting = asked and probe(mail, peer, PAYLOAD_TAG, RECEIVED_FLAG, RECEIVED_STATUS) == GIVEN_UP
    limit, failed = clock() + ATTEMPT_NS + length, begin(mail, IRECV, address, length, peer, PAYLOAD_TAG, RECEIVED)
    if failed:
        return failed
    if is_waiting:
        tell_ready(mail, asked, peer)
    return tested(mail, RECEIVED, RECEIVED_FLAG, RECEIVED_STATUS, limit, UNTIL_SHUT)


def tell_ready(mail, asked, peer):
    """Tell a sender that this rank is READY, unless the last READY has not left yet. After an error the sender is not
    told, and sends a copy; what is wrong shows when the bytes do not come."""
    found = COMPLETE
    if peek(mail + IS_TELLING):
        found = tested(mail, READY_REQUEST, RECEIVED_FLAG, RECEIVED_STATUS, 0, ALWAYS)
    if found == GIVEN_UP:
        return
    poke(mail + READY, asked)
    failed = begin(mail, ISEND, mail + READY, WORD, peer, READY_TAG, READY_REQUEST)
    found = failed if failed else tested(mail, READY_REQUEST, RECEIVED_FLAG, RECEIVED_STATUS, 0, ALWAYS)
    poke(mail + IS_TELLING, 1 if found == GIVEN_UP else 0)


def elements_of(head):
    """Return the number of elements of a message."""
    count = 1
    for i in range(dimensions_in(peek(head + KIND))):
        count *= peek(head + SHAPE + i * WORD)
    return count


def probed(mail, peer, limit):
    """Look for a head of a rank until it has come or a time has passed, or CLOSED is SHUT. Return COMPLETE, GIVEN_UP or
    minus MPI's error."""
    turn, polls = 0, peek(mail + POLLS)
    while True:
        found = probe(mail, peer, MESSAGE_TAG, RECEIVED_FLAG, RECEIVED_STATUS)
        if found != GIVEN_UP:
            return found
        turn += 1
        if peek(mail + CLOSED) == SHUT or clock() > limit:
            return GIVEN_UP
        if turn > polls:
            yield_core()
