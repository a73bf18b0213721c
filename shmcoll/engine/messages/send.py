"""send: send an array to another rank, whether or not that rank waits for it. Not a collective. See
`engine/messages/ring_buffers.py`.

    message of up to 64 KiB    one piece of the ring: the array is copied into it, and out of it by the receiver. The
                               flag of the piece, the description of the message and up to 8 bytes of a vector are in
                               one cache line
    longer ones                parts of 64 KiB, which the receiver reads while the sender writes the next ones; or one
                               piece without bytes, and the receiver copies from the array (`offer.py`)

Cost: a/2 + 2 S b; of a long message a/2 + S b or little more; if no rank receives it yet, S b until it has memory.

A send that cannot go on alone returns ASKS. WANTED says what it needs. The caller comes again with the answer in
SEND_MEMORY:

    a number of bytes   the ring does not suffice, and another one of so many bytes is needed. The answer is the offset
                        of that memory. Without memory the answer is STAY: the message waits for STAYING ns for its
                        receiver to make room in the ring as it is, and asks again. If that has lasted too long, the
                        answer is NONE: what has been sent is taken back
    EMPTY_RING          a ring is empty, and its memory can be given back. The answer is AGAIN
    BLOCKED             the receiver keeps this rank waiting, which has something to receive. The answer is GO_ON
    FINISHED            the message has been sent, but what is attached has not been read to its end: DATA of recv does
                        that

A sender that must not wait begins with STORE: see `ring_buffers.py`. If there is no room for the whole message, nor may
a ring with room be asked for, the answer is NO_ROOM, and nothing has been sent. A sender that gets no memory answers
NONE at once. So a STORE waits for nobody.

A rank that has something to receive begins with BESIDE. EXPECTING then counts how often WANTED may be BLOCKED: at once,
and a few times after as long as the message would wait at all. The caller looks whether a message has come (SEEK, TRY)
and comes again with that message's `out`, if there is one. The message is read as far as it comes while this rank waits
for room (`read_message.py`).

Between its phases SENDING keeps other calls out, whatever a recv beside it returns (see `engine/native/entering.py`).

A synchronous message (SYNCHRONOUS in FORM) is sent like any other. Afterwards its sender comes with LOOK now and then,
when it has not found in the ring that the receiver has begun. x is then two words: the address of the ring in which the
message begins, and where it begins there. The answer is HAS_BEGUN, OK if the receiver still may begin, or why it never
will. A sender that has waited for its limit comes with GIVE_UP: it gets TIMEOUT_PASSED in place of OK.

Arguments: ARGUMENT is the receiver, ARGUMENT_2 the tag. SEND_MEMORY is BEGIN, BESIDE or STORE, then the answer. FORM
says what x is: the array to send; or the bytes of an object; or a table that lists where these bytes are, which spares
the sender another copy. A row of the table is the byte of the message at which a segment begins, its address, and its
length; the rows ascend. Bytes between segments are not written. The last row has the length of the message. For an
array of a dtype that routines do not know (FOREIGN), x is another table: its address, its length, the number of the
words that describe it (`foreign_arrays.py`), and these.
"""

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.atomics import copy, load_acquire, peek, poke, store
from shmcoll.engine.collective import PEER, Collective
from shmcoll.engine.layout import PAGE, WORD, pack_piece
from shmcoll.engine.messages import ring_buffers as r
from shmcoll.engine.messages.offer import place_to_offer, retract, was_retracted
from shmcoll.engine.messages.read_message import is_unfinished, read_along
from shmcoll.engine.messages.ring_buffers import chain_to, found_message, has_begun, piece, whole_units
from shmcoll.engine.protocol.cells import write_cell
from shmcoll.engine.protocol.mailboxes import mailbox
from shmcoll.engine.protocol.sync import publish_to
from shmcoll.engine.protocol.wait import CHECKED_PER_SLICE, a_member_has_failed, has_left, process_has_ended

BEGIN, BESIDE, STORE = range(3)
# in place of memory that was asked for, which begins a page
NONE, STAY, GO_ON, AGAIN, LOOK, GIVE_UP = range(c.LATER, c.LATER + 6)
EMPTY_RING, BLOCKED, FINISHED = 0, -1, -2  # in WANTED, in place of bytes
AT_ONCE = 5  # in EXPECTING: times left to answer BLOCKED
NO_ROOM = c.NO_EFFECT  # the answer to STORE
STAYING = 1_000_000
HAS_BEGUN = -1  # the answer to LOOK and GIVE_UP

