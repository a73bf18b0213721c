"""recv: the first message that fits a source and a tag, each of which may be ANY. See `engine/rings.py` and `send.py`.

Of one source the first in the order of sending; of several sources whichever is found first, beginning behind the one
that was served last. Looks through what has come and waits for more: for the flag of the piece that would come next, or
for those of all sources at once.

Phases, in REDUCTION:

    FETCH     find a message and read it into `out`. HALFWAY: there is no `out`, or the message does not fill it; FOUND
              says what it is, then comes DATA. VERDICT: it does not fit `out`, and stays. PREPARE: it would have to
              come from this rank itself
    FILL      the same without HALFWAY: a message that does not fill `out` is read into the beginning of it
    DATA      read what has been found into `out`. PREPARE: its sender has taken it back
    TRY       HALFWAY when there is a message now, PREPARE when not
    MARK      note up to where every source has sent, for
    ATTEND    sleep until a source has sent more than that, for a slice at most: then PREPARE. VERDICT: one of the
              others has died, or all have left

Who has receives posted (`posted.py`) marks, tries each of them, and attends when there was nothing.

Cost: see `send.py`. Arguments: ARGUMENT is the source, ARGUMENT_2 the tag; ALGORITHM is ARRAY, or another form where an
object is wanted: a message of the other kind does not fit. OK is told as a negative number, minus 1 minus
source << 32 | tag.
"""

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.atomics import copy, load, load_acquire, peek, poke, store, stream
from shmcoll.engine.layout import (
    ANY,
    PIECE_DIMS,
    PIECE_FLAG,
    PIECE_KIND,
    PIECE_LENGTH,
    PIECE_TAG,
    PIECE_TAKEN,
    PIECE_TOTAL,
    RING_CAPACITY,
    RING_HEAD,
    RING_LEFT,
    RING_READING,
    WORD,
)
from shmcoll.engine.rings import (
    ARRAY,
    CURSOR_AT,
    CURSOR_RING,
    DROPPED,
    FIRST,
    FOUND_DIMENSIONS,
    FOUND_DIMS,
    FOUND_SOURCE,
    FOUND_TAG,
    FOUND_TOTAL,
    FOUND_TYPE,
    HEAD,
    KEPT_RING,
    NEXT,
    OBJECT,
    PART_BYTES,
    RING,
    SOURCE_SHIFT,
    TOLD_HEAD,
    chain_from,
    dimensions_of,
    found_offset,
    head_bytes,
    piece,
    piece_bytes,
)
from shmcoll.engine.sync import publish_to
from shmcoll.engine.wait import EVENT_BYTES, EVENTS, mailbox, sleep_once, wait, wait_any

FETCH, DATA, TRY, MARK, ATTEND, FILL = range(6)

NO_TAG = -2  # no message has it
NOWHERE = -1  # in place of an event


def recv(ctx):
    phase = peek(ctx + c.REDUCTION)
    if phase in (FETCH, FILL):
        return fetch(ctx)
    if phase == DATA:
        return take(ctx)
    if phase == TRY:
        return try_to_find(ctx)
    size = peek(ctx + c.SIZE)
    if phase == ATTEND:
        status = sleep_once(ctx, size)
        if status == c.PEER_LOST:
            return c.VERDICT
        return c.PREPARE if status == c.TIMEOUT_PASSED else status
    for source in range(size):
        find_from(ctx, source, NO_TAG, source)
    return c.OK


def fetch(ctx):
    source = peek(ctx + c.ARGUMENT)
    while True:
        if find(ctx, source, 0):
            status = take(ctx) if peek(ctx + c.REDUCTION) == FILL or is_filled(ctx) else c.HALFWAY
            if status != c.PREPARE:
                return status
        else:
            status = await_message(ctx, source)
            if status != c.OK:
                return status


def try_to_find(ctx):
    if find(ctx, peek(ctx + c.ARGUMENT), NOWHERE):
        return c.HALFWAY
    return c.ABORTED if load_acquire(peek(ctx + c.GROUP) + layout.ABORT) else c.PREPARE


def await_message(ctx, source):
    """Wait until something follows what `find` has seen."""
    if source == peek(ctx + c.RANK) or peek(ctx + c.SIZE) == 1:
        return c.PREPARE
    if source == ANY:
        return wait_any(ctx, peek(ctx + c.SIZE))
    event = peek(ctx + c.MAIL) + EVENTS
    return wait(ctx, peek(event), peek(event + WORD), source)


# --- finding ----------------------------------------------------------------------------------------------------------


def find(ctx, source, event):
    """Find the first message that fits; where there is none, note what to wait for, from EVENT number `event` on."""
    tag = peek(ctx + c.ARGUMENT_2)
    if source != ANY:
        return find_from(ctx, source, tag, event)
    size = peek(ctx + c.SIZE)
    last = peek(peek(ctx + c.MAIL) + found_offset(size) + FOUND_SOURCE)
    for i in range(1, size + 1):
        one = (last + i) % size
        if find_from(ctx, one, tag, NOWHERE if event == NOWHERE else event + one):
            return 1
    return 0


