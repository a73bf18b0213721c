"""The collectives with counts over nodes: all_to_all_v, all_gather_v, gather_v, scatter_v. One algorithm serves all.

The opening carries the tables of all ranks, and short sources (`count_rows.py`). The blocks of a source that has
come with it are copied from there. The others go as in every exchange of blocks (`long_moves.py`): within the node
through shared memory, to other nodes by one message for each pair of ranks. All ranks know all tables, so the ranks of
a node agree on whether there is anything to share.

All tables together grow with the square of the ranks. If an opening has no room for them, `find_counts` takes their
place: each rank learns what is sent to it (OFFERS, OFFERED), and checks that and what it sends. In a second opening all
ranks learn whether all of it fits.

A call without `out` has two phases, as on one machine: COUNTS ends with COUNTS_KNOWN, and DATA moves the blocks. No
other call of the group enters between them (ACTIVE of `native/entering.py`). A rank of scatter_v without `out` learns
the dtype from the root's table.

Cost: O(n (5 n W + s)); for longer sources A + (n - r - 1) o + S / B more. n ranks, r of a node, s bytes of a source
that is short, S of what a node sends, W a word. A, o, B, and O(S) for an opening: see `opening.py`.
"""

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.atomics import copy, peek, poke
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol import count_tables
from shmcoll.engine.protocol.count_checks import ANYONE, get, put, receives_fit, sends_fit, take_counts
from shmcoll.engine.protocol.sync import mix
from shmcoll.nodes.algorithms import count_rows, long_moves
from shmcoll.nodes.opening import layout as o
from shmcoll.nodes.opening import opening
from shmcoll.nodes.opening.call import announce
from shmcoll.nodes.opening.fingerprint import UNKNOWN, describe, positive
from shmcoll.nodes.opening.node_calls import copy_freely
from shmcoll.nodes.opening.opening import open_rows_of_all, row_of
from shmcoll.nodes.opening.ranks import member, ranks_in_all
from shmcoll.nodes.opening.requests import await_messages, mpi_failed


def all_to_all_v(ctx):
    return exchange(ctx, count_rows.MOST_IN_ROW, ANYONE, ANYONE)


def all_gather_v(ctx):
    return exchange(ctx, count_rows.MOST_FOR_ALL, ANYONE, ANYONE)


def gather_v(ctx):
    return exchange(ctx, count_rows.MOST_IN_ROW, ANYONE, peek(ctx + c.ARGUMENT))


def scatter_v(ctx):
    return exchange(ctx, count_rows.MOST_IN_ROW, peek(ctx + c.ARGUMENT), ANYONE)


def exchange(ctx, most, sender, receiver):
    state, table, phase = peek(ctx + o.STATE), peek(ctx + count_tables.TABLE), peek(ctx + count_tables.PHASE)
    x, out = ctx + c.X, ctx + c.OUT
    if phase != count_tables.DATA:
        first = describe(ctx, x if peek(x + c.DTYPE) else out, peek(ctx + c.ARGUMENT_2))
        first = mix(first, peek(ctx + c.ARGUMENT_2))
        element = get(table, peek(ctx + c.SIZE), layout.TABLE_SIZES, layout.ELEMENT_TYPE)
        announce(ctx, first, positive(mix(first, element)) if element >= 0 else UNKNOWN, 0, 0)
        if count_rows.tables_fit(state):
            status = count_rows.open_counts(state, table, peek(x + c.DATA), peek(x + c.BYTES), most, sender, receiver)
        else:
            status = find_counts(state, table, first, sender, receiver)
        if status != c.OK:
            return status
        if phase == count_tables.COUNTS:
            return c.COUNTS_KNOWN
    item = peek(x + c.ITEM) if peek(x + c.DTYPE) else peek(out + c.ITEM)
    return move_counted(state, table, peek(x + c.DATA), peek(out + c.DATA), item)


def find_counts(state, table, first, sender, receiver):
    """Agree on the call that the slots describe. Write into this rank's table what it receives. Return as
    `open_counts`."""
    offers, offered, size = peek(state + o.OFFERS), peek(state + o.OFFERED), ranks_in_all(state)
    stride = o.OFFER_WORDS * WORD
    for rank in range(size):
        poke(offers + rank * stride, get(table, size, layout.SEND_COUNTS, rank))
        poke(offers + rank * stride + WORD, get(table, size, layout.TABLE_SIZES, layout.ELEMENT_TYPE))
        poke(offers + rank * stride + 2 * WORD, get(table, size, layout.TABLE_SIZES, layout.COUNT_UNIT))
    status = open_rows_of_all(state, 0, 0)
    if status == c.OK:
        status = long_moves.exchange_blocks(state, offers, offered, stride)
    if status != c.OK:
        return status
    fits = sends_fit(table, size, receiver) if sender == ANYONE or sender == peek(state + o.RANK) else 1
    if fits and (receiver == ANYONE or receiver == peek(state + o.RANK)):
        fits = receives_fit(table, offered, stride, size, sender)
    poke(offers, fits)
    opening.announce(state, mix(first, 1), UNKNOWN, offers, WORD)
    status = open_rows_of_all(state, offers, WORD)
    for rank in range(size if status == c.OK else 0):
        if peek(row_of(state, rank, WORD)) == 0:
            status = c.REFUSED
    if status == c.OK:
        take_counts(offered, stride, size, table)
        for rank in range(size if get(table, size, layout.TABLE_SIZES, layout.ELEMENT_TYPE) < 0 else 0):
            if peek(offered + rank * stride + WORD) >= 0:
                put(table, size, layout.TABLE_SIZES, layout.ELEMENT_TYPE, peek(offered + rank * stride + WORD))
    return status


def move_counted(state, table, source, target, item):
    """Move all blocks of a call that has been opened. table: this rank's own, with what it receives. Source and target
    do not overlap."""
    size, me = ranks_in_all(state), peek(state + o.RANK)
    for rank in range(size):
        sent = 0 if count_rows.source_of(state, me) else get(table, size, layout.SEND_COUNTS, rank) * item
        received = get(table, size, layout.RECV_COUNTS, rank) * item
        place = get(table, size, layout.RECV_DISPLS, rank) * item
        if count_rows.source_of(state, rank) and received > 0:
            begin = get(count_rows.table_of(state, rank), size, layout.SEND_DISPLS, me) * item
            if begin + received > count_rows.source_bytes(state, rank):
                return mpi_failed(state, 0)
            copy(target + place, count_rows.source_of(state, rank) + begin, received)
            received = 0
        long_moves.set_sent_block(state, rank, sent, get(table, size, layout.SEND_DISPLS, rank) * item)
        long_moves.set_received_block(state, rank, received, place)
    status = c.OK
    long_moves.begin_blocks(state, source, target)
    if node_shares(state, size):
        status = long_moves.share_blocks(state, source, target)
    else:
        begin, length = get(table, size, layout.SEND_DISPLS, me) * item, long_moves.block_of(state, long_moves.SENT, me)
        copy_freely(target + get(table, size, layout.RECV_DISPLS, me) * item, source + begin, length)
    return await_messages(state, 0) if status == c.OK else status


def node_shares(state, size):
    """Return whether a rank of this node may send another one of it a block that has not come with the opening."""
    local, node = peek(state + o.LOCAL), peek(state + o.NODE)
    if not count_rows.tables_fit(state):
        return 1
    for i in range(local):
        sender = member(state, node, i)
        for j in range(0 if count_rows.source_of(state, sender) else local):
            if j != i and get(count_rows.table_of(state, sender), size, layout.SEND_COUNTS, member(state, node, j)) > 0:
                return 1
    return 0