START, ADDRESS, LENGTH, ROW_BYTES = (WORD * i for i in range(4))  # of a segment


def send(ctx):
    if peek(ctx + c.SEND_MEMORY) in (LOOK, GIVE_UP):
        return look_for_begin(ctx, peek(ctx + c.ARGUMENT))
    status = begin_or_continue(ctx)
    poke(ctx + c.SENDING, 1 if status == c.ASKS else 0)
    if status == c.OK and peek(ctx + c.OUT + c.DTYPE) != 0:
        poke(ctx + c.WANTED, FINISHED)
        return c.ASKS
    return status


def begin_or_continue(ctx):
    peer, memory = peek(ctx + c.ARGUMENT), peek(ctx + c.SEND_MEMORY)
    chain = chain_to(ctx, peer)
    if memory in (BEGIN, BESIDE, STORE):
        expecting = found_message(ctx) + r.EXPECTING
        poke(expecting, AT_ONCE if memory == BESIDE else r.STORES if memory == STORE else 0)
    if form(ctx) != r.ARRAY:
        describe_object(ctx)
    if memory == NONE:
        return take_back(ctx, peer)
    if memory > GIVE_UP:
        continue_in(ctx, peer, memory)
    if memory > GIVE_UP or memory == GO_ON:
        return put_parts(ctx, peer)
    if load_acquire(peek(ctx + c.GROUP) + layout.ABORT):
        return c.ABORTED
    if has_left(ctx, peer):
        poke(ctx + c.CULPRIT, peer)
        return c.PEER_LOST
    if memory == STAY:
        return put_parts(ctx, peer) if peek(chain + r.CAPACITY) > 0 else c.ASKS
    if peek(chain + r.OLDEST) != 0 and load_acquire(peek(chain + r.OLDEST) + layout.RING_LEFT):
        poke(ctx + c.WANTED, EMPTY_RING)
        return c.ASKS
    poke(chain + r.SENT, r.NOTHING_SENT)
    another = ring_to_begin_in(ctx, peer)
    if stores(ctx) and not can_store(ctx, peer, another):
        return NO_ROOM
    poke(ctx + c.MOVED, peek(ctx + c.MOVED) + peek(ctx + c.X + c.BYTES))
    poke(chain + r.SEGMENT, peek(ctx + c.X + c.DATA))
    return ask_for(ctx, another) if another else put_parts(ctx, peer)


def form(ctx):
    """Return what x is, whether or not the message is synchronous."""
    return peek(ctx + c.FORM) & ~r.SYNCHRONOUS


def stores(ctx):
    """Return whether the message is stored at once, or not at all."""
    return peek(found_message(ctx) + r.EXPECTING) == r.STORES


def describe_object(ctx):
    """Describe the message by its bytes: the entry has read of x another type and shape, those of a table."""
    if form(ctx) == r.FOREIGN:
        table = peek(ctx + c.X + c.DATA)
        poke(ctx + c.X + c.DATA, peek(table))
        poke(ctx + c.X + c.BYTES, peek(table + WORD))
        poke(ctx + c.X + c.DTYPE, r.FOREIGN_TYPE)
        poke(ctx + c.X + c.DIMENSIONS, peek(table + 2 * WORD))
        poke(ctx + c.X + c.DIMS, table + 3 * WORD)
        return
    if form(ctx) == r.SEGMENTS:
        last_row = peek(ctx + c.X + c.DATA) + (peek(ctx + c.X + c.BYTES) - ROW_BYTES)
        poke(ctx + c.X + c.BYTES, peek(last_row + START))
    poke(ctx + c.X + c.DTYPE, r.OBJECT)
    poke(ctx + c.X + c.DIMENSIONS, 0)


