"""The common part of the collectives with counts: the tables of counts beside the headers, their check, and the blocks
that they describe.

Every rank publishes what it sends and what it expects. After the opening sync each rank checks the tables of all ranks,
so all ranks reach the same verdict before a byte of a result moves. A rank takes its receive counts from what the
others send. Then every block moves from the cell of its sender to its final place, one part per round.

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
    RECV_COUNTS,
    RECV_DISPLS,
    SEND_COUNTS,
    SEND_DISPLS,
    TABLE_ENDS,
    TABLE_SIZES,
    TABLES,
    WORD,
)
from shmcoll.engine.protocol.cells import cell_in_share, write_cell
from shmcoll.engine.protocol.count_checks import all_fit, first, get, has_room_for_all, last, sent_to, take_counts
from shmcoll.engine.protocol.exposure import (
    EVERY_HEADER,
    expose,
    exposed,
    find_out,
    note_result,
    read_exposed,
    results_are_apart,
)
from shmcoll.engine.protocol.mailboxes import mailbox
from shmcoll.engine.protocol.nontemporal import copy_to_result
from shmcoll.engine.protocol.pace import begin_copy, note_copy
from shmcoll.engine.protocol.sync import await_step, begin, exchange_headers, peer_after

PHASE, TABLE = c.EXTRA, c.EXTRA + WORD
COUNTS, BOTH, DATA = 0, 1, c.LATER


def begin_with_table(ctx, covers, share, threshold):
    """Begin the operation (see `sync.begin`), copy this rank's table beside its header, expose its array if that pays,
    and return the number. `share`: the bytes of the array that each peer reads, about; 0: it is not exposed.
    `threshold`: as for `expose`."""
    sequence = begin(ctx, covers)
    size = peek(ctx + c.SIZE)
    own, shared = peek(ctx + TABLE), table(ctx, peek(ctx + c.RANK), sequence)
    for i in range(TABLE_SIZES * size + TABLE_ENDS):
        store(shared + i * WORD, load(own + i * WORD))
    note_result(ctx, sequence, peek(ctx + PHASE) == BOTH)
    expose(ctx, sequence, peek(ctx + c.X + c.DATA), peek(ctx + c.X + c.BYTES), share, threshold)
    return sequence


def is_opening(ctx):
    """Return whether the tables are still to be exchanged, which the second of two phases does not do."""
    return peek(ctx + PHASE) != DATA


# --- the check --------------------------------------------------------------------------------------------------------


def exchange_tables(ctx, sequence, sender, receiver):
    """Open, and return what `check_counts` does; or the status of an opening that has failed."""
    status = exchange_headers(ctx, sequence)
    return check_counts(ctx, sequence, sender, receiver) if status == c.OK else status


def check_counts(ctx, sequence, sender, receiver):
    """Check whether everything that `sender` sends to `receiver` fits. Return OK, COUNTS_KNOWN in the phase COUNTS, or
    DISAGREE."""
    size, me, own = peek(ctx + c.SIZE), peek(ctx + c.RANK), peek(ctx + TABLE)
    tables, apart = table(ctx, 0, sequence), peek(ctx + c.STRIDE)
    if not all_fit(tables, apart, size, sender, receiver):
        return c.DISAGREE
    take_counts(sent_to(tables, size, me), apart, size, own)
    if not has_room_for_all(own, size):
        poke(ctx + c.CULPRIT, me)
        return c.BROKEN
    if not results_are_apart(ctx, sequence):
        return c.OVERLAP
    return c.COUNTS_KNOWN if peek(ctx + PHASE) == COUNTS else c.OK


# --- blocks -----------------------------------------------------------------------------------------------------------


def rounds_of(ctx, sequence, sender, receiver, item, part):
    """Return the parts of the longest block that moves between different ranks through a cell, the same number on all
    ranks."""
    size, longest = peek(ctx + c.SIZE), 0
    for source in range(first(sender), last(sender, size) + 1):
        if has_exposed(ctx, sequence, source):
            continue
        rows = table(ctx, source, sequence)
        for target in range(first(receiver), last(receiver, size) + 1):
            if source != target:
                longest = max(longest, get(rows, size, SEND_COUNTS, target))
    return -(-longest * item // part)


def part_cell(ctx, sequence, k, sender, reader, length, part, shares):
    """Return the address of the k-th part of a block of `length` bytes. A cell has so many shares; with one, all
    readers find the same block in it."""
    index = 0 if shares == 1 else reader - (reader > sender)
    return cell_in_share(ctx, sender, sequence, k, -(-length // part), min(length, part), index, shares)


def stage_part(ctx, sequence, k, peer, part, shares):
    """Copy the k-th part of the block for `peer` into this rank's cell, if this rank uses it."""
    size, me, own, item = peek(ctx + c.SIZE), peek(ctx + c.RANK), peek(ctx + TABLE), peek(ctx + c.X + c.ITEM)
    if has_exposed(ctx, sequence, me):
        return
    length = get(own, size, SEND_COUNTS, peer) * item
    left = length - k * part
    if left > 0:
        source = peek(ctx + c.X + c.DATA) + get(own, size, SEND_DISPLS, peer) * item + k * part
        count = min(left, part)
        write_cell(ctx, part_cell(ctx, sequence, k, me, peer, length, part, shares), source, count)