def find_from(ctx, source, tag, event):
    """The same for one source, by way of the cursor. What lies before all that is still wanted is given up."""
    chain = peek(ctx + c.MAIL) + chain_from(ctx, source)
    if peek(chain + RING) == 0:
        told = mailbox(ctx, source) + peek(ctx + c.RINGS) + peek(ctx + c.RANK) * WORD
        offset = load_acquire(told)
        if offset == 0:
            note_event(ctx, event, told, 1, source)
            return 0
        poke(chain + RING, peek(ctx + c.ARENA) + offset)
    set_cursor(ctx, peek(chain + RING), peek(chain + HEAD))
    while has_piece(ctx):
        if not has_message(ctx):
            pass_piece(ctx, source, 0)
        elif tag == ANY or tag_here(ctx) == tag:
            note_found(ctx, source)
            return 1
        else:
            skip_piece(ctx)
    found = peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))
    note_event(ctx, event, here(ctx) + PIECE_FLAG, peek(found + CURSOR_AT) + 1, source)
    return 0


def has_message(ctx):
    """Whether a message that nobody has taken begins at the cursor."""
    return load(here(ctx) + PIECE_KIND) & 0xFF == FIRST and load(here(ctx) + PIECE_TAKEN) == 0


def tag_here(ctx):
    return load(here(ctx) + PIECE_TAG)


def note_found(ctx, source):
    """Note what the message at the cursor is."""
    found = peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))
    first = here(ctx)
    what = load(first + PIECE_KIND)
    poke(found + FOUND_SOURCE, source)
    poke(found + FOUND_TAG, load(first + PIECE_TAG))
    poke(found + FOUND_TYPE, what >> 8 & 0xFF)
    poke(found + FOUND_DIMENSIONS, dimensions_of(what))
    poke(found + FOUND_TOTAL, load(first + PIECE_TOTAL))
    for i in range(dimensions_of(what)):
        poke(found + FOUND_DIMS + i * WORD, load(first + PIECE_DIMS + i * WORD))


def note_event(ctx, event, word, wanted, source):
    """What to wait for. A wait for one source has the first event, one for several each its own."""
    if event != NOWHERE:
        place = peek(ctx + c.MAIL) + EVENTS + event * EVENT_BYTES
        poke(place, word)
        poke(place + WORD, wanted)
        poke(place + 2 * WORD, source)


# --- reading ----------------------------------------------------------------------------------------------------------


def is_filled(ctx):
    """Whether there is an `out`, no longer than what has been found."""
    found = peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))
    return peek(ctx + c.OUT + c.DTYPE) != 0 and peek(found + FOUND_TOTAL) >= peek(ctx + c.OUT + c.BYTES)


def take(ctx):
    """Read what has been found into `out`."""
    found = peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))
    total, room = peek(found + FOUND_TOTAL), peek(ctx + c.OUT + c.BYTES)
    wanted = peek(ctx + c.OUT + c.DTYPE) if peek(ctx + c.ALGORITHM) == ARRAY else OBJECT
    if peek(found + FOUND_TYPE) != wanted or total > room:
        return refuse(ctx, total)
    status = read(ctx, total)
    if status != c.OK:
        return status
    return -1 - (peek(found + FOUND_SOURCE) << SOURCE_SHIFT | peek(found + FOUND_TAG))


def refuse(ctx, total):
    """VERDICT for what has been found; PREPARE where it is known to end in DROPPED: then it counts as taken."""
    found = peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))
    first, ring, at = here(ctx), peek(found + CURSOR_RING), peek(found + CURSOR_AT)
    done, dropped = 0, 0
    while done < total and dropped == 0 and has_piece(ctx):
        dropped = 1 if kind_here(ctx) == DROPPED else 0
        done += part_here(ctx)
        skip_piece(ctx)
    set_cursor(ctx, ring, at)
    if dropped == 0:
        return c.VERDICT
    store(first + PIECE_TAKEN, 1)
    return c.PREPARE


def read(ctx, total):
    """Copy the parts of the message at the cursor as they come. PREPARE: it ends in DROPPED."""
    found = peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))
    source, at_once = peek(found + FOUND_SOURCE), total > PART_BYTES
    if not is_head(ctx, source):
        store(here(ctx) + PIECE_TAKEN, 1)
    elif part_here(ctx) < total:
        publish_to(ctx, peek(found + CURSOR_RING) + RING_READING, peek(found + CURSOR_AT) + 1, source)
    done = lay_part(ctx, 0, total)
    pass_piece(ctx, source, at_once)
    while done < total:
        status = piece_comes(ctx, source)
        if status != c.OK:
            return status
        dropped = kind_here(ctx) == DROPPED
        done += lay_part(ctx, done, total)
        pass_piece(ctx, source, at_once)
        if dropped:
            return c.PREPARE
    return c.OK


def piece_comes(ctx, source):
    """Wait for the piece at the cursor."""
    found = peek(ctx + c.MAIL) + found_offset(peek(ctx + c.SIZE))
    return wait(ctx, here(ctx) + PIECE_FLAG, peek(found + CURSOR_AT) + 1, source)


def kind_here(ctx):
    return load(here(ctx) + PIECE_KIND) & 0xFF


def part_here(ctx):
    return load(here(ctx) + PIECE_LENGTH)


def lay_part(ctx, done, total):
    """Copy the part at the cursor to its place in `out`, past the caches when the message is long (see `landing.py`);
    returns its bytes."""
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
    return load_acquire(here(ctx) + PIECE_FLAG) == peek(found + CURSOR_AT) + 1


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
