"""recv: receive the first message that fits a source and a tag, each of which may be ANY. See
`engine/messages/ring_buffers.py` and `send.py`.

Of one source it receives the message that was sent first. Of several sources it receives the message that it finds
first; the search begins behind the source that was served last. It looks through what has come and waits for more: for
the flag of the piece that would come next, or for those of all sources at once.

Phases, in RECV_PHASE, and what they return besides OK and failures:

    FETCH     find a message and read it into `out`
                  FOUND           there is no `out`, or the message does not fill it. FOUND_* describe the message; DATA
                                  comes next
                  DOES_NOT_FIT    the message does not fit `out`, and stays
                  SEND_FIRST      only this rank itself could send the message
                  GIVES_WAY       no message has come, and another thread wants to call
    FILL      the same, but a message that does not fill `out` is read into the beginning of it
    SOON      the same as FETCH for a message that is there as a whole, or comes while this rank polls; else
              NOTHING_YET. It neither sleeps nor answers INTERRUPTED
    DATA      read what has been found into `out`, or what is left of it
                  WITHDRAWN       its sender has taken it back
    TRY       look for a message: FOUND, or NOTHING_YET
    SEEK      look for a message: LOOKED; there is one if DONE is UNREAD
    WHOLE     of a long message that TRY has found, wait while this rank polls until all of it has come: FOUND, and DATA
              will not wait; or NOTHING_YET
    MARK      note up to where every source has sent, for ATTEND
    ATTEND    wait until a source has sent more than that
                  SLICE_OVER      nothing has come in a slice
                  SOURCE_LOST     another rank has failed, or all others have left
    POLL      the same, but only for as long as it takes to poll: OK, or SLICE_OVER

Only FETCH, FILL and SOON begin a call. A thread that looks at posted receives (`runtime/posted_receives.py`) and a send
that uses SEEK may enter between two phases of a call of theirs; `engine/native/entering.py` says why no other thread
enters there. Such a thread marks, tries each of the posted receives, and attends if there was no message.

Cost: see `send.py`. Arguments: ARGUMENT is the source, ARGUMENT_2 the tag. FORM is ARRAY; another form if an object is
wanted; or for DATA FOREIGN, if `out` shows the bytes of an array of the dtype that was sent. A message of another kind
does not fit. OK is a negative number: minus 1 minus source << 32 | tag.
"""

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.atomics import load, load_acquire, peek, poke, store
from shmcoll.engine.collective import ANY_SOURCE, PEER, Collective
from shmcoll.engine.layout import WORD, piece_dimensions, piece_dtype
from shmcoll.engine.messages import ring_buffers as r
from shmcoll.engine.messages.read_message import (
    consume_piece,
    has_piece,
    is_damaged,
    is_ring,
    kind_at_cursor,
    length_at_cursor,
    note_damage,
    note_event,
    piece_at_cursor,
    read_message,
    set_cursor,
    skip_piece,
)
from shmcoll.engine.messages.ring_buffers import chain_from, found_message
from shmcoll.engine.protocol.mailboxes import mailbox
from shmcoll.engine.protocol.wait import ANYBODY, EVENTS, SEVERAL, comes_soon, wait_for_a_slice, wait_for_message

FETCH, FILL, SOON = range(3)
DATA, TRY, MARK, ATTEND, POLL, SEEK, WHOLE = range(c.LATER, c.LATER + 7)

NO_TAG = -2  # no message has it
NOWHERE = -1  # in place of an event


def recv(ctx):
    phase = peek(ctx + c.RECV_PHASE)
    if phase in (FETCH, FILL):
        return fetch(ctx)
    if phase == SOON:
        return fetch_soon(ctx)
    if phase == DATA:
        return read_into_out(ctx)
    if phase == TRY:
        return try_to_find(ctx)
    if phase == SEEK:
        return seek(ctx)
    if phase == WHOLE:
        return c.FOUND if is_whole_soon(ctx) else c.NOTHING_YET
    size = peek(ctx + c.SIZE)
    if phase == POLL:
        return c.OK if comes_soon(ctx, SEVERAL, size, ANYBODY) else c.SLICE_OVER
    if phase == ATTEND:
        status = wait_for_a_slice(ctx, size)
        if status == c.PEER_LOST:
            return c.SOURCE_LOST
        return c.SLICE_OVER if status == c.TIMEOUT_PASSED else status
    for source in range(size):
        find_from(ctx, source, NO_TAG, source)
    return c.BROKEN if is_damaged(ctx) else c.OK


