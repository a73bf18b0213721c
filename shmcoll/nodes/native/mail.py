"""The native half of the messages between two ranks of different nodes; `nodes/mail.py` is the other one.

A send copies the message into OUTGOING, begins to send that, and tests it for a short time. A receive that names its
source posts a receive of MPI for the next head of that rank, and tests it for a short time. If the message fits, the
receive copies it to its place, or receives the bytes that follow into that place. All else is left to Python, above all
what takes long: deadlines, failures, signals, posted receives and those from ANY. A thread that waits for one of these
has native code look for the next head of any rank and receive it. It takes that over, or has the entry give it to a
receive from ANY that is not posted yet.

Who writes which word, and when. All words but one are written under the GIL, and native code holds it from its look at
a word until it has written its own.

    CLOSED       Python. SHUT before it begins, sends or receives any message of the group, and after the end of the
                 group. Then WAITED if receives are posted or messages wait in Python, because these come first; else
                 OPEN. A receive of native code looks at it without the GIL, too, and stops soon if it is SHUT
    SENDING      native code, if it finds FREE, and CLOSED is not SHUT: RUNNING. Then FREE; or LEFT if the requests in
                 SENT are not complete, which are Python's from then on, with the memory of OUTGOING. Python makes it
                 FREE when it has replaced that memory
    RECEIVING    native code, if it finds FREE, and CLOSED is OPEN, or not SHUT when it waits for Python: RUNNING. Then
                 one of

                 FREE       nothing has come, or the receive has its message
                 FOUND      the message in INCOMING has been received, and fits no receive yet. Native code takes it
                            if CLOSED is not SHUT; else Python does. Either makes it FREE
                 MATCHED    the request in RECEIVED could not be withdrawn, because MPI has found its message, and is
                            not complete. It and INCOMING are Python's, which makes it FREE
                 LEFT       the request in RECEIVED gets the bytes that follow a head, at the place that the receive
                            wants. It is of the thread whose call has returned UNDER_WAY, which makes it FREE

Python writes SHUT first, and then waits until neither word is RUNNING. Native code looks at CLOSED and writes RUNNING
in one piece under the GIL. So one of the two sees the other. Then Python takes over what it finds (LEFT of SENDING,
FOUND, MATCHED) before it looks for messages itself. So heads of one rank are read in the order in which MPI has matched
them, and no message overtakes another.

While native code is RUNNING, it works without the GIL on OUTGOING and SENT, or INCOMING and RECEIVED, and on the arrays
of its call, which the caller keeps.

Why nobody waits forever. A receive tests for WAIT_NS, or as long as Python says, and for LEAVE_NS after it has
withdrawn its request. A send, or the receive of the bytes that follow, tests for ATTEMPT_NS and a time in proportion to
its bytes. No lock is held meanwhile, and Python that waits for RUNNING waits for that long at most.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import call, call_long, clock, copy, peek, poke, yield_core
from shmcoll.engine.layout import ANY, WORD
from shmcoll.engine.messages.recv import DATA
from shmcoll.engine.messages.ring_buffers import ARRAY, SOURCE_SHIFT, WHOLE
from shmcoll.engine.native import cpython as py
from shmcoll.nodes.native.mail_words import (
    ANYBODY,
    BYTE,
    CANCEL,
    CLOSED,
    CODE_SHIFT,
    COMM,
    DIMENSIONS_SHIFT,
    FAILED_STATUS,
    FOUND,
    FOUND_NUMBER,
    FOUND_SOURCE,
    FREE,
    INCOMING,
    INLINE_BYTES,
    IRECV,
    ISEND,
    KIND,
    LEFT,
    MATCHED,
    MESSAGE_TAG,
    MOST_INCOMING,
    NUMBER,
    OBJECT_CODE,
    OPEN,
    OUTGOING,
    OUTGOING_BYTES,
    PAYLOAD_TAG,
    POLLS,
    PROBE,
    RECEIVED,
    RECEIVED_FLAG,
    RECEIVED_STATUS,
    RECEIVING,
    RUNNING,
    SENDING,
    SENT,
    SENT_BYTES,
    SENT_FLAG,
    SENT_STATUS,
    SHAPE,
    SHUT,
    SOURCE_PLACE,
    TEST,
    TEST_CANCELLED,
    WORLD_RANKS,
    code_in,
    dimensions_in,
    tag_in,
)
from shmcoll.nodes.native.messages import C_INT, LONGEST

WAIT_NS = 2_000_000
LEAVE_NS = 1_000_000
ATTEMPT_NS = 100_000
TESTS_BETWEEN = 16  # tests between two looks at the clock
GIVEN_UP, COMPLETE, WITHDRAWN = range(3)  # how a request has ended, or minus an error of MPI
ALWAYS, UNTIL_SHUT = range(2)  # how a request is tested


def send_far(mail, ctx, rank):
    """Send the message in the context to a rank of another node. Return OK; NEEDS_PYTHON, and nothing has been sent;
    UNDER_WAY if Python has to look after the rest; or UNREADABLE, with FAILED_STATUS."""
    length = peek(ctx + c.X + c.BYTES)
    size = SHAPE + peek(ctx + c.X + c.DIMENSIONS) * WORD + length
    if peek(mail + CLOSED) == SHUT or peek(mail + SENDING) != FREE or size > peek(mail + OUTGOING_BYTES):
        return c.NEEDS_PYTHON
    head, source, peer = write_head(peek(mail + OUTGOING), ctx), peek(ctx + c.X + c.DATA), peer_of(mail, rank)
    poke(mail + SENDING, RUNNING)
    thread = py.release_gil()
    copy(peek(mail + OUTGOING) + head, source, length)
    found = send_outgoing(mail, peer, head, length)
    py.take_gil(thread)
    poke(mail + SENDING, LEFT if found == GIVEN_UP else FREE)
    if found < 0:
        poke(mail + FAILED_STATUS, -found)
        return c.UNREADABLE
    return c.OK if found == COMPLETE else c.UNDER_WAY


def write_head(head, ctx):
    """Write the head of the message in the context, and return its length."""
    dimensions, dims = peek(ctx + c.X + c.DIMENSIONS), peek(ctx + c.X + c.DIMS)
    code = OBJECT_CODE if peek(ctx + c.FORM) == WHOLE else peek(ctx + c.X + c.DTYPE)
    kind = peek(ctx + c.ARGUMENT_2) | code << CODE_SHIFT | dimensions << DIMENSIONS_SHIFT
    poke(head + KIND, kind)
    poke(head + NUMBER, 0)
    for i in range(dimensions):
        poke(head + SHAPE + i * WORD, peek(dims + i * WORD))
    return SHAPE + dimensions * WORD


def send_outgoing(mail, peer, head, length):
    """Send what is in OUTGOING. Return COMPLETE, GIVEN_UP or minus MPI's error."""
    outgoing, follows, limit = peek(mail + OUTGOING), length > INLINE_BYTES, clock() + ATTEMPT_NS + length
    failed = begin(mail, ISEND, outgoing, head + (0 if follows else length), peer, MESSAGE_TAG, SENT)
    if failed == 0 and follows:
        failed = begin(mail, ISEND, outgoing + head, length, peer, PAYLOAD_TAG, SENT_BYTES)
    if failed:
        return failed
    found = tested(mail, SENT, SENT_FLAG, SENT_STATUS, limit, ALWAYS)
    if found == COMPLETE and follows:
        found = tested(mail, SENT_BYTES, SENT_FLAG, SENT_STATUS, limit, ALWAYS)
    return found


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
    return deliver(mail, rank, tag, address, room, OBJECT_CODE if form == WHOLE else dtype, item, form)


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
    found = receive(mail, peek(mail + INCOMING), MOST_INCOMING, peer, MESSAGE_TAG, patience)
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
        found = receive(mail, address, length, peer_of(mail, rank), PAYLOAD_TAG, ATTEMPT_NS + length)
        py.take_gil(thread)
    poke(mail + RECEIVING, LEFT if found == GIVEN_UP else FREE)
    return found