def put_parts(ctx, peer):
    """Put the parts of the message that have not been sent, as far as there is room."""
    chain = chain_to(ctx, peer)
    total = peek(ctx + c.X + c.BYTES)
    while peek(chain + r.SENT) < total:
        if peek(chain + r.SENT) == r.OFFERED:
            status = await_answer(ctx, peer)
            if status != c.OK:
                return status
            continue
        sent = max(peek(chain + r.SENT), 0)
        begins = peek(chain + r.SENT) == r.NOTHING_SENT
        place = place_to_offer(ctx, peer) if begins and not stores(ctx) else 0
        length = min(total - sent, r.PART_BYTES) if place == 0 else 0
        head = (
            layout.PIECE_UNIT
            if peek(chain + r.SENT) != r.NOTHING_SENT
            else layout.PIECE_DIMS + peek(ctx + c.X + c.DIMENSIONS) * WORD
        )
        status = make_room(ctx, peer, whole_units(head + length))
        if status != c.OK:
            return status
        if peek(chain + r.SENT) == r.NOTHING_SENT:
            poke(chain + r.BEGUN, peek(chain + r.TAIL) + 1)
            poke(chain + r.BEGUN_IN, peek(chain + r.RING))
            if place != 0:
                store(peek(chain + r.RING) + layout.RING_OFFER, place)
            put_first_part(ctx, peer, length)
        else:
            put_next_part(ctx, peer, sent, length)
        poke(chain + r.SENT, sent + length if place == 0 else r.OFFERED)
    return c.OK