def fetch(ctx):
    source = peek(ctx + c.ARGUMENT)
    while True:
        if find(ctx, source, 0):
            status = read_into_out(ctx) if peek(ctx + c.RECV_PHASE) == FILL or is_filled(ctx) else c.FOUND
            if status != c.WITHDRAWN:
                return status
        else:
            status = await_message(ctx, source)
            if status != c.OK:
                return status


def fetch_soon(ctx):
    source = peek(ctx + c.ARGUMENT)
    if not find(ctx, source, 0) and (not follows_soon(ctx, source) or not find(ctx, source, 0)):
        return c.NOTHING_YET
    if not is_whole_soon(ctx):
        return c.NOTHING_YET
    return read_into_out(ctx) if is_filled(ctx) else c.FOUND


def is_whole_soon(ctx):
    """Return whether all of the message that has been found has come, or comes while this rank polls. A message that
    its ring cannot hold, or that its sender offers, comes only while it is read."""
    found = found_message(ctx)
    source, total = peek(found + r.FOUND_SOURCE), peek(found + r.FOUND_TOTAL)
    if total <= r.PART_BYTES:
        return 1
    ring, at = peek(found + r.CURSOR_RING), peek(found + r.CURSOR_AT)
    if length_at_cursor(ctx) == 0 or total > load(ring + layout.RING_CAPACITY):
        return 0
    done, goes_on = 0, 1
    while done < total and goes_on:
        done += length_at_cursor(ctx)
        done = total if kind_at_cursor(ctx) == r.DROPPED else done
        skip_piece(ctx)
        if done < total:
            flag = piece_at_cursor(ctx) + layout.PIECE_FLAG
            goes_on = comes_soon(ctx, flag, peek(found + r.CURSOR_AT) + 1, source) and has_piece(ctx)
    set_cursor(ctx, ring, at)
    return done >= total


def follows_soon(ctx, source):
    """Return whether a piece comes behind what `find` has seen while this rank polls."""
    if source == peek(ctx + c.RANK) or is_damaged(ctx):
        return 0
    if source == layout.ANY:
        return comes_soon(ctx, SEVERAL, peek(ctx + c.SIZE), ANYBODY)
    event = peek(ctx + c.MAIL) + EVENTS
    return comes_soon(ctx, peek(event), peek(event + WORD), source)


def try_to_find(ctx):
    if find(ctx, peek(ctx + c.ARGUMENT), NOWHERE):
        return c.FOUND
    if is_damaged(ctx):
        return c.BROKEN
    return c.ABORTED if load_acquire(peek(ctx + c.GROUP) + layout.ABORT) else c.NOTHING_YET


def seek(ctx):
    if not find(ctx, peek(ctx + c.ARGUMENT), NOWHERE):
        poke(found_message(ctx) + r.DONE, r.TAKEN_BACK)
        if is_damaged(ctx):
            return c.BROKEN
    return c.ABORTED if load_acquire(peek(ctx + c.GROUP) + layout.ABORT) else c.LOOKED


def await_message(ctx, source):
    """Wait until a piece comes behind what `find` has seen."""
    if is_damaged(ctx):
        return c.BROKEN
    if source == peek(ctx + c.RANK) or peek(ctx + c.SIZE) == 1:
        return c.SEND_FIRST
    if source == layout.ANY:
        return wait_for_message(ctx, SEVERAL, peek(ctx + c.SIZE), ANYBODY)
    event = peek(ctx + c.MAIL) + EVENTS
    return wait_for_message(ctx, peek(event), peek(event + WORD), source)


# --- finding ----------------------------------------------------------------------------------------------------------


def find(ctx, source, event):
    """Return whether there is a message that fits; the cursor is at the first one. If there is none, note what to wait
    for, from entry `event` of EVENTS on."""
    tag = peek(ctx + c.ARGUMENT_2)
    if source != layout.ANY:
        return find_from(ctx, source, tag, event)
    size = peek(ctx + c.SIZE)
    last = peek(found_message(ctx) + r.FOUND_SOURCE)
    for i in range(1, size + 1):
        one = (last + i) % size
        if find_from(ctx, one, tag, NOWHERE if event == NOWHERE else event + one):
            return 1
    return 0


