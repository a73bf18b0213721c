"""Ring buffers: where the messages between two ranks are. `send.py` and `recv.py` share what is here.

Each rank has a chain of rings to each rank that it ever sent to, itself included. The words of the ring from rank s to
rank r, and the rank that writes them (`layout.py` has the picture):

    pieces          s, in order. A piece has come when its FLAG is 1 + where it begins. Before s stores that, it sets
                    the flag behind the piece to 0, because old bytes of an array there could look like a flag
    HEAD            r: everything before may be overwritten. r writes it when it has read a quarter of the ring; after
                    each piece of a long message; and after each piece of a ring that s wants to give back
    READING         r: the message that it reads, which begins at HEAD. r will read it to its end
    TAKEN           s, before FLAG: 0, or AWAITED in a synchronous message. Then r: 1, before HEAD passes the piece
    LEFT            r, when it has gone on to the next ring: s may give the memory back
    OFFER ...       four words about messages that r copies from the array of s: see `offer.py`
    RINGS           of s, in its mailbox: where the first ring begins

Order of memory. s writes a piece, and 0 to the flag behind it, before the release of its FLAG; r reads them after an
acquire of FLAG. r reads a piece before the release of HEAD or LEFT; s overwrites the piece, or gives the ring back,
after an acquire of that word. s writes TAKEN of the next piece there after that acquire, too. r finds a ring by RINGS
or NEXT, which are released after CAPACITY of that ring has been stored.

A message is a piece FIRST, which describes it, and as many pieces MORE as it needs; a message that r copies from the
array of s is a piece FIRST without bytes. Only two kinds of pieces may come
between them: SKIP (the rest of the ring is too short for the next piece, which is at its beginning) and NEXT (the
stream goes on in another ring). If s finds no memory to complete a message, the message ends in DROPPED and counts as
never sent.

Messages stored at once. A sender that must not wait (STORE in `send.py`) begins a message of up to STORED_BYTES only
if the ring has room for all of it. If it has not, s asks for a ring with room for two such messages, or for twice as
much as the ring before: ranks that exchange messages in step have at most two of them on their way. Such rings are
made up to MOST_RING, a private word: all of a rank's are a small part of the heap (`buffers.py`). Without one, the
message has not begun, and another thread sends it, which may wait. A ring for two messages is also the faster one: they
go through the last cache that both cores share, and no core takes lines from the caches of the other (1 MiB both ways
at once on 2 cores of a Zen 4, by plain stores: 165 us with rings of 512 KiB, 50 to 60 with this one).

A full ring. If r reads this very message from HEAD on, s waits for HEAD: the message flows through the ring, which
stays in the caches. If r does something else, s waits about as long as it would take to buffer the message. Then it
asks for a larger ring that takes all the rest, and appends that ring by a NEXT, for which there is always room. So s
depends on r only while r reads, and while r reads, it depends on s alone: however messages cross, ranks do not wait in
a circle. Without memory for the larger ring s does wait for r, in slices, and asks again after each slice. Then there
may be a circle, so the wait ends: when nothing has moved for some seconds, s takes its message back (`calls/send.py`).

r takes messages out of their order where tags require it: it reads them where they are and notes TAKEN. HEAD stays
before the first message that has not been taken. So messages never block one another, and the heap of the sender alone
holds those that wait to be received.

Synchronous messages. s stores AWAITED in TAKEN of the first piece. When r begins to read such a message, in its turn or
before it, r stores 1 there, with release. s reads TAKEN and HEAD (`has_begun`):

    before r begins         TAKEN is AWAITED, and HEAD is not past the beginning of the piece
    from then on            TAKEN is 1, until s writes over the piece
    once s has done that    HEAD is past the beginning for ever. TAKEN may be any word, AWAITED too

So s never believes too early that r has begun, and the first look after HEAD has moved finds it at the latest. A ring
that s has given back was left by r, and r begins a message before it leaves the ring in which the message begins. s
looks between its calls, without its turn, and naps between two looks, so a message that nobody receives keeps no other
call waiting. The wait ends when r begins, a member fails, r leaves, the group ends or is closed, or the limit of the
call passes (`calls/delivery.py`).

Both ways at once. A rank that sends while it has something to receive reads that message meanwhile
(`read_message.py`): where it would wait for HEAD, it waits for HEAD or for the next piece of the other message. So two
ranks, or a circle of ranks, that send before they receive do so through rings that stay in the caches, without more
memory. A rank that has begun to read a message still depends on its sender alone: it reads on while it waits for room,
and its own message gets memory if no rank reads that.

MAIL, private to each process, begins with the table EVENTS of `engine/protocol/wait.py`. Behind it are the cursor
(where `recv` looks), what `recv` has found there, and how much of that has been read. Then come two rows of words for
each peer: the chain to it and the chain from it.

The receiver uses as addresses what it reads. So before it uses a ring or a piece, it checks that the ring is in the
arena, and that the piece is in its ring in one run (`read_message.is_valid_piece`). If not, DAMAGED becomes 1 for ever,
nothing more is found, and the call answers BROKEN. This finds what another process has overwritten before the check.
It does not find what is overwritten between the check and the use.
"""

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.atomics import load, load_acquire, peek
from shmcoll.engine.layout import WORD, piece_dimensions, piece_kind
from shmcoll.engine.protocol.wait import EVENT_BYTES, EVENTS

