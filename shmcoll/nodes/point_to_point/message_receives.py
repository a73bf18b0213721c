"""Receive a message from a rank of another node, in native code; `message_words.py` has the protocol.

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
from shmcoll.nodes.mpi import waiting
from shmcoll.nodes.opening.requests import C_INT, LONGEST
from shmcoll.nodes.point_to_point import message_words as m
from shmcoll.nodes.point_to_point.message_requests import (
    ALWAYS,
    COMPLETE,
    GIVEN_UP,
    UNTIL_SHUT,
    WITHDRAWN,
    begin,
    probe,
    tested,
)
from shmcoll.nodes.point_to_point.message_words import code_in, dimensions_in, peer_of, tag_in


def recv_far(words, ctx, rank):
    """Receive a message of a rank of another node, as the context says. Return as `recv` of one machine does: minus the
    source and the tag; HALFWAY if the message is FOUND, and Python makes the array; NEEDS_PYTHON; UNDER_WAY if Python
    has to look after the bytes that follow; or UNREADABLE, with FAILED_STATUS."""
    tag, out, form = peek(ctx + c.ARGUMENT_2), ctx + c.OUT, peek(ctx + c.FORM)
    address, room, dtype, item = peek(out + c.DATA), peek(out + c.COUNT), peek(out + c.DTYPE), peek(out + c.ITEM)
    peer = peer_of(words, rank)
    if peek(ctx + c.RECV_PHASE) == DATA:
        is_same = (
            peek(words + m.FOUND_SOURCE) == peer and peek(words + m.FOUND_NUMBER) == form
        )  # which is a number here
        if peek(words + m.CLOSED) == m.SHUT or peek(words + m.RECEIVING) != m.FOUND or not is_same:
            return c.NEEDS_PYTHON
        form = WHOLE if code_in(peek(peek(words + m.INCOMING) + m.KIND)) == m.OBJECT_CODE else ARRAY
    else:
        if peek(words + m.CLOSED) != m.OPEN or peek(words + m.RECEIVING) != m.FREE:
            return c.NEEDS_PYTHON
        found = fetch(words, peer, waiting.WAIT_NS)
        if found < 0:
            poke(words + m.FAILED_STATUS, -found)
            return c.UNREADABLE
        if found != m.FOUND:
            return c.NEEDS_PYTHON
    status = deliver(words, rank, tag, address, room, m.OBJECT_CODE if form == WHOLE else dtype, item, form)
    return c.NEEDS_PYTHON if status < c.OK and has_ended(ctx) else status


def has_ended(ctx):
    """Return whether the group has ended. Then Python raises why. The sender of a message that has come last may have
    been interrupted, and may have changed its array before all of it had left."""
    return load_acquire(peek(ctx + c.GROUP) + layout.ABORT)


def wait_far(words, patience):
    """Wait for the next head of any rank, for some ns, on behalf of Python, which takes over what is FOUND or MATCHED.
    Return OK, or minus MPI's error. It probes: MPICH loses messages when a receive from any rank is withdrawn."""
    if peek(words + m.CLOSED) == m.SHUT or peek(words + m.RECEIVING) != m.FREE:
        return c.OK
    poke(words + m.RECEIVING, m.RUNNING)
    thread = py.release_gil()
    found = probed(words, peek(words + m.ANYBODY), clock() + patience)
    py.take_gil(thread)
    poke(words + m.RECEIVING, m.FREE)
    return min(fetch(words, source_of(words), waiting.WAIT_NS), c.OK) if found == COMPLETE else min(found, c.OK)


def fetch(words, peer, patience):
    """Receive the next head of a rank into INCOMING, and write RECEIVING. Return that, or minus MPI's error."""
    poke(words + m.RECEIVING, m.RUNNING)
    thread = py.release_gil()
    limit = clock() + patience
    found = begin(words, m.IRECV, peek(words + m.INCOMING), m.MOST_INCOMING, peer, m.MESSAGE_TAG, m.RECEIVED)
    if found == 0:
        found = tested(words, m.RECEIVED, m.RECEIVED_FLAG, m.RECEIVED_STATUS, limit, UNTIL_SHUT)
        if found == GIVEN_UP:
            found = withdraw(words)
    py.take_gil(thread)
    state = m.FREE if found < 0 or found == WITHDRAWN else m.FOUND if found == COMPLETE else m.MATCHED
    if state == m.FOUND:
        poke(words + m.FOUND_SOURCE, source_of(words))
        poke(words + m.FOUND_NUMBER, peek(words + m.FOUND_NUMBER) + 1)
    poke(words + m.RECEIVING, state)
    return found if found < 0 else state


def source_of(words):
    """Return the rank in the status of a receive."""
    return peek(words + m.RECEIVED_STATUS + peek(words + m.SOURCE_PLACE)) & C_INT


