"""A long message that its receiver copies straight from the sender's array, and not through a ring.

A message for which the ring has room is stored there, and its sender does not wait. With a longer one the sender waits
for its receiver in any case. So sender s offers its array to receiver r: it publishes the first piece of the message
without any bytes, and waits. When r begins to read the message, in its turn or before it, r claims the offer, copies
the whole message from the array, and answers. If r has not begun after about the time that it would take to buffer the
message, s retracts the offer, and sends the bytes in pieces. So s does not depend on a rank that is elsewhere, and in a
circle of sends all offers end.

The words of the ring in which the message begins, and the rank that writes them. b is 1 + where the message begins; it
ascends within a ring:

    OFFER       s, before FLAG of the first piece: where the array is, as EXPOSED of `engine/protocol/exposure.py`
    RETRACTED   s: b of the last offer that s has retracted
    CLAIMED     r: b of the last offer that r has claimed
    ANSWER      r: 2 b if r has copied the message, 2 b + 1 if r takes it in pieces

    s, to retract:  RETRACTED = b;  fence;  read CLAIMED:    b: wait for ANSWER          else: send pieces
    r, to claim:    CLAIMED = b;    fence;  read RETRACTED:  below b: copy the message   else: read pieces;  ANSWER

Of the two reads behind the fences, at least one sees the other rank's store. So if r copies, then s waits for the
answer, and the array is unchanged until r has copied it. If both see the other's store, r answers that it reads pieces,
and s, which waits for that answer, sends them. s offers one message at a time. So an older message without bytes that r
has not read was retracted, and its b is not above RETRACTED. While s waits for the answer to a claim, OFFER belongs to
that message.

Why nobody waits forever. r answers each claim, and waits for nobody between the two. s waits for an answer that was not
claimed for a while, then no longer; for one that was claimed until the timeout, and it finds that r has failed or left
as in every wait.

Order of memory. s writes the array and OFFER before the release of FLAG, and r reads them after an acquire of FLAG. r
reads the array before the release of ANSWER, and s returns after an acquire of it.

Failures. If s is interrupted or its limit passes while r copies, its memory may change, but s ends the group first. So
r looks, after it has copied, whether the group has ended (`sync.has_ended`). If s is killed, the read of private memory
fails, and an array in the arena remains as it is. If r is not allowed to read memory of s that is there, r takes
the message in pieces, as without an offer.

An array in the arena is offered from SHARED_BYTES on (2 ranks, 640 KiB to 64 MiB: 0.25 to 0.5 of the time through the
ring). An array in private memory is offered if r has found that it can read all members (READS of
`engine/protocol/peer_memory.py`), which r tries when its first long message begins, and from LONGER times
EXCHANGE_BYTES on: through the ring two cores copy at the same time, in the caches, and the kernel takes long to find
the pages of another process (4 MiB: 1.1 to 1.4 of the processor time; 64 MiB: 0.7 to 0.8).
"""

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.atomics import fence, load, load_acquire, peek, store
from shmcoll.engine.layout import piece_kind
from shmcoll.engine.messages import ring_buffers as r
from shmcoll.engine.messages.ring_buffers import chain_to
from shmcoll.engine.protocol.exposure import place_in_arena, read_place
from shmcoll.engine.protocol.peer_memory import can_read, try_peers
from shmcoll.engine.protocol.sync import has_ended, publish_to

LONGER = 4

IN_PIECES = c.NO_EFFECT  # the message is not read: it comes in pieces


# --- the sender -------------------------------------------------------------------------------------------------------


def place_to_offer(ctx, peer):
    """Return where the message is, as EXPOSED, if the receiver may copy it from there; else 0."""
    length, address = peek(ctx + c.X + c.BYTES), peek(ctx + c.X + c.DATA)
    if length <= r.PART_BYTES or peer == peek(ctx + c.RANK) or peek(ctx + c.FORM) & ~r.SYNCHRONOUS == r.SEGMENTS:
        return 0
    if has_room(ctx, peer, length):
        return 0
    place = place_in_arena(ctx, address)
    if place != 0:
        return place if length >= peek(ctx + c.SHARED_BYTES) else 0
    return -address if length >= LONGER * peek(ctx + c.EXCHANGE_BYTES) and can_read(ctx, peer) else 0


def has_room(ctx, peer, length):
    """Return whether the ring has room for about so many bytes."""
    chain = chain_to(ctx, peer)
    stored = peek(chain + r.TAIL) - load_acquire(peek(chain + r.RING) + layout.RING_HEAD)
    return length <= peek(chain + r.CAPACITY) - stored


def retract(ctx, peer):
    """Retract the offer. Return whether the receiver cannot claim it any more; else its answer will come."""
    chain = chain_to(ctx, peer)
    store(peek(chain + r.RING) + layout.RING_RETRACTED, peek(chain + r.BEGUN))
    fence()
    return load_acquire(peek(chain + r.RING) + layout.RING_CLAIMED) != peek(chain + r.BEGUN)


def was_retracted(ctx, peer):
    """Return whether the message that is being sent was offered in this ring, and its receiver did not come."""
    chain = chain_to(ctx, peer)
    has_begun = peek(chain + r.SENT) != r.NOTHING_SENT  # else BEGUN is that of the message before
    return has_begun and load(peek(chain + r.RING) + layout.RING_RETRACTED) == peek(chain + r.BEGUN)


# --- the receiver -----------------------------------------------------------------------------------------------------


def is_offered(first, total):
    """Return whether the first piece of a message, which has come, is without any of its bytes."""
    return (
        piece_kind(load(first + layout.PIECE_KIND)) == r.FIRST and load(first + layout.PIECE_LENGTH) == 0 and total > 0
    )


def read_offered(ctx, ring, at, source, length):
    """Copy the message that begins at byte `at` of a ring into `out`, if its sender still offers it. Return OK;
    IN_PIECES; or why the call must end."""
    store(ring + layout.RING_CLAIMED, at + 1)
    fence()
    status = copy_offered(ctx, ring, source, length) if load_acquire(ring + layout.RING_RETRACTED) <= at else IN_PIECES
    if status in (c.OK, IN_PIECES):
        publish_to(ctx, ring + layout.RING_ANSWER, 2 * (at + 1) + (1 if status == IN_PIECES else 0), source)
    return status


def copy_offered(ctx, ring, source, length):
    status = read_place(ctx, source, load(ring + layout.RING_OFFER), peek(ctx + c.OUT + c.DATA), length)
    if status == c.UNREADABLE:
        return IN_PIECES
    return c.ABORTED if status == c.OK and has_ended(ctx) else status


def find_out(ctx, length):
    """Let the senders know whether this rank can read their memory, when a message of so many bytes has come."""
    if length > r.PART_BYTES and length >= LONGER * peek(ctx + c.EXCHANGE_BYTES):
        try_peers(ctx)