FIRST, MORE, SKIP, NEXT, DROPPED = range(1, 6)

#: forms of a message: an array; the bytes of an object, in one or in several runs; an array of another dtype
ARRAY, WHOLE, SEGMENTS, FOREIGN = range(4)
SYNCHRONOUS = 4  # added to the form, when it is sent
NOT_TAKEN, TAKEN, AWAITED = 0, 1, -1  # in TAKEN
OBJECT = 0xFF  # in place of a dtype: the message is an object
MOST_WORDS = 255  # dimensions, or words that describe an array, in a message
FOREIGN_TYPE = 0xFE  # or an array of a dtype that is described in place of its shape: see `foreign_arrays.py`
SOURCE_SHIFT = 32  # in the answer of `recv`: source << 32 | tag

PART_BYTES = 64 << 10  # longest part of a message in one piece
STORED_BYTES = 2 << 20  # longest message that is stored at once
FIRST_RING, USUAL_RING = 64 << 10, 512 << 10  # bytes of pieces
KEPT_RING = 2 * STORED_BYTES + 4 * FIRST_RING  # a larger ring is given back when it is empty
SPARE = 3 * layout.PIECE_UNIT  # room that a piece leaves for NEXT or DROPPED, and for the flag behind

# the piece that the receiver looks at, and what it has found: words of MAIL behind the events
CURSOR_RING, CURSOR_AT, DONE, EXPECTING, DAMAGED, FOUND_SOURCE, FOUND_TAG, FOUND_TYPE, FOUND_DIMENSIONS, FOUND_TOTAL = (
    WORD * i for i in range(10)
)
FOUND_RING, FOUND_AT = 10 * WORD, 11 * WORD  # where the message began, for the profile
MOST_RING = 12 * WORD  # of the sender: bytes of the longest ring that it may ask for to store a message at once
FOUND_DIMS = 13 * WORD
NOTHING_SENT, OFFERED = -1, -2  # in SENT, which counts bytes: not even the first piece; that, without bytes
STORES = -1  # in EXPECTING: the message has begun with STORE
UNREAD, TAKEN_BACK = -1, -2  # in DONE, which counts the bytes that have been read: see `read_message.py`

# a chain, at the sender ...
RING, CAPACITY, TAIL, KNOWN_HEAD, BEGUN, SENT, OLDEST, SEGMENT, BEGUN_IN = (WORD * i for i in range(9))
# ... and at the receiver
HEAD, PUBLISHED_HEAD = 2 * WORD, 3 * WORD

CHAIN_BYTES = layout.LINE


def mail_words(ranks: int) -> int:
    """Return the number of words of MAIL in a group of so many ranks."""
    return (chains_offset(ranks) + 2 * ranks * CHAIN_BYTES) // WORD


def found_offset(ranks):
    return EVENTS + (ranks + 1) * EVENT_BYTES


def chains_offset(ranks):
    return found_offset(ranks) + FOUND_DIMS + MOST_WORDS * WORD


def found_message(ctx):
    """Return the address of the cursor, and of what has been found there."""
    return peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))


def chain_to(ctx, peer):
    """Return the address of the chain to a rank."""
    return peek(ctx + c.MAIL) + chains_offset(peek(ctx + c.SIZE)) + 2 * peer * CHAIN_BYTES


def chain_from(ctx, peer):
    """Return the address of the chain from a rank."""
    return chain_to(ctx, peer) + CHAIN_BYTES


def piece(ring, capacity, at):
    """Return the address of the piece that begins `at` bytes after the first."""
    return ring + layout.RING_PIECES + at % capacity


def has_begun(ring, at):
    """Return whether the receiver has begun to read the synchronous message that begins at byte `at` of a ring, which
    has not been given back."""
    if load_acquire(ring + layout.RING_HEAD) > at:
        return True
    return load_acquire(piece(ring, load(ring + layout.RING_CAPACITY), at) + layout.PIECE_TAKEN) != AWAITED


def head_bytes(what):
    """Return the number of bytes of a piece before its part of the array. what: its KIND."""
    return layout.PIECE_DIMS + piece_dimensions(what) * WORD if piece_kind(what) == FIRST else layout.PIECE_UNIT


def piece_bytes(at_piece):
    """Return the number of bytes of a whole piece that has come."""
    what = load(at_piece + layout.PIECE_KIND)
    if piece_kind(what) == SKIP:
        return load(at_piece + layout.PIECE_TOTAL)
    return whole_units(head_bytes(what) + load(at_piece + layout.PIECE_LENGTH))


def whole_units(length):
    return (length + layout.PIECE_UNIT - 1) // layout.PIECE_UNIT * layout.PIECE_UNIT