def withdraw(words):
    """Withdraw a receive. Return WITHDRAWN; COMPLETE or GIVEN_UP if MPI has found its message; or minus MPI's error."""
    call(peek(words + m.CANCEL), words + m.RECEIVED, 0, 0)
    found = tested(words, m.RECEIVED, m.RECEIVED_FLAG, m.RECEIVED_STATUS, clock() + waiting.LEAVE_NS, ALWAYS)
    if found != COMPLETE:
        return found
    call(peek(words + m.TEST_CANCELLED), words + m.RECEIVED_STATUS, words + m.RECEIVED_FLAG, 0)
    return WITHDRAWN if peek(words + m.RECEIVED_FLAG) & C_INT else COMPLETE


def deliver(words, rank, tag, address, room, dtype, item, form):
    """Give the message that is FOUND to a receive, if it fits; see `recv_far`. The receive has room for so many
    elements at an address."""
    head = peek(words + m.INCOMING)
    code, its_tag, count = code_in(peek(head + m.KIND)), tag_in(peek(head + m.KIND)), elements_of(head)
    if (code == m.OBJECT_CODE) != (form == WHOLE) or peek(head + m.NUMBER) != 0 or (tag != ANY and tag != its_tag):
        return c.NEEDS_PYTHON
    if code == FOREIGN_TYPE:  # only Python reads what describes it
        return c.NEEDS_PYTHON
    if address != 0 and (code != dtype or count > room or count * item > LONGEST):
        return c.NEEDS_PYTHON
    if address == 0 or count != room:
        return c.HALFWAY
    found = take(words, rank, address, count * item)
    if found == COMPLETE:
        return -1 - (rank << SOURCE_SHIFT | its_tag)
    if found == GIVEN_UP:
        return c.UNDER_WAY
    poke(words + m.FAILED_STATUS, -found)
    return c.UNREADABLE


def take(words, rank, address, length):
    """Copy or receive the bytes of the message that is FOUND, and write RECEIVING. Return COMPLETE, GIVEN_UP or minus
    MPI's error."""
    head, found = peek(words + m.INCOMING), COMPLETE
    if length <= m.INLINE_BYTES:
        copy(address, head + m.SHAPE + dimensions_in(peek(head + m.KIND)) * WORD, length)
    else:
        poke(words + m.RECEIVING, m.RUNNING)
        thread = py.release_gil()
        found = receive_payload(words, address, length, peer_of(words, rank))
        py.take_gil(thread)
    poke(words + m.RECEIVING, m.LEFT if found == GIVEN_UP else m.FREE)
    return found


def receive_payload(words, address, length, peer):
    """Receive the bytes that follow the head that is FOUND. Return COMPLETE, GIVEN_UP or minus MPI's error."""
    head = peek(words + m.INCOMING)
    asked = peek(head + m.SHAPE + dimensions_in(peek(head + m.KIND)) * WORD)
    is_waiting = asked and probe(words, peer, m.PAYLOAD_TAG, m.RECEIVED_FLAG, m.RECEIVED_STATUS) == GIVEN_UP
    limit, failed = (
        clock() + waiting.ATTEMPT_NS + length,
        begin(words, m.IRECV, address, length, peer, m.PAYLOAD_TAG, m.RECEIVED),
    )
    if failed:
        return failed
    if is_waiting:
        tell_ready(words, asked, peer)
    return tested(words, m.RECEIVED, m.RECEIVED_FLAG, m.RECEIVED_STATUS, limit, UNTIL_SHUT)


def tell_ready(words, asked, peer):
    """Tell a sender that this rank is READY, unless the last READY has not left yet. After an error the sender is not
    told, and sends a copy; what is wrong shows when the bytes do not come."""
    found = COMPLETE
    if peek(words + m.IS_TELLING):
        found = tested(words, m.READY_REQUEST, m.RECEIVED_FLAG, m.RECEIVED_STATUS, 0, ALWAYS)
    if found == GIVEN_UP:
        return
    poke(words + m.READY, asked)
    failed = begin(words, m.ISEND, words + m.READY, WORD, peer, m.READY_TAG, m.READY_REQUEST)
    found = failed if failed else tested(words, m.READY_REQUEST, m.RECEIVED_FLAG, m.RECEIVED_STATUS, 0, ALWAYS)
    poke(words + m.IS_TELLING, 1 if found == GIVEN_UP else 0)


def elements_of(head):
    """Return the number of elements of a message."""
    count = 1
    for i in range(dimensions_in(peek(head + m.KIND))):
        count *= peek(head + m.SHAPE + i * WORD)
    return count


def probed(words, peer, limit):
    """Look for a head of a rank until it has come or a time has passed, or CLOSED is SHUT. Return COMPLETE, GIVEN_UP or
    minus MPI's error."""
    turn, polls = 0, peek(words + m.POLLS)
    while True:
        found = probe(words, peer, m.MESSAGE_TAG, m.RECEIVED_FLAG, m.RECEIVED_STATUS)
        if found != GIVEN_UP:
            return found
        turn += 1
        if peek(words + m.CLOSED) == m.SHUT or clock() > limit:
            return GIVEN_UP
        if turn > polls:
            yield_core()
