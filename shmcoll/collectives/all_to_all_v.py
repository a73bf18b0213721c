"""all_to_all_v: every rank sends a different number of elements to every other, from displacements to displacements
(NKI's all_to_all_v; MPI_Alltoallv without the need to know the receive counts).

Every rank lays a table beside its header: counts and displacements of what it sends, displacements of what it
receives, how much it takes from each, its sizes. After the opening sync each rank checks the whole n x n matrix, so
that all reach the same verdict before a byte of a result moves, and takes its receive counts from the others' tables.
The data goes from the sender's cell to its final place. A cell is divided evenly among the n receivers; part 0 lies
there before the opening. Cost: a ceil(n max(block) / cell) + n^2 table look-ups + 2 S b.

The routine runs in two phases, because a result of just the right size can only be allocated once the counts are known:
COUNTS opens and judges, DATA moves. The cells stay as they are in between: no peer gets to the operation after next.

Table of a rank, rows of n words (an entry of -1: not given), then two sizes in elements:

    SEND_COUNTS  SEND_DISPLS      to rank i
    RECV_COUNTS                   expected from rank i; -1: whatever comes
    RECV_DISPLS                   -1 (all of them): one after the other
    RECV_ROOM                     at most so many from rank i; -1: any
    TABLE_SIZES                   elements of the source; of the result, -1: not allocated yet

Arguments: EXTRA words are the phase and the address of this rank's own table. COUNTS writes the receive counts and the
displacements of the result into it.
"""

from shmcoll.collectives.all_to_all import part_bytes, release_cells
from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, load, peek, poke, store
from shmcoll.engine.layout import (
    RECV_COUNTS,
    RECV_DISPLS,
    RECV_ROOM,
    SEND_COUNTS,
    SEND_DISPLS,
    TABLE_ROWS,
    TABLE_SIZES,
    TABLES,
    WORD,
)
from shmcoll.engine.sync import await_step, begin, cell, meet, publish_step
from shmcoll.engine.wait import mailbox

PHASE, TABLE = c.EXTRA, c.EXTRA + WORD
COUNTS, DATA, BOTH = range(3)


def all_to_all_v(ctx):
    phase = peek(ctx + PHASE)
    if phase != DATA:
        status = agree(ctx)
        if status != c.OK:
            return status
        if phase == COUNTS:
            return c.HALFWAY
    return move(ctx)


def agree(ctx):
    """Open, exchange the tables, judge them, and note what this rank receives."""
    sequence = begin(ctx, 0)
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    own = peek(ctx + TABLE)
    shared = table(ctx, me, sequence)
    for row in range(TABLE_ROWS):
        for i in range(size if row < TABLE_SIZES else 2):
            put(shared, size, row, i, peek(own + (row * size + i) * WORD))
    if sends_fit(shared, size):
        fill(ctx, sequence, 0)
    status = meet(ctx, sequence)
    if status != c.OK:
        return status
    for rank in range(size):
        if not sends_fit(table(ctx, rank, sequence), size) or not receives_fit(ctx, rank, sequence):
            poke(ctx + c.CULPRIT, rank)
            return c.VERDICT
    packed = 0
    for sender in range(size):
        count = get(table(ctx, sender, sequence), size, SEND_COUNTS, me)
        poke(own + (RECV_COUNTS * size + sender) * WORD, count)
        if get(shared, size, RECV_DISPLS, sender) < 0:
            poke(own + (RECV_DISPLS * size + sender) * WORD, packed)
        packed += count
    return c.OK


