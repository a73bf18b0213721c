"""The collectives with counts that native code makes over nodes: all_to_all_v, all_gather_v, gather_v, scatter_v. One
algorithm serves all.

The opening carries the tables of all ranks, and short sources (`counted_opening.py`). The blocks of a source that has
come with it are copied from there. The others go as in every exchange of blocks (`long_moves.py`): within the node
through shared memory, to other nodes by one message for each pair of ranks. All ranks know all tables, so the ranks of
a node agree on whether there is anything to share.

A call without `out` has two phases, as on one machine: COUNTS ends with COUNTS_KNOWN, and DATA moves the blocks. No
other call of the group enters between them (`engine/native/entry.py`, ACTIVE).

Cost: O(n (5 n W + s)); for longer sources A + (n - r - 1) o + S / B more. n ranks, r of a node, s bytes of a source
that is short, S of what a node sends, W a word. A, o, B, and O(S) for an opening: see `agreement.py`.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek
from shmcoll.engine.layout import RECV_COUNTS, RECV_DISPLS, SEND_COUNTS, SEND_DISPLS
from shmcoll.engine.protocol import count_tables
from shmcoll.engine.protocol.count_checks import ANYONE, get
from shmcoll.nodes.native.call import STATE, announce, known_marks
from shmcoll.nodes.native.counted_opening import (
    MOST_FOR_ALL,
    MOST_IN_ROW,
    open_counts,
    source_bytes,
    source_of,
    table_of,
)
from shmcoll.nodes.native.layout import LOCAL, NODE, RANK
from shmcoll.nodes.native.long_moves import (
    RECEIVED,
    RECEIVED_AT,
    SENT,
    SENT_FROM,
    begin_blocks,
    block_of,
    give_blocks,
    set_block_of,
    share_blocks,
)
from shmcoll.nodes.native.messages import await_messages, mpi_failed
from shmcoll.nodes.native.node_calls import copy_freely
from shmcoll.nodes.native.opening import member, ranks_in_all


def all_to_all_v(ctx):
    return exchange(ctx, MOST_IN_ROW, ANYONE, ANYONE)


def all_gather_v(ctx):
    return exchange(ctx, MOST_FOR_ALL, ANYONE, ANYONE)


def gather_v(ctx):
    return exchange(ctx, MOST_IN_ROW, ANYONE, peek(ctx + c.ARGUMENT))


def scatter_v(ctx):
    return exchange(ctx, MOST_IN_ROW, peek(ctx + c.ARGUMENT), ANYONE)


def exchange(ctx, most, sender, receiver):
    state, table, phase = peek(ctx + STATE), peek(ctx + count_tables.TABLE), peek(ctx + count_tables.PHASE)
    x, out = ctx + c.X, ctx + c.OUT
    if phase != count_tables.DATA:
        dtype = max(peek(x + c.DTYPE), peek(out + c.DTYPE))
        marks = known_marks(ctx, dtype, 0, 0) if peek(ctx + c.ARGUMENT_2) == 0 else 0
        if marks == 0:
            return c.NEEDS_PYTHON
        announce(ctx, marks, 0, 0)
        status = open_counts(state, table, peek(x + c.DATA), peek(x + c.BYTES), most, sender, receiver)
        if status != c.OK:
            return status
        if phase == count_tables.COUNTS:
            return c.COUNTS_KNOWN
    item = peek(x + c.ITEM) if peek(x + c.DTYPE) else peek(out + c.ITEM)
    return move_counted(state, table, peek(x + c.DATA), peek(out + c.DATA), item)


def move_counted(state, table, source, target, item):
    """Move all blocks of a call that has been opened. table: this rank's own, with what it receives. Source and target
    do not overlap."""
    size, me = ranks_in_all(state), peek(state + RANK)
    for rank in range(size):
        sent = 0 if source_of(state, me) else get(table, size, SEND_COUNTS, rank) * item
        received = get(table, size, RECV_COUNTS, rank) * item
        place = get(table, size, RECV_DISPLS, rank) * item
        if source_of(state, rank) and received > 0:
            begin = get(table_of(state, rank), size, SEND_DISPLS, me) * item
            if begin + received > source_bytes(state, rank):
                return mpi_failed(state, 0)
            copy(target + place, source_of(state, rank) + begin, received)
            received = 0
        set_block_of(state, SENT, rank, sent)
        set_block_of(state, SENT_FROM, rank, get(table, size, SEND_DISPLS, rank) * item)
        set_block_of(state, RECEIVED, rank, received)
        set_block_of(state, RECEIVED_AT, rank, place)
    given = give_blocks(state, source, target)
    status = begin_blocks(state, given)
    if status != c.OK:
        return status
    if node_shares(state, size):
        status = share_blocks(state, given)
    else:
        place = target + block_of(state, RECEIVED_AT, me)
        copy_freely(place, source + block_of(state, SENT_FROM, me), block_of(state, SENT, me))
    return await_messages(state, 0) if status == c.OK else status


def node_shares(state, size):
    """Return whether a rank of this node sends another one of it a block that has not come with the opening."""
    local, node = peek(state + LOCAL), peek(state + NODE)
    for i in range(local):
        sender = member(state, node, i)
        for j in range(0 if source_of(state, sender) else local):
            if j != i and get(table_of(state, sender), size, SEND_COUNTS, member(state, node, j)) > 0:
                return 1
    return 0