def look_for_begin(ctx, peer):
    """Return whether the receiver has begun to read a synchronous message, or why it never will. What it did before it
    left counts, so the message is looked at last."""
    status = c.TIMEOUT_PASSED if peek(ctx + c.SEND_MEMORY) == GIVE_UP else c.OK
    poke(ctx + c.CULPRIT, peer)
    if load_acquire(peek(ctx + c.GROUP) + layout.ABORT):
        status = c.ABORTED
    elif has_left(ctx, peer) or process_has_ended(ctx, peer):
        status = c.PEER_LOST
    else:
        for turn in range(peek(ctx + c.SIZE) // CHECKED_PER_SLICE + 1):
            if status != c.PEER_LOST and a_member_has_failed(ctx, turn):
                status = c.PEER_LOST
    where = peek(ctx + c.X + c.DATA)
    return HAS_BEGUN if has_begun(peek(where), peek(where + WORD)) else status


# --- pieces -----------------------------------------------------------------------------------------------------------


def put_first_part(ctx, peer, length):
    chain = chain_to(ctx, peer)
    at = piece(peek(chain + r.RING), peek(chain + r.CAPACITY), peek(chain + r.TAIL))
    dimensions = peek(ctx + c.X + c.DIMENSIONS)
    dims = peek(ctx + c.X + c.DIMS)
    for i in range(dimensions):
        store(at + layout.PIECE_DIMS + i * WORD, peek(dims + i * WORD))
    store(at + layout.PIECE_TAG, peek(ctx + c.ARGUMENT_2))
    store(at + layout.PIECE_TAKEN, r.AWAITED if peek(ctx + c.FORM) & r.SYNCHRONOUS else r.NOT_TAKEN)
    head = layout.PIECE_DIMS + dimensions * WORD
    copy_part(ctx, peer, at + head, 0, length)
    what = pack_piece(r.FIRST, peek(ctx + c.X + c.DTYPE), dimensions)
    publish_piece(ctx, peer, what, peek(ctx + c.X + c.BYTES), length, whole_units(head + length))


def put_next_part(ctx, peer, sent, length):
    chain = chain_to(ctx, peer)
    at = piece(peek(chain + r.RING), peek(chain + r.CAPACITY), peek(chain + r.TAIL))
    copy_part(ctx, peer, at + layout.PIECE_UNIT, sent, length)
    publish_piece(ctx, peer, r.MORE, 0, length, whole_units(layout.PIECE_UNIT + length))


def copy_part(ctx, peer, target, sent, length):
    """Copy `length` bytes of the message, from byte `sent` on, by the stores that are faster for cells too. SEGMENT is
    the row with this byte, or one before."""
    if form(ctx) != r.SEGMENTS:
        write_cell(ctx, target, peek(ctx + c.X + c.DATA) + sent, length)
        return
    chain = chain_to(ctx, peer)
    row = peek(chain + r.SEGMENT)
    while peek(row + START) < sent + length:
        begin = max(peek(row + START), sent)
        end = min(peek(row + START) + peek(row + LENGTH), sent + length)
        if begin < end:
            copy(target + begin - sent, peek(row + ADDRESS) + begin - peek(row + START), end - begin)
        row += ROW_BYTES
    poke(chain + r.SEGMENT, row - ROW_BYTES)


def publish_piece(ctx, peer, what, total, length, whole):
    """Publish the piece at the tail, which takes `whole` bytes of the ring."""
    chain = chain_to(ctx, peer)
    ring, capacity, tail = peek(chain + r.RING), peek(chain + r.CAPACITY), peek(chain + r.TAIL)
    at = piece(ring, capacity, tail)
    store(at + layout.PIECE_KIND, what)
    store(at + layout.PIECE_TOTAL, total)
    store(at + layout.PIECE_LENGTH, length)
    store(piece(ring, capacity, tail + whole) + layout.PIECE_FLAG, 0)
    poke(chain + r.TAIL, tail + whole)
    publish_to(ctx, at + layout.PIECE_FLAG, tail + 1, peer)


# --- room -------------------------------------------------------------------------------------------------------------


def make_room(ctx, peer, needed):
    """Wait until a piece of so many bytes fits at the tail in one run. Return ASKS if it needs a new ring."""
    chain = chain_to(ctx, peer)
    ring, capacity, tail = peek(chain + r.RING), peek(chain + r.CAPACITY), peek(chain + r.TAIL)
    left = capacity - tail % capacity
    skipped = left if needed > left else 0
    wanted = tail + skipped + needed + r.SPARE - capacity
    if peek(chain + r.KNOWN_HEAD) < wanted:
        poke(chain + r.KNOWN_HEAD, load_acquire(ring + layout.RING_HEAD))
    if peek(chain + r.KNOWN_HEAD) < wanted:
        status = await_receiver(ctx, peer, wanted)
        if status != c.OK:
            return status
    if skipped:
        publish_piece(ctx, peer, r.SKIP, skipped, 0, skipped)
    return c.OK


def await_receiver(ctx, peer, wanted):
    """Wait until HEAD is at `wanted`: for the timeout while the receiver reads this message, else for a while. What
    this rank receives is read meanwhile."""
    chain = chain_to(ctx, peer)
    ring = peek(chain + r.RING)
    if peer == peek(ctx + c.RANK):
        return ask_for_ring(ctx, peer)
    limit = 0 if was_retracted(ctx, peer) else buffering_time(ctx)
    status = await_briefly(
        ctx, peer, ring + layout.RING_HEAD, wanted, STAYING if peek(ctx + c.SEND_MEMORY) == STAY else limit
    )
    if status == c.TIMEOUT_PASSED:
        if peek(chain + r.SENT) == r.NOTHING_SENT or load_acquire(ring + layout.RING_READING) != peek(chain + r.BEGUN):
            return ask_for_ring(ctx, peer)
        limit = peek(ctx + c.TIMEOUT)
        status = read_along(ctx, ring + layout.RING_HEAD, wanted, peer, limit, limit)
    if status == c.OK:
        poke(chain + r.KNOWN_HEAD, load_acquire(ring + layout.RING_HEAD))
    return status


def await_answer(ctx, peer):
    """Wait until the receiver has copied the message that this rank offers: for the timeout if it has claimed the
    message, else for a while. After that the message is sent in pieces."""
    chain = chain_to(ctx, peer)
    answer, wanted = peek(chain + r.RING) + layout.RING_ANSWER, 2 * peek(chain + r.BEGUN)
    status = await_briefly(ctx, peer, answer, wanted, buffering_time(ctx))
    if status == c.TIMEOUT_PASSED:
        if retract(ctx, peer):
            poke(chain + r.SENT, 0)
            return c.OK
        limit = peek(ctx + c.TIMEOUT)
        status = read_along(ctx, answer, wanted, peer, limit, limit)
    if status == c.OK:
        poke(chain + r.SENT, peek(ctx + c.X + c.BYTES) if load_acquire(answer) == wanted else 0)
    return status


def await_briefly(ctx, peer, word, wanted, limit):
    """Wait for a word of the receiver for about `limit` ns. Return ASKS, BLOCKED if something is to be received that
    could be read meanwhile."""
    expecting = found_message(ctx) + r.EXPECTING
    status = read_along(ctx, word, wanted, peer, limit, 0 if peek(expecting) == AT_ONCE else limit)
    if status == c.TIMEOUT_PASSED and peek(expecting) > 0 and not is_unfinished(ctx):
        poke(expecting, peek(expecting) - 1)
        poke(ctx + c.WANTED, BLOCKED)
        return c.ASKS
    return status


def buffering_time(ctx):
    """Return for how many ns the message waits for its receiver: about what it costs to buffer it."""
    return (peek(ctx + c.X + c.BYTES) >> 12) * 1000


def ring_to_begin_in(ctx, peer):
    """Return how many bytes of pieces the next ring should have if a new message needs one; 0 if the message begins in
    the last ring. It needs one if there is no ring yet; if the last ring is too small for a stream of long parts, or
    for a message that is stored at once; or if the last ring is larger than one that is kept, and empty."""
    capacity = peek(chain_to(ctx, peer) + r.CAPACITY)
    is_kept = capacity <= r.KEPT_RING
    if not is_kept and bytes_stored(ctx, peer) > 0:
        return 0
    wanted = r.USUAL_RING if is_long(ctx) or not is_kept else r.FIRST_RING
    if stores(ctx) and not (0 < capacity <= r.KEPT_RING and can_store(ctx, peer, 0)):
        longer = ring_to_store_in(ctx, capacity if is_kept else 0)
        wanted = max(wanted, min(longer, peek(found_message(ctx) + r.MOST_RING)))
    return wanted if wanted > capacity or not is_kept else 0


def ring_to_store_in(ctx, capacity):
    """Return the bytes of pieces of a ring that has room for this message and another one like it, and is not much
    larger than needed nor than the ring before."""
    return max(2 * capacity, 2 * peek(ctx + c.X + c.BYTES) + 4 * r.FIRST_RING)


def can_store(ctx, peer, another):
    """Return whether the whole message fits the last ring now, or another one with so many bytes of pieces, with what
    is skipped at the end."""
    room = another or peek(chain_to(ctx, peer) + r.CAPACITY) - bytes_stored(ctx, peer)
    return bytes_with_heads(ctx, peek(ctx + c.X + c.BYTES)) + r.PART_BYTES <= room


def bytes_stored(ctx, peer):
    """Return how many bytes of the ring may not be overwritten yet."""
    chain = chain_to(ctx, peer)
    return peek(chain + r.TAIL) - load_acquire(peek(chain + r.RING) + layout.RING_HEAD)


def bytes_with_heads(ctx, length):
    """Return how many bytes of a ring so many bytes of the message take at most."""
    parts = length // r.PART_BYTES + 2
    return length + layout.PIECE_DIMS + peek(ctx + c.X + c.DIMENSIONS) * WORD + parts * 2 * layout.PIECE_UNIT + r.SPARE


def is_long(ctx):
    return peek(ctx + c.X + c.BYTES) > r.FIRST_RING // 4


def ask_for_ring(ctx, peer):
    """Return ASKS for a ring that takes all the rest of the message."""
    chain = chain_to(ctx, peer)
    sent = peek(chain + r.SENT)
    if sent == r.NOTHING_SENT and peek(ctx + c.SEND_MEMORY) in (BEGIN, BESIDE, STORE, AGAIN):
        another = ring_to_begin_in(ctx, peer)
        if another:
            return ask_for(ctx, another)
    least = r.USUAL_RING if peek(chain + r.CAPACITY) > 0 or is_long(ctx) else r.FIRST_RING
    return ask_for(ctx, max(least, bytes_with_heads(ctx, peek(ctx + c.X + c.BYTES) - max(sent, 0))))


def ask_for(ctx, pieces):
    """Return ASKS for a ring with so many bytes of pieces."""
    poke(ctx + c.WANTED, (pieces + layout.RING_PIECES + PAGE - 1) // PAGE * PAGE)
    return c.ASKS


def continue_in(ctx, peer, offset):
    """Append a new ring of WANTED bytes, whose words are all 0, and go on in it."""
    chain = chain_to(ctx, peer)
    ring = peek(ctx + c.ARENA) + offset
    store(ring + layout.RING_CAPACITY, peek(ctx + c.WANTED) - layout.RING_PIECES)
    if peek(chain + r.RING) != 0:
        publish_piece(ctx, peer, r.NEXT, offset, 0, layout.PIECE_UNIT)
    else:
        mine = mailbox(ctx, peek(ctx + c.RANK)) + peek(ctx + c.RINGS)
        publish_to(ctx, mine + peer * WORD, offset, peer)
    poke(chain + r.RING, ring)
    poke(chain + r.CAPACITY, peek(ctx + c.WANTED) - layout.RING_PIECES)
    poke(chain + r.TAIL, 0)
    poke(chain + r.KNOWN_HEAD, 0)


def take_back(ctx, peer):
    """End the message by DROPPED: there is no memory for the rest of it."""
    chain = chain_to(ctx, peer)
    if peek(chain + r.SENT) != r.NOTHING_SENT:
        publish_piece(ctx, peer, r.DROPPED, 0, 0, layout.PIECE_UNIT)
    return c.OK


COLLECTIVE = Collective(send, code=16, form=PEER)
