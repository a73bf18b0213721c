"""Reading a message piece by piece: what `recv` does, and what `send` does besides while it waits for room.

MAIL says how far: the cursor stands at the piece that comes next, DONE counts the bytes of the message that have been
read; UNREAD: not even its first piece; TAKEN_BACK: it has ended in DROPPED. Who has begun to read goes on to the end,
and tells so (READING) if the message is the first that is still wanted: its sender then waits for no memory.

Cost: see `engine/messages/send.py`.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, load, load_acquire, peek, poke, store, stream
from shmcoll.engine.layout import (
    MOST_DIMENSIONS,
    PIECE_FLAG,
    PIECE_KIND,
    PIECE_LENGTH,
    PIECE_TAKEN,
    PIECE_TOTAL,
    PIECE_UNIT,
    RING_CAPACITY,
    RING_HEAD,
    RING_LEFT,
    RING_PIECES,
    RING_READING,
    WORD,
    piece_dimensions,
    piece_kind,
)
from shmcoll.engine.messages.ring_buffers import (
    CURSOR_AT,
    CURSOR_RING,
    DAMAGED,
    DONE,
    DROPPED,
    FIRST,
    FOUND_SOURCE,
    FOUND_TOTAL,
    HEAD,
    KEPT_RING,
    MORE,
    NEXT,
    PART_BYTES,
    RING,
    SKIP,
    TAKEN_BACK,
    TOLD_HEAD,
    UNREAD,
    chain_from,
    found_offset,
    head_bytes,
    piece,
    piece_bytes,
)
from shmcoll.engine.protocol.sync import publish_to
from shmcoll.engine.protocol.wait import ANYBODY, EVENT_BYTES, EVENTS, SEVERAL, has_come, wait, wait_a_while


def read(ctx):
    """Copy the parts of the message that has been found as they come, those that are still to come when some have been
    read. WITHDRAWN: it ends in DROPPED."""
    found = peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))
    source, total = peek(found + FOUND_SOURCE), peek(found + FOUND_TOTAL)
    if peek(found + DONE) == UNREAD:
        read_piece(ctx)
    while 0 <= peek(found + DONE) < total:
        status = piece_comes(ctx, source)
        if status != c.OK:
            return status
        if has_piece(ctx):
            read_piece(ctx)
        if is_damaged(ctx):
            poke(ctx + c.CULPRIT, source)
            return c.BROKEN
    return c.WITHDRAWN if peek(found + DONE) == TAKEN_BACK else c.OK


def read_along(ctx, word, wanted, peer, limit, later):
    """Wait until the word at address `word`, written by `peer`, reaches `wanted`, and meanwhile read what comes of the
    message that has been found, if there is an `out` for it. For `limit` ns without a piece of it; once it has been
    read, for `later` ns."""
    found = peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))
    while is_unfinished(ctx):
        if has_come(ctx, word, wanted):
            return c.OK
        if has_piece(ctx):
            read_piece(ctx)
            continue
        if is_damaged(ctx):
            poke(ctx + c.CULPRIT, peek(found + FOUND_SOURCE))
            return c.BROKEN
        note_event(ctx, 0, word, wanted, peer)
        note_event(ctx, 1, here(ctx) + PIECE_FLAG, peek(found + CURSOR_AT) + 1, peek(found + FOUND_SOURCE))
        status = wait_a_while(ctx, SEVERAL, 2, ANYBODY, limit)
        if status != c.OK:
            poke(ctx + c.CULPRIT, peer if status == c.TIMEOUT_PASSED else peek(ctx + c.CULPRIT))
            return status
    return wait_a_while(ctx, word, wanted, peer, later)


def piece_comes(ctx, source):
    """Wait for the piece at the cursor."""
    found = peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))
    return wait(ctx, here(ctx) + PIECE_FLAG, peek(found + CURSOR_AT) + 1, source)


def is_unfinished(ctx):
    """Whether a message is to be read along and has not been read."""
    found = peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))
    if peek(ctx + c.OUT + c.DTYPE) == 0 or peek(found + DONE) == TAKEN_BACK:
        return False
    return peek(found + DONE) < peek(found + FOUND_TOTAL)


def note_event(ctx, event, word, wanted, source):
    """What `wait_any` waits for."""
    place = peek(ctx + c.MAIL) + EVENTS + event * EVENT_BYTES
    poke(place, word)
    poke(place + WORD, wanted)
    poke(place + 2 * WORD, source)


# --- a piece ----------------------------------------------------------------------------------------------------------


def read_piece(ctx):
    """Copy the part at the cursor, which has come, and go on to the next piece."""
    found = peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))
    source, total = peek(found + FOUND_SOURCE), peek(found + FOUND_TOTAL)
    if peek(found + DONE) == UNREAD:
        begin_to_read(ctx, source, total)
    done = peek(found + DONE)
    dropped = kind_here(ctx) == DROPPED
    if not dropped and part_here(ctx) > total - done:
        note_damage(ctx)
        return
    length = lay_part(ctx, done, total)
    pass_piece(ctx, source, total > PART_BYTES)
    poke(found + DONE, TAKEN_BACK if dropped else done + length)


def begin_to_read(ctx, source, total):
    """Promise to read the message at the cursor to its end."""
    found = peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))
    if not is_head(ctx, source):
        store(here(ctx) + PIECE_TAKEN, 1)
    elif part_here(ctx) < total:
        publish_to(ctx, peek(found + CURSOR_RING) + RING_READING, peek(found + CURSOR_AT) + 1, source)
    poke(found + DONE, 0)


def kind_here(ctx):
    return piece_kind(load(here(ctx) + PIECE_KIND))


def part_here(ctx):
    return load(here(ctx) + PIECE_LENGTH)


def lay_part(ctx, done, total):
    """Copy the part at the cursor to its place in `out`, past the caches when the message is long (see
    `engine/protocol/nontemporal.py`); returns its bytes."""
    target, length = peek(ctx + c.OUT + c.DATA) + done, part_here(ctx)
    part = here(ctx) + head_bytes(load(here(ctx) + PIECE_KIND))
    if total >= peek(ctx + c.STREAM_BYTES):
        stream(target, part, length)
    else:
        copy(target, part, length)
    return length


# --- going on ---------------------------------------------------------------------------------------------------------


def set_cursor(ctx, ring, at):
    found = peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))
    poke(found + CURSOR_RING, ring)
    poke(found + CURSOR_AT, at)


def here(ctx):
    """Address of the piece at the cursor."""
    found = peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))
    ring = peek(found + CURSOR_RING)
    return piece(ring, load(ring + RING_CAPACITY), peek(found + CURSOR_AT))


def has_piece(ctx):
    """Whether the piece at the cursor has come."""
    found = peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))
    if load_acquire(here(ctx) + PIECE_FLAG) != peek(found + CURSOR_AT) + 1:
        return False
    return makes_sense(ctx)


def makes_sense(ctx):
    """Whether the piece at the cursor, which has come, lies in its ring, and leads to nowhere else."""
    found = peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))
    at = here(ctx)
    capacity = load(peek(found + CURSOR_RING) + RING_CAPACITY)
    room = capacity - peek(found + CURSOR_AT) % capacity
    what, total, length = load(at + PIECE_KIND), load(at + PIECE_TOTAL), load(at + PIECE_LENGTH)
    kind = piece_kind(what)
    if kind in (FIRST, MORE):
        fits = 0 <= piece_dimensions(what) <= MOST_DIMENSIONS and 0 <= length <= room - head_bytes(what)
        fits = fits and (kind == MORE or length <= total)
    elif kind == SKIP:
        fits = total == room
    elif kind == NEXT:
        fits = is_ring(ctx, total)
    else:
        fits = kind == DROPPED
    if not fits or peek(found + DAMAGED):
        note_damage(ctx)
        return False
    return True


def is_ring(ctx, offset):
    """Whether a ring can begin at this offset of the arena."""
    room = peek(ctx + c.ARENA_BYTES) - RING_PIECES
    if offset <= 0 or offset >= room or offset % PIECE_UNIT != 0:
        return False
    capacity = load(peek(ctx + c.ARENA) + offset + RING_CAPACITY)
    return 0 < capacity <= room - offset and capacity % PIECE_UNIT == 0


def note_damage(ctx):
    """What a rank has written for this one makes no sense."""
    poke(peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE)) + DAMAGED, 1)


def is_damaged(ctx):
    return peek(peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE)) + DAMAGED) != 0


def is_head(ctx, source):
    """Whether nothing before the cursor is still wanted."""
    found = peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))
    chain = peek(ctx + c.MAIL) + chain_from(ctx, source)
    return peek(found + CURSOR_RING) == peek(chain + RING) and peek(found + CURSOR_AT) == peek(chain + HEAD)


def skip_piece(ctx):
    """Set the cursor to the piece behind, be it in the next ring."""
    found = peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))
    if kind_here(ctx) == NEXT:
        set_cursor(ctx, peek(ctx + c.ARENA) + load(here(ctx) + PIECE_TOTAL), 0)
    else:
        set_cursor(ctx, peek(found + CURSOR_RING), peek(found + CURSOR_AT) + piece_bytes(here(ctx)))


def pass_piece(ctx, source, at_once):
    """The same, and if nothing before is still wanted, this piece is not either; tell the sender sooner or later."""
    chain = peek(ctx + c.MAIL) + chain_from(ctx, source)
    found = peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))
    in_turn = is_head(ctx, source)
    skip_piece(ctx)
    if not in_turn:
        return
    ring, at = peek(chain + RING), peek(found + CURSOR_AT)
    poke(chain + HEAD, at)
    if peek(found + CURSOR_RING) != ring:
        poke(chain + RING, peek(found + CURSOR_RING))
        poke(chain + TOLD_HEAD, 0)
        publish_to(ctx, ring + RING_LEFT, 1, source)
        return
    capacity = load(ring + RING_CAPACITY)
    if at_once or capacity > KEPT_RING or at - peek(chain + TOLD_HEAD) >= capacity // 4:
        poke(chain + TOLD_HEAD, at)
        publish_to(ctx, ring + RING_HEAD, at, source)