def fetch_part(ctx, sequence, k, peer, part, shares):
    """Wait for the k-th part of the block from `peer`, and copy it from that rank's cell to its place. Part 0 was
    published with the header. An exposed block is one part."""
    if k > 0:
        status = await_step(ctx, sequence, k, peer)
        if status != c.OK:
            return status
    size, own, item = peek(ctx + c.SIZE), peek(ctx + TABLE), peek(ctx + c.OUT + c.ITEM)
    length = get(own, size, RECV_COUNTS, peer) * item
    left = length - k * part
    if k == 0:
        find_out(ctx, left)
    if has_exposed(ctx, sequence, peer):
        return fetch_exposed(ctx, sequence, peer, left) if k == 0 else c.OK
    if left > 0:
        place = peek(ctx + c.OUT + c.DATA) + get(own, size, RECV_DISPLS, peer) * item + k * part
        count = min(left, part)
        begun = begin_copy(ctx, count)
        source = part_cell(ctx, sequence, k, peer, peek(ctx + c.RANK), length, part, shares)
        copy_to_result(ctx, place, source, count)
        note_copy(ctx, c.FETCH_PACE, begun, count)
    return c.OK


def has_exposed(ctx, sequence, rank):
    """Return whether a rank exposes its array. The headers of these collectives always say so."""
    return exposed(ctx, sequence, rank, EVERY_HEADER) != 0


def fetch_exposed(ctx, sequence, peer, length):
    """Copy the block from `peer` to its place from where that rank exposes it."""
    size, me, own, item = peek(ctx + c.SIZE), peek(ctx + c.RANK), peek(ctx + TABLE), peek(ctx + c.OUT + c.ITEM)
    start = get(table(ctx, peer, sequence), size, SEND_DISPLS, me) * item
    place = peek(ctx + c.OUT + c.DATA) + get(own, size, RECV_DISPLS, peer) * item
    return read_exposed(ctx, sequence, peer, start, place, length)


def fetch_parts(ctx, sequence, k, part, shares):
    """Call `fetch_part` for all peers, beginning with the next rank."""
    for i in range(1, peek(ctx + c.SIZE)):
        status = fetch_part(ctx, sequence, k, peer_after(ctx, i), part, shares)
        if status != c.OK:
            return status
    return c.OK


def copy_own_block(ctx):
    """Copy the block that this rank sends to itself from its array to its result."""
    copy_own_part(ctx, 0, own_block_bytes(ctx))


def copy_own_part(ctx, k, part):
    """Copy the k-th part, of `part` bytes, of the block that this rank sends to itself."""
    size, me, own, item = peek(ctx + c.SIZE), peek(ctx + c.RANK), peek(ctx + TABLE), peek(ctx + c.X + c.ITEM)
    left = own_block_bytes(ctx) - k * part
    if left > 0:
        place = peek(ctx + c.OUT + c.DATA) + get(own, size, RECV_DISPLS, me) * item + k * part
        source = peek(ctx + c.X + c.DATA) + get(own, size, SEND_DISPLS, me) * item + k * part
        copy_to_result(ctx, place, source, min(left, part))


def own_block_bytes(ctx):
    return get(peek(ctx + TABLE), peek(ctx + c.SIZE), SEND_COUNTS, peek(ctx + c.RANK)) * peek(ctx + c.X + c.ITEM)


# --- tables -----------------------------------------------------------------------------------------------------------


def table(ctx, rank, sequence):
    """Return the address of the table that `rank` writes for operation `sequence`."""
    stride = (peek(ctx + c.RINGS) - TABLES) // 2
    return mailbox(ctx, rank) + TABLES + (sequence & 1) * stride
