"""Read a message piece by piece: in `recv`, and in `send` while it waits for room.

A message that its sender offers is read at once (`offer.py`).

MAIL has the state. The cursor is at the next piece. DONE counts the bytes of the message that have been read. UNREAD:
not even its first piece has been read; TAKEN_BACK: the message has ended in DROPPED. A rank that has begun to read a
message reads it to its end. If it is the first message that is still wanted, the reader publishes that in READING: then
the sender needs no memory.

Cost: see `engine/messages/send.py`.
"""

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.atomics import copy, load, load_acquire, peek, poke, store, stream
from shmcoll.engine.layout import WORD, piece_dimensions, piece_kind
from shmcoll.engine.messages import ring_buffers as r
from shmcoll.engine.messages.offer import IN_PIECES, find_out, is_offered, read_offered
from shmcoll.engine.messages.ring_buffers import chain_from, found_message, head_bytes, piece, piece_bytes
from shmcoll.engine.protocol.pace import begin_copy, note_copy
from shmcoll.engine.protocol.sync import publish_to
from shmcoll.engine.protocol.wait import ANYBODY, EVENT_BYTES, EVENTS, SEVERAL, has_come, wait, wait_a_while


def read_message(ctx):
    """Copy the parts of the message that has been found, as they come: all that have not been read yet. Return
    WITHDRAWN if the message ends in DROPPED."""
    found = found_message(ctx)
    source, total = peek(found + r.FOUND_SOURCE), peek(found + r.FOUND_TOTAL)
    if peek(found + r.DONE) == r.UNREAD:
        status = read_piece(ctx)
        if status != c.OK:
            return status
    while 0 <= peek(found + r.DONE) < total:
        status = await_piece(ctx, source)
        if status != c.OK:
            return status
        if has_piece(ctx):
            read_piece(ctx)  # not the first
        if is_damaged(ctx):
            poke(ctx + c.CULPRIT, source)
            return c.BROKEN
    return c.WITHDRAWN if peek(found + r.DONE) == r.TAKEN_BACK else c.OK


def read_along(ctx, word, wanted, peer, limit, later):
    """Wait until the word at address `word`, written by `peer`, reaches `wanted`. Meanwhile, if there is an `out`, read
    what comes of the message that has been found. Wait for `limit` ns without a piece of it; once all of it has been
    read, for `later` ns."""
    found = found_message(ctx)
    while is_unfinished(ctx):
        if has_come(ctx, word, wanted):
            return c.OK
        if has_piece(ctx):
            status = read_piece(ctx)
            if status != c.OK:
                return status
            continue
        if is_damaged(ctx):
            poke(ctx + c.CULPRIT, peek(found + r.FOUND_SOURCE))
            return c.BROKEN
        note_event(ctx, 0, word, wanted, peer)
        note_event(
            ctx,
            1,
            piece_at_cursor(ctx) + layout.PIECE_FLAG,
            peek(found + r.CURSOR_AT) + 1,
            peek(found + r.FOUND_SOURCE),
        )
        status = wait_a_while(ctx, SEVERAL, 2, ANYBODY, limit)
        if status != c.OK:
            poke(ctx + c.CULPRIT, peer if status == c.TIMEOUT_PASSED else peek(ctx + c.CULPRIT))
            return status
    return wait_a_while(ctx, word, wanted, peer, later)


def await_piece(ctx, source):
    """Wait until the piece at the cursor has come."""
    found = found_message(ctx)
    return wait(ctx, piece_at_cursor(ctx) + layout.PIECE_FLAG, peek(found + r.CURSOR_AT) + 1, source)


def is_unfinished(ctx):
    """Return whether there is a message to read along with a send, of which not all has been read."""
    found = found_message(ctx)
    if peek(ctx + c.OUT + c.DTYPE) == 0 or peek(found + r.DONE) == r.TAKEN_BACK:
        return False
    return peek(found + r.DONE) < peek(found + r.FOUND_TOTAL)


