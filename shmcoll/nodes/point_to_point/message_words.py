"""The words that native code and Python share about a group's messages to other nodes, who writes which, and the format
of a message.

Private memory of one process, for one group. The native half (`message_sends.py`, `message_receives.py`) makes what
goes quickly. All else is left to Python (`nodes/point_to_point/far_messages.py`), above all what takes long: deadlines,
failures, signals, posted receives and those from ANY. A message of 8 bytes takes 9 us over TCP; in Python alone it took
60.

Format
------
A message has a head: KIND, NUMBER, and the shape of its array; an object has one dimension, its bytes. Up to
INLINE_BYTES follow in the same message of MPI. More bytes come in a message of another kind, and the head has one more
word, ASKED.

ASKED is 0, or a number by which the sender asks for READY. The receiver begins to receive the bytes when it has read
the head. If they are not there yet, and a call waits for them that does nothing else, it sends the number back, in a
message of the kind READY. A sender that gets it soon sends the bytes from the array of its call, and waits until they
have left. Otherwise it sends a copy, and its call returns: so it never waits for a receiver that computes. Nobody waits
for a READY that comes later: the sender ignores it by its number, and Python takes it out of MPI.

Why MPI does not match, and its own means are not enough:

    tags and dtypes    a message that fits no receive, or not its array, stays, and can be probed for. So it has to be
                       taken out of MPI and kept, and a tag of MPI would not select it any more
    its order          MPICH over TCP keeps 64 messages of a rank that nobody has asked for, and all else of that rank
                       waits behind them. So heads are read before they are wanted
    Issend             ends when the head is read, and not when a receive takes the message; hence RECEIPT
    its rendezvous     reports neither that a receive is posted, nor does it give back an array that is being sent. So
                       a send that must not wait has to copy first, unless it is told READY: one way, MPICH over TCP,
                       4 MiB took 1.37 of mpi4py's time with a copy, and takes 1.02 without
    matched probe      a receive that probes for each head takes twice as long over TCP as one that is posted for it.
                       A receive from any rank that stays posted has lost messages with MPICH over UCX

Who writes which word, and when
-------------------------------
All words but one are written under the GIL, and native code holds it from its look at a word until it has written its
own.

    CLOSED       Python. SHUT before it begins, sends or receives any message of the group, and after the end of the
                 group. Then WAITED if receives are posted or messages wait in Python, because these come first; else
                 OPEN. Native code that waits looks at it without the GIL, too, and stops soon if it is SHUT
    SENDING      native code, if it finds FREE, and CLOSED is not SHUT: RUNNING. Then one of

                 FREE       the message has left, or MPI has reported an error
                 LEFT       the requests in SENT are not complete. They are Python's from then on, with the memory of
                            OUTGOING. If SENT_FROM is not 0, the bytes are sent from there, which is the array of the
                            call: the thread of the call keeps it until they have left
                 UNSENT     the head has been sent, and not its bytes: OUTGOING has no room for them. The call has them
                            at SENT_FROM, and Python sends a copy

                 Python makes it FREE when it has taken that over
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
in one piece under the GIL. So one of the two sees the other. Then Python takes over what it finds (LEFT and UNSENT of
SENDING, FOUND, MATCHED) before it looks for messages itself, or sends any. So heads of one rank are read in the order
in which MPI has matched them, bytes are sent in the order of their heads, and no message overtakes another.

While native code is RUNNING, it works without the GIL on OUTGOING and INCOMING, and on the arrays of its call, which
the caller keeps. A send uses the words from SENT_FROM to GIVEN_REQUEST, and SENT_STATUS; a receive those from RECEIVED
to IS_TELLING, and RECEIVED_STATUS.

Why nobody waits forever. A receive tests for WAIT_NS, or as long as Python says, and for LEAVE_NS after it has
withdrawn its request. A send waits for READY about as long as a copy takes. A send, or the receive of the bytes that
follow, tests for ATTEMPT_NS and a time in proportion to its bytes. No lock is held meanwhile, and Python that waits for
RUNNING waits for that long at most.
"""

from shmcoll.engine.atomics import peek
from shmcoll.engine.layout import WORD
from shmcoll.engine.messages.ring_buffers import MOST_WORDS

(
    CLOSED,  # whether native code stays out: OPEN, WAITED or SHUT
    SENDING,  # what there is of a send in native code, and of a receive
    RECEIVING,
    FOUND_SOURCE,  # the rank from which native code has received last, as MPI knows it,
    FOUND_NUMBER,  # and the number of messages that it has FOUND
    FAILED_STATUS,  # MPI's error, of a call that has returned UNREADABLE
    OUTGOING,  # address of a message that is sent, and bytes there
    OUTGOING_BYTES,
    INCOMING,  # address of the memory for one that is received, MOST_INCOMING bytes long
    WORLD_RANKS,  # address of a word for each rank of the group: its number as MPI knows it
    ISEND,  # functions of MPI, and handles
    IRECV,
    PROBE,
    TEST,
    CANCEL,
    TEST_CANCELLED,
    BYTE,
    COMM,
    MESSAGE_TAG,
    PAYLOAD_TAG,
    READY_TAG,
    ANYBODY,  # MPI's number for any rank
    SOURCE_PLACE,  # where a status of MPI has the rank of the sender, as an int of C
    POLLS,  # tests before a rank that waits yields its core between two of them
    ASKED,  # the number by which native code has asked last
    SENT_FROM,  # address of the bytes that follow the head that has been sent last, if they are not in OUTGOING; else 0
    SENT_BYTES,  # how many bytes follow it
    SENT_TO,  # to which rank, as MPI knows it
    SENT,  # two requests: a head, and the bytes that follow
    SENT_PAYLOAD,
    SENT_FLAG,  # MPI's answer to a test of these
    GIVEN_READY,  # the last READY that has come, and its request
    GIVEN_REQUEST,
    RECEIVED,  # the request of a head, or of the bytes that follow
    RECEIVED_FLAG,
    READY,  # the last READY that this rank has sent, and its request
    READY_REQUEST,
    IS_TELLING,  # whether that request is not complete
) = (WORD * i for i in range(38))
SENT_STATUS, RECEIVED_STATUS = (WORD * (38 + 32 * i) for i in range(2))  # MPI's status
MESSAGE_WORDS = 38 + 2 * 32

OPEN, WAITED, SHUT = range(3)  # in CLOSED
FREE, RUNNING, LEFT, FOUND, MATCHED, UNSENT = range(6)  # in SENDING and RECEIVING

KIND, NUMBER, SHAPE = (WORD * i for i in range(3))  # of a head. NUMBER is 0 if the sender waits for no receipt
CODE_SHIFT, DIMENSIONS_SHIFT = 32, 40  # in KIND, above the tag
OBJECT_CODE = 0  # in place of the code of a dtype

INLINE_BYTES = 64 << 10
MOST_INCOMING = SHAPE + MOST_WORDS * WORD + INLINE_BYTES


def code_in(kind):
    """Return the code of the dtype, or OBJECT_CODE."""
    return kind >> CODE_SHIFT & 0xFF


def dimensions_in(kind):
    """Return the number of words of the shape."""
    return kind >> DIMENSIONS_SHIFT & 0xFF


def tag_in(kind):
    return kind & (1 << CODE_SHIFT) - 1


def head_bytes(dimensions, length):
    """Return the length of the head of a message with so many bytes."""
    return SHAPE + dimensions * WORD + (WORD if length > INLINE_BYTES else 0)


def peer_of(words, rank):
    """Return the number of a rank of the group as MPI knows it."""
    return peek(peek(words + WORLD_RANKS) + rank * WORD)
