"""Rings: how messages lie between two ranks. What `engine/messages/send.py` and `engine/messages/recv.py` share.

Each rank has a chain of rings to each rank that it ever sent to, itself included. Who writes what, of the ring from s
to r (`layout.py` has the picture):

    pieces          s, in order. A piece is there once its FLAG is 1 + where it begins. Before s stores that, it sets
                    the flag behind it to 0: there may lie old bytes of an array, which must not be taken for a flag
    HEAD            r: everything before may be overwritten. Written when a quarter of the ring has been read; after
                    each piece while r reads a long message, and in rings that s wants to get rid of
    READING         r: the message that it reads, which begins at HEAD; it will be read to its end
    TAKEN           r, in a piece that s leaves alone until HEAD has passed it
    LEFT            r, when it has gone on to the next ring: s may give the memory back
    RINGS           of s, in its mailbox: where the first ring begins

Order of memory. s writes a piece, and 0 to the flag behind it, before the release of its FLAG; r reads them after an
acquire of that. r reads a piece before the release of HEAD or LEFT; s overwrites it, or gives the ring back, after an
acquire of that. r alone reads TAKEN, and s clears it when HEAD has passed. RINGS and NEXT, by which r finds a ring, are
released after its CAPACITY has been stored.

A message is a piece FIRST, which says what it is, and as many pieces MORE as it takes; nothing else comes between them
but SKIP (the rest of the ring is too short for what follows: go on at its beginning) and NEXT (the stream goes on in
another ring). A message that s could not complete for want of memory ends in DROPPED, and counts as never sent.

A full ring. If r reads this very message from HEAD on, s waits for HEAD: the message flows through the ring, which
stays in the caches. If r is elsewhere, s waits about as long as it would take to buffer the message, and then asks for
a larger ring that takes all the rest; it hangs on by a NEXT, for which there is always room. So s depends on r only
while r reads, and r, when it reads, on nobody but s: however messages cross, nobody waits in a circle. Without memory
for the larger ring s does wait for r, in slices, and asks again after each. There may be a circle then, so not for
ever: when nothing has moved for some seconds it takes its message back (`calls/send.py`).

r takes messages out of their turn where tags say so: it reads them where they lie and notes TAKEN. HEAD stays before
the first that has not been taken. So messages never block one another, and what waits to be received is held by the
heap of its sender alone.

Both ways at once. A rank that sends while it has something to receive reads that meanwhile (`read_message.py`): where
it would wait for HEAD it waits for HEAD or for the next piece of the other message. So two ranks, or a circle of them,
that send before they receive do it through rings that stay in the caches, without memory. Who has begun to read still
depends on nobody but s: it reads on while it waits for room, and its own message finds memory if nobody reads that.

MAIL, private to each process: the table EVENTS of `engine/protocol/wait.py`, then where `recv` looks (the cursor), what
it has found there and how much of it has been read, then two rows of words a peer: the chain to it and the chain from
it.

What a receiver reads becomes addresses. So a ring must lie in the arena, and a piece in its ring in one run, before it
is used (`reading.makes_sense`); else DAMAGED is 1 for ever, nothing more is found, and the call answers BROKEN. That
catches what somebody has overwritten, not who overwrites it between the look and the use.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import load, peek
from shmcoll.engine.layout import (
    LINE,
    MOST_DIMENSIONS,
    PIECE_DIMS,
    PIECE_KIND,
    PIECE_LENGTH,
    PIECE_TOTAL,
    PIECE_UNIT,
    RING_PIECES,
    WORD,
    piece_dimensions,
    piece_kind,
)
from shmcoll.engine.protocol.wait import EVENT_BYTES, EVENTS

FIRST, MORE, SKIP, NEXT, DROPPED = range(1, 6)

ARRAY, WHOLE, SEGMENTS = range(3)  # forms of a message: an array, or the bytes of an object in one or in several runs
OBJECT = 0xFF  # in place of a dtype: the message is an object
SOURCE_SHIFT = 32  # of what `recv` tells: source << 32 | tag

PART_BYTES = 64 << 10  # longest part of a message in one piece
FIRST_RING, USUAL_RING, KEPT_RING = 64 << 10, 512 << 10, 4 << 20  # bytes of pieces; larger ones go when they are empty
SPARE = 3 * PIECE_UNIT  # room that a piece leaves: for NEXT or DROPPED, and for the flag behind

# the piece that the receiver looks at, and what it has found: words of MAIL behind the events
CURSOR_RING, CURSOR_AT, DONE, EXPECTING, DAMAGED, FOUND_SOURCE, FOUND_TAG, FOUND_TYPE, FOUND_DIMENSIONS, FOUND_TOTAL = (
    WORD * i for i in range(10)
)
FOUND_DIMS = 10 * WORD
UNREAD, TAKEN_BACK = -1, -2  # in DONE, which counts the bytes that have been read: see `read_message.py`

# a chain, at the sender ...
RING, CAPACITY, TAIL, KNOWN_HEAD, BEGUN, SENT, OLDEST, SEGMENT = (WORD * i for i in range(8))
# ... and at the receiver
HEAD, TOLD_HEAD = 2 * WORD, 3 * WORD

CHAIN_BYTES = LINE


def mail_words(ranks: int) -> int:
    """Length of MAIL in a group of so many."""
    return (chains_offset(ranks) + 2 * ranks * CHAIN_BYTES) // WORD


def found_offset(ranks):
    return EVENTS + (ranks + 1) * EVENT_BYTES


def chains_offset(ranks):
    return found_offset(ranks) + FOUND_DIMS + MOST_DIMENSIONS * WORD


def chain_to(ctx, peer):
    """Offset in MAIL of the chain to a rank."""
    return chains_offset(peek(ctx + c.SIZE)) + 2 * peer * CHAIN_BYTES


def chain_from(ctx, peer):
    return chain_to(ctx, peer) + CHAIN_BYTES


def piece(ring, capacity, at):
    """Address of the piece that begins `at` bytes after the first."""
    return ring + RING_PIECES + at % capacity


def head_bytes(what):
    """Bytes of a piece before its part of the array; `what`: its KIND."""
    return PIECE_DIMS + piece_dimensions(what) * WORD if piece_kind(what) == FIRST else PIECE_UNIT


def piece_bytes(at_piece):
    """Length of a whole piece that is there."""
    what = load(at_piece + PIECE_KIND)
    if piece_kind(what) == SKIP:
        return load(at_piece + PIECE_TOTAL)
    return whole_units(head_bytes(what) + load(at_piece + PIECE_LENGTH))


def whole_units(length):
    return (length + PIECE_UNIT - 1) // PIECE_UNIT * PIECE_UNIT