def elements_of(head):
    """Return the number of elements of a message."""
    count = 1
    for i in range(dimensions_in(peek(head + KIND))):
        count *= peek(head + SHAPE + i * WORD)
    return count


def peer_of(mail, rank):
    return peek(peek(mail + WORLD_RANKS) + rank * WORD)


def receive(mail, address, room, peer, tag, patience):
    """Begin to receive bytes, and test that until a time has passed, or CLOSED is SHUT. Return COMPLETE, GIVEN_UP
    or minus MPI's error."""
    limit, failed = clock() + patience, begin(mail, IRECV, address, room, peer, tag, RECEIVED)
    return failed if failed else tested(mail, RECEIVED, RECEIVED_FLAG, RECEIVED_STATUS, limit, UNTIL_SHUT)


def probed(mail, peer, limit):
    """Look for a head of a rank until it has come or a time has passed, or CLOSED is SHUT. Return COMPLETE, GIVEN_UP or
    minus MPI's error."""
    comm, flag, status = peek(mail + COMM), mail + RECEIVED_FLAG, mail + RECEIVED_STATUS
    turn, polls = 0, peek(mail + POLLS)
    while True:
        error = call_long(peek(mail + PROBE), peer, peek(mail + MESSAGE_TAG), comm, flag, status, 0, 0) & C_INT
        if error:
            return -error
        if peek(flag) & C_INT:
            return COMPLETE
        turn += 1
        if peek(mail + CLOSED) == SHUT or clock() > limit:
            return GIVEN_UP
        if turn > polls:
            yield_core()


def begin(mail, function, address, length, peer, tag, request):
    """Begin to send or receive bytes. Return 0 or minus MPI's error."""
    byte, comm, place = peek(mail + BYTE), peek(mail + COMM), mail + request
    poke(place, 0)
    return -(call_long(peek(mail + function), address, length, byte, peer, peek(mail + tag), comm, place) & C_INT)


def tested(mail, request, flag, status, limit, how):
    """Test a request until it is complete or a time has passed, or, UNTIL_SHUT, CLOSED is SHUT. Return COMPLETE,
    GIVEN_UP or minus MPI's error."""
    turn, polls = 0, peek(mail + POLLS)
    while True:
        error = call(peek(mail + TEST), mail + request, mail + flag, mail + status) & C_INT
        if error:
            return -error
        if peek(mail + flag) & C_INT:
            return COMPLETE
        turn += 1
        if (how == UNTIL_SHUT and peek(mail + CLOSED) == SHUT) or (turn % TESTS_BETWEEN == 0 and clock() > limit):
            return GIVEN_UP
        if turn > polls:
            yield_core()