def find_from(ctx, source, tag, event):
    """Do the same for one source. Consume the pieces before the first that is still wanted."""
    chain = chain_from(ctx, source)
    if peek(chain + r.RING) == 0:
        told = mailbox(ctx, source) + peek(ctx + c.RINGS) + peek(ctx + c.RANK) * WORD
        offset = load_acquire(told)
        if offset == 0:
            if event != NOWHERE:
                note_event(ctx, event, told, 1, source)
            return 0
        if not is_ring(ctx, offset):
            note_damage(ctx)
            poke(ctx + c.CULPRIT, source)
            return 0
        poke(chain + r.RING, peek(ctx + c.ARENA) + offset)
    set_cursor(ctx, peek(chain + r.RING), peek(chain + r.HEAD))
    while has_piece(ctx):
        if not has_message(ctx):
            consume_piece(ctx, source, 0)
        elif tag == layout.ANY or tag_at_cursor(ctx) == tag:
            note_found(ctx, source)
            return 1
        else:
            skip_piece(ctx)
    found = found_message(ctx)
    if peek(found + r.DAMAGED):
        poke(ctx + c.CULPRIT, source)
    if event != NOWHERE:
        note_event(ctx, event, piece_at_cursor(ctx) + layout.PIECE_FLAG, peek(found + r.CURSOR_AT) + 1, source)
    return 0


def has_message(ctx):
    """Return whether a message that has not been taken begins at the cursor."""
    return kind_at_cursor(ctx) == r.FIRST and load(piece_at_cursor(ctx) + layout.PIECE_TAKEN) != r.TAKEN


def tag_at_cursor(ctx):
    return load(piece_at_cursor(ctx) + layout.PIECE_TAG)


def note_found(ctx, source):
    """Note source, tag, type and shape of the message at the cursor."""
    found = found_message(ctx)
    first = piece_at_cursor(ctx)
    what = load(first + layout.PIECE_KIND)
    poke(found + r.DONE, r.UNREAD)
    poke(found + r.FOUND_SOURCE, source)
    poke(found + r.FOUND_TAG, load(first + layout.PIECE_TAG))
    poke(found + r.FOUND_TYPE, piece_dtype(what))
    poke(found + r.FOUND_DIMENSIONS, piece_dimensions(what))
    poke(found + r.FOUND_TOTAL, load(first + layout.PIECE_TOTAL))
    for i in range(piece_dimensions(what)):
        poke(found + r.FOUND_DIMS + i * WORD, load(first + layout.PIECE_DIMS + i * WORD))


# --- taking -----------------------------------------------------------------------------------------------------------


def is_filled(ctx):
    """Return whether there is an `out`, no longer than what has been found."""
    found = found_message(ctx)
    return peek(ctx + c.OUT + c.DTYPE) != 0 and peek(found + r.FOUND_TOTAL) >= peek(ctx + c.OUT + c.BYTES)


def read_into_out(ctx):
    """Read what has been found into `out`."""
    found = found_message(ctx)
    total, room = peek(found + r.FOUND_TOTAL), peek(ctx + c.OUT + c.BYTES)
    form = peek(ctx + c.FORM)
    wanted = peek(ctx + c.OUT + c.DTYPE) if form == r.ARRAY else r.FOREIGN_TYPE if form == r.FOREIGN else r.OBJECT
    if peek(found + r.FOUND_TYPE) != wanted or total > room:
        return refuse(ctx, total)
    status = read_message(ctx)
    if status != c.OK:
        return status
    return -1 - (peek(found + r.FOUND_SOURCE) << r.SOURCE_SHIFT | peek(found + r.FOUND_TAG))


def refuse(ctx, total):
    """Return DOES_NOT_FIT for what has been found; WITHDRAWN if it is known to end in DROPPED: it then
    counts as taken."""
    found = found_message(ctx)
    first, ring, at = piece_at_cursor(ctx), peek(found + r.CURSOR_RING), peek(found + r.CURSOR_AT)
    done, dropped = 0, 0
    while done < total and dropped == 0 and has_piece(ctx):
        dropped = 1 if kind_at_cursor(ctx) == r.DROPPED else 0
        done += length_at_cursor(ctx)
        skip_piece(ctx)
    set_cursor(ctx, ring, at)
    if is_damaged(ctx):
        poke(ctx + c.CULPRIT, peek(found + r.FOUND_SOURCE))
        return c.BROKEN
    if dropped == 0:
        return c.DOES_NOT_FIT
    store(first + layout.PIECE_TAKEN, r.TAKEN)
    return c.WITHDRAWN


COLLECTIVE = Collective(recv, code=17, form=PEER | ANY_SOURCE)