def move(ctx):
    """Bring every block from the sender's cell to its place in the result."""
    sequence = peek(ctx + c.SEQUENCE)
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    own = peek(ctx + TABLE)
    item = peek(ctx + c.X + c.ITEM)
    rounds = max(-(-longest_block(ctx, sequence) * item // part_bytes(ctx)), 1)
    copy(
        peek(ctx + c.OUT + c.DATA) + get(own, size, RECV_DISPLS, me) * item,
        peek(ctx + c.X + c.DATA) + get(own, size, SEND_DISPLS, me) * item,
        get(own, size, SEND_COUNTS, me) * item,
    )
    for k in range(rounds):
        if k > 0:
            fill(ctx, sequence, k)
            publish_step(ctx, sequence, k)
        for i in range(1, size):
            peer = me + i if me + i < size else me + i - size
            status = fetch(ctx, sequence, k, peer)
            if status != c.OK:
                return status
    return release_cells(ctx, sequence, rounds)


def fill(ctx, sequence, k):
    """Lay the k-th part of every peer's block into this rank's cell."""
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    own, item, part = peek(ctx + TABLE), peek(ctx + c.X + c.ITEM), part_bytes(ctx)
    place = cell(ctx, me, sequence + k)
    for peer in range(size):
        left = get(own, size, SEND_COUNTS, peer) * item - k * part
        if peer != me and left > 0:
            source = peek(ctx + c.X + c.DATA) + get(own, size, SEND_DISPLS, peer) * item + k * part
            copy(place + peer * part, source, min(left, part))


def fetch(ctx, sequence, k, peer):
    """Copy the k-th part of the block that `peer` sends to this rank to its place."""
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    if k > 0:
        status = await_step(ctx, sequence, k, peer)
        if status != c.OK:
            return status
    own, item, part = peek(ctx + TABLE), peek(ctx + c.X + c.ITEM), part_bytes(ctx)
    left = get(own, size, RECV_COUNTS, peer) * item - k * part
    if left > 0:
        place = peek(ctx + c.OUT + c.DATA) + get(own, size, RECV_DISPLS, peer) * item + k * part
        copy(place, cell(ctx, peer, sequence + k) + me * part, min(left, part))
    return c.OK


# --- the verdict ------------------------------------------------------------------------------------------------------


def sends_fit(rows, size):
    """Whether everything a rank sends lies within its source."""
    total = get(rows, size, TABLE_SIZES, 0)
    for i in range(size):
        count, begin_element = get(rows, size, SEND_COUNTS, i), get(rows, size, SEND_DISPLS, i)
        if count < 0 or (count > 0 and (begin_element < 0 or count > total or begin_element > total - count)):
            return 0
    return 1


def receives_fit(ctx, rank, sequence):
    """Whether what a rank receives is what it expects, fits its room and its result, and does not overlap."""
    size = peek(ctx + c.SIZE)
    rows = table(ctx, rank, sequence)
    total = get(rows, size, TABLE_SIZES, 1)
    packed, last_end, ascending = 0, 0, 1
    for sender in range(size):
        count = get(table(ctx, sender, sequence), size, SEND_COUNTS, rank)
        expected, room = get(rows, size, RECV_COUNTS, sender), get(rows, size, RECV_ROOM, sender)
        if (expected >= 0 and expected != count) or (room >= 0 and count > room):
            return 0
        displacement = get(rows, size, RECV_DISPLS, sender)
        begin_element = packed if displacement < 0 else displacement
        packed += count
        if count == 0:
            continue
        if total >= 0 and (count > total or begin_element > total - count):
            return 0
        if begin_element < last_end:
            ascending = 0
        last_end = begin_element + count
    return 1 if ascending else apart(ctx, rank, sequence)


def apart(ctx, rank, sequence):
    """Whether no two receive regions overlap, for displacements in any order."""
    size = peek(ctx + c.SIZE)
    rows = table(ctx, rank, sequence)
    for a in range(size):
        a_count = get(table(ctx, a, sequence), size, SEND_COUNTS, rank)
        a_begin = get(rows, size, RECV_DISPLS, a)
        for b in range(a):
            b_count = get(table(ctx, b, sequence), size, SEND_COUNTS, rank)
            b_begin = get(rows, size, RECV_DISPLS, b)
            if a_count > 0 and b_count > 0 and a_begin < b_begin + b_count and b_begin < a_begin + a_count:
                return 0
    return 1


def longest_block(ctx, sequence):
    """The greatest count of any pair of different ranks: all ranks agree on the number of rounds."""
    size = peek(ctx + c.SIZE)
    longest = 0
    for sender in range(size):
        rows = table(ctx, sender, sequence)
        for receiver in range(size):
            if sender != receiver:
                longest = max(longest, get(rows, size, SEND_COUNTS, receiver))
    return longest


# --- tables -----------------------------------------------------------------------------------------------------------


def table(ctx, rank, sequence):
    """Address of the table that `rank` lays out for operation `sequence`."""
    stride = (peek(ctx + c.STRIDE) - TABLES) // 2
    return mailbox(ctx, rank) + TABLES + (sequence & 1) * stride


def get(rows, size, row, i):
    return load(rows + (row * size + i) * WORD)


def put(rows, size, row, i, value):
    store(rows + (row * size + i) * WORD, value)
