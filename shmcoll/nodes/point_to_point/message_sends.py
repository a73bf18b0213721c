"""Send a message to a rank of another node, in native code; `message_words.py` has the protocol.

A send copies a short message into OUTGOING, begins to send that, and tests it for a short time. For a long one it sends
the head, and asks whether the receiver is READY. If that is so, it sends the bytes from where they are. If not, it
copies them into OUTGOING and sends them from there, like shorter ones, or leaves them to Python.

It waits for READY about as long as a copy takes, so a receiver that is elsewhere costs it no more than that. It stops
before if a message for this rank has come: two ranks that send to each other, or all of a ring, would wait in a circle
for that time.

Cost: up to INLINE_BYTES a + S b, and a copy; up to ASKING_BYTES the same with two messages; above, 3 a + S b if the
receiver is waiting.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import clock, copy, peek, poke, yield_core
from shmcoll.engine.layout import WORD
from shmcoll.engine.messages.ring_buffers import WHOLE
from shmcoll.engine.messages.send import BESIDE, STORE
from shmcoll.engine.native import cpython as py
from shmcoll.nodes.mpi import waiting
from shmcoll.nodes.opening.requests import LONGEST
from shmcoll.nodes.point_to_point import message_words as m
from shmcoll.nodes.point_to_point.message_requests import (
    ALWAYS,
    COMPLETE,
    GIVEN_UP,
    NO_ROOM,
    UNTIL_SHUT,
    begin,
    probe,
    tested,
)
from shmcoll.nodes.point_to_point.message_words import head_bytes, peer_of


def send_far(words, ctx, rank):
    """Send the message in the context to a rank of another node. Return OK; NEEDS_PYTHON, and nothing has been sent;
    UNDER_WAY if Python has to look after the rest; or UNREADABLE, with FAILED_STATUS. A send that is BESIDE something
    else does not ask: it returns as soon as the bytes have been copied."""
    x = ctx + c.X
    length, source, peer = peek(x + c.BYTES), peek(x + c.DATA), peer_of(words, rank)
    head = head_bytes(peek(x + c.DIMENSIONS), length)
    asks = waiting.ASKING_BYTES <= length <= LONGEST and peek(ctx + c.SEND_MEMORY) not in (BESIDE, STORE)
    if peek(words + m.CLOSED) == m.SHUT or peek(words + m.SENDING) != m.FREE:
        return c.NEEDS_PYTHON
    if not asks and head + length > peek(words + m.OUTGOING_BYTES):
        return c.NEEDS_PYTHON
    write_head(words, ctx, head, length, asks)
    poke(words + m.SENDING, m.RUNNING)
    poke(words + m.SENT_FROM, 0)
    poke(words + m.SENT_BYTES, length)
    poke(words + m.SENT_TO, peer)
    thread = py.release_gil()
    found = send_whole(words, peer, head, source, length)
    if found == COMPLETE and length > m.INLINE_BYTES:
        found = send_payload(words, peer, head, source, length, asks)
    if found == COMPLETE:
        found = tested(words, m.SENT, m.SENT_FLAG, m.SENT_STATUS, clock() + waiting.ATTEMPT_NS + length, ALWAYS)
    py.take_gil(thread)
    poke(words + m.SENDING, m.LEFT if found == GIVEN_UP else m.UNSENT if found == NO_ROOM else m.FREE)
    if found < 0:
        poke(words + m.FAILED_STATUS, -found)
        return c.UNREADABLE
    return c.OK if found == COMPLETE else c.UNDER_WAY


def write_head(words, ctx, size, length, asks):
    """Write the head of the message in the context into OUTGOING."""
    head, dimensions, dims = peek(words + m.OUTGOING), peek(ctx + c.X + c.DIMENSIONS), peek(ctx + c.X + c.DIMS)
    code = m.OBJECT_CODE if peek(ctx + c.FORM) == WHOLE else peek(ctx + c.X + c.DTYPE)
    kind = peek(ctx + c.ARGUMENT_2) | code << m.CODE_SHIFT | dimensions << m.DIMENSIONS_SHIFT
    poke(head + m.KIND, kind)
    poke(head + m.NUMBER, 0)
    for i in range(dimensions):
        poke(head + m.SHAPE + i * WORD, peek(dims + i * WORD))
    if length > m.INLINE_BYTES:
        asked = peek(words + m.ASKED) + 1 if asks else 0
        if asks:
            poke(words + m.ASKED, asked)
        poke(head + size - WORD, asked)


def send_whole(words, peer, head, source, length):
    """Begin to send the head in OUTGOING, with the bytes if these are few. Return COMPLETE or minus MPI's error."""
    outgoing = peek(words + m.OUTGOING)
    if length <= m.INLINE_BYTES:
        copy(outgoing + head, source, length)
        head += length
    failed = begin(words, m.ISEND, outgoing, head, peer, m.MESSAGE_TAG, m.SENT)
    return failed if failed else COMPLETE


def send_payload(words, peer, head, source, length, asks):
    """Send the bytes that follow a head. Return COMPLETE, GIVEN_UP, NO_ROOM or minus MPI's error."""
    address, room, how = peek(words + m.OUTGOING) + head, peek(words + m.OUTGOING_BYTES) - head, ALWAYS
    is_ready = awaited(words, peer, clock() + waiting.ASKING_NS + length // waiting.BYTES_A_NS) if asks else GIVEN_UP
    if is_ready < 0:
        return is_ready
    if is_ready == COMPLETE:
        address, how = source, UNTIL_SHUT
        poke(words + m.SENT_FROM, source)
    elif length <= room:
        copy(address, source, length)
    else:
        poke(words + m.SENT_FROM, source)
        return NO_ROOM
    failed = begin(words, m.ISEND, address, length, peer, m.PAYLOAD_TAG, m.SENT_PAYLOAD)
    if failed:
        return failed
    return tested(words, m.SENT_PAYLOAD, m.SENT_FLAG, m.SENT_STATUS, clock() + waiting.ATTEMPT_NS + length, how)


def awaited(words, peer, limit):
    """Wait for the READY that has been asked for. Return COMPLETE, GIVEN_UP or minus MPI's error."""
    turn, polls = 0, peek(words + m.POLLS)
    while True:
        found = probe(words, peer, m.READY_TAG, m.SENT_FLAG, m.SENT_STATUS)
        if found == COMPLETE:
            found = begin(words, m.IRECV, words + m.GIVEN_READY, WORD, peer, m.READY_TAG, m.GIVEN_REQUEST)
            if found == 0:
                found = tested(words, m.GIVEN_REQUEST, m.SENT_FLAG, m.SENT_STATUS, clock() + waiting.LEAVE_NS, ALWAYS)
            if found != COMPLETE or peek(words + m.GIVEN_READY) == peek(words + m.ASKED):
                return found
        if found < 0:
            return found
        turn += 1
        if peek(words + m.CLOSED) == m.SHUT or (turn % waiting.CLOCK_EVERY == 0 and clock() > limit):
            return GIVEN_UP
        if (
            turn % 4 == 0
            and probe(words, peek(words + m.ANYBODY), m.MESSAGE_TAG, m.SENT_FLAG, m.SENT_STATUS) != GIVEN_UP
        ):
            return GIVEN_UP
        if turn > polls:
            yield_core()
