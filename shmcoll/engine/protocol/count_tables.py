"""The collectives with counts: the tables of counts beside the headers, their check, and the blocks that they describe.

Every rank publishes what it sends and what it expects. After the opening sync each rank checks the tables of all ranks,
so all ranks reach the same verdict before a byte of a result moves. A rank takes its receive counts from what the
others send. Then the blocks move (`block_mover.py`).

Table of a rank, rows of n words (-1: not given), then four words:

    SEND_COUNTS  SEND_DISPLS      elements to rank i, and where they begin in the source
    RECV_COUNTS                   elements expected from rank i; -1: any number
    RECV_DISPLS                   where they go in the result; -1 (all of them): one after the other
    RECV_ROOM                     at most this many from rank i; -1: any number
    SOURCE_SIZE  RESULT_SIZE      elements of the source; of the result, -1: not allocated yet
    ELEMENT_TYPE                  dtype code of the arrays, -1: any dtype
    COUNT_UNIT                    counts that one row or element of the user has, for messages; below 1: one

There are two phases, because a result of the right size can only be allocated when the counts are known: COUNTS opens,
checks, and returns COUNTS_KNOWN; DATA moves the blocks. BOTH does all of it in one call. The cells stay unchanged
between the phases, because no peer can reach the operation after next.

Arguments of these collectives: the EXTRA words are the phase and the address of this rank's own table, in private
memory. The check leaves the receive counts and the displacements of the result in it.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import load, peek, poke, store
from shmcoll.engine.layout import (
    ELEMENT_TYPE,
    RECV_COUNTS,
    RECV_DISPLS,
    SEND_COUNTS,
    SEND_DISPLS,
    TABLE_ENDS,
    TABLE_SIZES,
    WORD,
)
from shmcoll.engine.protocol.block_mover import (
    map_blocks,
    map_lengths,
    map_sources,
    map_targets,
    move_blocks,
    offer_blocks,
)
from shmcoll.engine.protocol.count_checks import (
    ANYONE,
    all_fit,
    get,
    has_room_for_all,
    put,
    sends_fit,
    sent_to,
    take_counts,
)
from shmcoll.engine.protocol.mailboxes import table
from shmcoll.engine.protocol.sync import begin, exchange_headers

PHASE, TABLE = c.EXTRA, c.EXTRA + WORD
COUNTS, BOTH, DATA = 0, 1, c.LATER


def move_counted(ctx, covers, sender, receiver, is_cut, way):
    """Do a call in which `sender` sends to `receiver`, each one rank or ANYONE. covers: see `sync.begin`. is_cut: each
    receiver gets a block of its own. way: see `ways.py`."""
    if peek(ctx + PHASE) != DATA:
        status = open_and_check(ctx, covers, sender, receiver, is_cut, way)
        if status != c.OK:
            return status
    else:
        map_table(ctx, sender, receiver, is_cut)
    return move_blocks(ctx, peek(ctx + c.TURN))


def open_and_check(ctx, covers, sender, receiver, is_cut, way):
    """Publish this rank's table, offer its blocks, open, and check the tables of all ranks. Return OK, COUNTS_KNOWN in
    the phase COUNTS, DISAGREE, or the status of an opening that has failed."""
    turn, size, me, own = begin(ctx, covers), peek(ctx + c.SIZE), peek(ctx + c.RANK), peek(ctx + TABLE)
    shared = table(ctx, me, turn)
    for i in range(TABLE_SIZES * size + TABLE_ENDS):
        store(shared + i * WORD, load(own + i * WORD))
    sends = sender in (ANYONE, me) and receiver != me
    map_table(ctx, sender, receiver, is_cut)
    if sends and not sends_fit(own, size, receiver):
        poke(ctx + c.SENDS_TO, me)  # nothing, before all ranks refuse the call
    share = peek(ctx + c.X + c.BYTES) // (size if is_cut else 1) if sends else 0
    offer_blocks(ctx, turn, way, share, peek(ctx + PHASE) == BOTH)
    status = exchange_headers(ctx)
    return check_counts(ctx, turn, sender, receiver) if status == c.OK else status


def map_table(ctx, sender, receiver, is_cut):
    """Make the map of the blocks of this rank's table."""
    size, own = peek(ctx + c.SIZE), peek(ctx + TABLE)
    item = peek(ctx + (c.X if peek(ctx + c.X + c.DTYPE) else c.OUT) + c.ITEM)
    map_blocks(ctx, sender, receiver, item, is_cut)
    map_sources(ctx, peek(ctx + c.X + c.DATA), item, own + SEND_DISPLS * size * WORD)
    map_targets(ctx, peek(ctx + c.OUT + c.DATA), item, own + RECV_DISPLS * size * WORD)
    map_lengths(ctx, item, own + SEND_COUNTS * size * WORD, own + RECV_COUNTS * size * WORD)
    poke(ctx + c.OWN_BYTES, peek(ctx + c.OWN_BYTES) * get(own, size, SEND_COUNTS, peek(ctx + c.RANK)))


def check_counts(ctx, turn, sender, receiver):
    """Check whether everything that `sender` sends to `receiver` fits. Return OK, COUNTS_KNOWN in the phase COUNTS, or
    DISAGREE."""
    size, me, own = peek(ctx + c.SIZE), peek(ctx + c.RANK), peek(ctx + TABLE)
    tables, apart = table(ctx, 0, turn), peek(ctx + c.STRIDE)
    if sender != ANYONE and not dtypes_agree(ctx, turn, sender):
        return c.DISAGREE
    if not all_fit(tables, apart, size, sender, receiver):
        return c.DISAGREE
    take_counts(sent_to(tables, size, me), apart, size, own)
    if not has_room_for_all(own, size):
        poke(ctx + c.CULPRIT, me)
        return c.BROKEN
    return c.COUNTS_KNOWN if peek(ctx + PHASE) == COUNTS else c.OK


def dtypes_agree(ctx, turn, root):
    """Return whether all arrays to receive into have the root's dtype. Write it into this rank's table."""
    size = peek(ctx + c.SIZE)
    dtype = get(table(ctx, root, turn), size, TABLE_SIZES, ELEMENT_TYPE)
    for rank in range(size):
        given = get(table(ctx, rank, turn), size, TABLE_SIZES, ELEMENT_TYPE)
        if given >= 0 and given != dtype:
            return 0
    put(peek(ctx + TABLE), size, TABLE_SIZES, ELEMENT_TYPE, dtype)
    return 1