def note_event(ctx, event, word, wanted, source):
    """Note a word for which a wait for SEVERAL will wait."""
    place = peek(ctx + c.MAIL) + EVENTS + event * EVENT_BYTES
    poke(place, word)
    poke(place + WORD, wanted)
    poke(place + 2 * WORD, source)


# --- a piece ----------------------------------------------------------------------------------------------------------


def read_piece(ctx):
    """Copy the part at the cursor, which has come, and move the cursor to the next piece. If the sender offers the
    message, copy all of it. Return OK, or why the call must end."""
    found = found_message(ctx)
    source, total = peek(found + r.FOUND_SOURCE), peek(found + r.FOUND_TOTAL)
    if peek(found + r.DONE) == r.UNREAD:
        status = begin_to_read(ctx, source, total)
        if status != c.OK:
            return status
    done = peek(found + r.DONE)
    dropped = kind_at_cursor(ctx) == r.DROPPED
    if not dropped and length_at_cursor(ctx) > total - done:
        note_damage(ctx)
        return c.OK
    length = copy_part(ctx, done, total)
    consume_piece(ctx, source, total > r.PART_BYTES)
    poke(found + r.DONE, r.TAKEN_BACK if dropped else done + length)
    return c.OK


def begin_to_read(ctx, source, total):
    """Publish that this rank reads the message at the cursor to its end. Do so at once if the sender offers it. Return
    OK, or why the call must end."""
    found = found_message(ctx)
    is_first, taken = is_first_wanted(ctx, source), piece_at_cursor(ctx) + layout.PIECE_TAKEN
    if load(taken) == r.AWAITED:
        publish_to(ctx, taken, r.TAKEN, source)
    elif not is_first:
        store(taken, r.TAKEN)
    poke(found + r.DONE, 0)
    ring, at = peek(found + r.CURSOR_RING), peek(found + r.CURSOR_AT)
    poke(found + r.FOUND_RING, ring)
    poke(found + r.FOUND_AT, at)
    find_out(ctx, total)
    if is_offered(piece_at_cursor(ctx), total):
        status = read_offered(ctx, ring, at, source, total)
        poke(found + r.DONE, total if status == c.OK else 0)
        if status != IN_PIECES:
            return status
    if is_first and length_at_cursor(ctx) < total:
        publish_to(ctx, ring + layout.RING_READING, at + 1, source)
    return c.OK


def kind_at_cursor(ctx):
    return piece_kind(load(piece_at_cursor(ctx) + layout.PIECE_KIND))


def length_at_cursor(ctx):
    return load(piece_at_cursor(ctx) + layout.PIECE_LENGTH)


def copy_part(ctx, done, total):
    """Copy the part at the cursor to its place in `out`, past the caches if the message is long (see
    `engine/protocol/nontemporal.py`). Return the number of its bytes."""
    target, length = peek(ctx + c.OUT + c.DATA) + done, length_at_cursor(ctx)
    part = piece_at_cursor(ctx) + head_bytes(load(piece_at_cursor(ctx) + layout.PIECE_KIND))
    if total >= peek(ctx + c.STREAM_BYTES):
        stream(target, part, length)
    else:
        begun = begin_copy(ctx, length)
        copy(target, part, length)
        note_copy(ctx, c.FETCH_PACE, begun, length)
    return length


# --- going on ---------------------------------------------------------------------------------------------------------


def set_cursor(ctx, ring, at):
    found = found_message(ctx)
    poke(found + r.CURSOR_RING, ring)
    poke(found + r.CURSOR_AT, at)


def piece_at_cursor(ctx):
    """Return the address of the piece at the cursor."""
    found = found_message(ctx)
    ring = peek(found + r.CURSOR_RING)
    return piece(ring, load(ring + layout.RING_CAPACITY), peek(found + r.CURSOR_AT))


