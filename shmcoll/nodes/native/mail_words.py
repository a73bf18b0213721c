"""The words that native code and Python share about a group's messages to other nodes, and the format of a message.

Private memory of one process, for one group. `mail.py` says who writes which word.

A message has a head: KIND, NUMBER, and the shape of its array; an object has one dimension, its bytes. The bytes follow
in the same message of MPI if there are up to INLINE_BYTES, and else in a message of another kind.
"""

from shmcoll.engine.layout import WORD

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
    ANYBODY,  # MPI's number for any rank
    SOURCE_PLACE,  # where a status of MPI has the rank of the sender, as an int of C
    POLLS,  # tests before a rank that waits yields its core between two of them
    SENT,  # two requests: a head, and the bytes that follow
    SENT_BYTES,
    SENT_FLAG,  # MPI's answer to a test of these
    RECEIVED,  # the request of a head, or of the bytes that follow
    RECEIVED_FLAG,
) = (WORD * i for i in range(28))
SENT_STATUS, RECEIVED_STATUS = (WORD * (28 + 32 * i) for i in range(2))  # MPI's status
MAIL_WORDS = 28 + 2 * 32

OPEN, WAITED, SHUT = range(3)  # in CLOSED
FREE, RUNNING, LEFT, FOUND, MATCHED = range(5)  # in SENDING and RECEIVING

KIND, NUMBER, SHAPE = (WORD * i for i in range(3))  # of a head. NUMBER is 0 if the sender waits for no receipt
CODE_SHIFT, DIMENSIONS_SHIFT = 32, 40  # in KIND, above the tag
OBJECT_CODE = 0  # in place of the code of a dtype

INLINE_BYTES = 64 << 10
MOST_DIMENSIONS = 64  # that numpy's arrays have
MOST_INCOMING = SHAPE + MOST_DIMENSIONS * WORD + INLINE_BYTES


def code_in(kind):
    """Return the code of the dtype, or OBJECT_CODE."""
    return kind >> CODE_SHIFT & 0xFF


def dimensions_in(kind):
    """Return the number of words of the shape."""
    return kind >> DIMENSIONS_SHIFT & 0xFF


def tag_in(kind):
    return kind & (1 << CODE_SHIFT) - 1