def has_piece(ctx):
    """Return whether the piece at the cursor has come."""
    found = found_message(ctx)
    if load_acquire(piece_at_cursor(ctx) + layout.PIECE_FLAG) != peek(found + r.CURSOR_AT) + 1:
        return False
    return is_valid_piece(ctx)


def is_valid_piece(ctx):
    """Return whether the piece at the cursor, which has come, is in its ring as a whole, and leads to a ring."""
    found = found_message(ctx)
    at = piece_at_cursor(ctx)
    capacity = load(peek(found + r.CURSOR_RING) + layout.RING_CAPACITY)
    room = capacity - peek(found + r.CURSOR_AT) % capacity
    what, total, length = load(at + layout.PIECE_KIND), load(at + layout.PIECE_TOTAL), load(at + layout.PIECE_LENGTH)
    kind = piece_kind(what)
    if kind in (r.FIRST, r.MORE):
        fits = 0 <= piece_dimensions(what) <= r.MOST_WORDS and 0 <= length <= room - head_bytes(what)
        fits = fits and (kind == r.MORE or length <= total)
    elif kind == r.SKIP:
        fits = total == room
    elif kind == r.NEXT:
        fits = is_ring(ctx, total)
    else:
        fits = kind == r.DROPPED
    if not fits or peek(found + r.DAMAGED):
        note_damage(ctx)
        return False
    return True


def is_ring(ctx, offset):
    """Return whether a ring can begin at this offset of the arena."""
    room = peek(ctx + c.ARENA_BYTES) - layout.RING_PIECES
    if offset <= 0 or offset >= room or offset % layout.PIECE_UNIT != 0:
        return False
    capacity = load(peek(ctx + c.ARENA) + offset + layout.RING_CAPACITY)
    return 0 < capacity <= room - offset and capacity % layout.PIECE_UNIT == 0


def note_damage(ctx):
    """Note that what another rank has written for this one makes no sense."""
    poke(found_message(ctx) + r.DAMAGED, 1)


def is_damaged(ctx):
    return peek(found_message(ctx) + r.DAMAGED) != 0


def is_first_wanted(ctx, source):
    """Return whether the piece at the cursor is the first that is still wanted."""
    found = found_message(ctx)
    chain = chain_from(ctx, source)
    return peek(found + r.CURSOR_RING) == peek(chain + r.RING) and peek(found + r.CURSOR_AT) == peek(chain + r.HEAD)


def skip_piece(ctx):
    """Move the cursor to the next piece, which may be in the next ring."""
    found = found_message(ctx)
    if kind_at_cursor(ctx) == r.NEXT:
        set_cursor(ctx, peek(ctx + c.ARENA) + load(piece_at_cursor(ctx) + layout.PIECE_TOTAL), 0)
    else:
        set_cursor(ctx, peek(found + r.CURSOR_RING), peek(found + r.CURSOR_AT) + piece_bytes(piece_at_cursor(ctx)))


def consume_piece(ctx, source, at_once):
    """Move the cursor to the next piece. If the piece passed was the first that was still wanted, it no longer is, and
    the sender learns of it: at once, or with one of the next pieces."""
    chain = chain_from(ctx, source)
    found = found_message(ctx)
    in_turn = is_first_wanted(ctx, source)
    skip_piece(ctx)
    if not in_turn:
        return
    ring, at = peek(chain + r.RING), peek(found + r.CURSOR_AT)
    poke(chain + r.HEAD, at)
    if peek(found + r.CURSOR_RING) != ring:
        poke(chain + r.RING, peek(found + r.CURSOR_RING))
        poke(chain + r.PUBLISHED_HEAD, 0)
        publish_to(ctx, ring + layout.RING_LEFT, 1, source)
        return
    capacity = load(ring + layout.RING_CAPACITY)
    if at_once or capacity > r.KEPT_RING or at - peek(chain + r.PUBLISHED_HEAD) >= capacity // 4:
        poke(chain + r.PUBLISHED_HEAD, at)
        publish_to(ctx, ring + layout.RING_HEAD, at, source)
