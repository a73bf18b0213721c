"""The mover of blocks: how all bytes travel that do not go the short way of a collective.

Some ranks send a block to some others. A block is in one of four places, its source:

    inline     beside the header of its rank   the short way of a collective; see its file
    cell       in cells of its rank            the short way, or here in rounds of one part each
    arena      where the array is              read by plain loads, whole (`exposure.py`)
    private    likewise                        read by the kernel, whole (`peer_memory.py`)

A rank publishes in its header whether its source is a cell (EXPOSED is 0), or where it is; `ways.py` says which. Whose
blocks move where is the block map of the call, the words of the context from READS_FROM on. Equal blocks have one
length that all ranks know. Blocks with counts have tables of them (`count_tables.py`).

Protocol. Step k of a rank: it has staged part k of its blocks, and read part k - 1 of the blocks that it gets. Step
LAST: it has staged and read everything, and has found the group alive if it has read what is exposed. A rank that has
one round, and reads nothing that is exposed, only notes LAST, for messages about a rank that has stopped: no rank waits
for it.

    cell (t + k) & 1 of a rank in turn t: it writes part k of a block there, part 0 before the opening and part k before
    it publishes step k. It is read after step k. For k >= 2 it is written after step k - 1 of the reader of that block,
    or of all readers if they share it: then part k - 2 has been read. A rank leaves after the readers of m parts have
    done m & -2 steps, and so have read cell (t + 1) & 1, which the next turn may fill at once.

    exposed arrays: peers read them after the opening, after they have staged their last part, because a result may
    replace x. The rank leaves after step LAST of all its readers.

Before step k a rank waits only for steps below k of others, before step LAST for none that is LAST. So no ranks wait in
a circle. How many parts a rank stages and reads may differ between ranks: a rank waits for a peer only for parts that
move between both. A block to itself is copied part by part: beside what the rank stages, while a cache has it, or if
the rank stages nothing, after a step, while its peers stage their next part. A root that reads what is exposed has
copied it before: senders choose their way by how long that takes, and would not see what the root copies after step
LAST.

In place: a part of a result is written after the same part has been staged from there.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.kernels.kernels import gather_runs, move_runs, scatter_runs
from shmcoll.engine.layout import LINE, SEND_DISPLS, STEP_BITS, WORD
from shmcoll.engine.protocol.cells import cell_in_share, write_cell
from shmcoll.engine.protocol.choices import LED, begin_way, note_way
from shmcoll.engine.protocol.count_checks import ANYONE, get
from shmcoll.engine.protocol.exposure import (
    expose,
    exposed,
    note_result,
    read_exposed,
    results_are_apart,
)
from shmcoll.engine.protocol.mailboxes import table
from shmcoll.engine.protocol.nontemporal import copy_to_result, copy_to_unread
from shmcoll.engine.protocol.pace import UNIT, begin_copy, note_copy
from shmcoll.engine.protocol.peer_memory import is_readable
from shmcoll.engine.protocol.sync import (
    await_step,
    exchange_headers,
    has_ended,
    note_step,
    peer_after,
    peer_to_await,
    publish_step,
)
from shmcoll.engine.protocol.ways import least_exposed, may_expose

LAST = (1 << STEP_BITS) - 1


# --- the block map ----------------------------------------------------------------------------------------------------


def map_blocks(ctx, sender, receiver, length, is_cut):
    """Make the map of a call in which `sender` sends to `receiver`, each one rank or ANYONE, blocks of `length` bytes:
    parts of x if it is cut, else x. They follow one another in the result."""
    me = peek(ctx + c.RANK)
    sends, receives = sender in (ANYONE, me), receiver in (ANYONE, me)
    poke(ctx + c.READS_FROM, sender if receives else me)
    poke(ctx + c.SENDS_TO, receiver if sends else me)
    map_sources(ctx, peek(ctx + c.X + c.DATA), length if is_cut else 0, 0)
    map_targets(ctx, peek(ctx + c.OUT + c.DATA), length if sender == ANYONE else 0, 0)
    map_lengths(ctx, length, 0, 0)
    poke(ctx + c.OWN_BYTES, length if sends and receives else 0)
    poke(ctx + c.IS_CUT, is_cut)
    cell = peek(ctx + c.CELL_BYTES)
    poke(ctx + c.PART, cell // shares_of_a_cell(ctx) // LINE * LINE if is_cut else cell)
    map_runs(ctx, 0, 0, 0, 0)


def map_sources(ctx, start, step, offsets):
    """Say where the block for rank i begins: at start + step * i, or with a table of offsets, step * offsets[i]."""
    poke(ctx + c.SOURCE, start)
    poke(ctx + c.SOURCE_STEP, step)
    poke(ctx + c.SOURCE_TABLE, offsets)


def map_targets(ctx, start, step, offsets):
    """Say where the block from rank i goes, in the same way."""
    poke(ctx + c.TARGET, start)
    poke(ctx + c.TARGET_STEP, step)
    poke(ctx + c.TARGET_TABLE, offsets)


def map_lengths(ctx, length, sent, received):
    """Say how long blocks are: `length`, or with tables of counts, so many times as long."""
    poke(ctx + c.LENGTH, length)
    poke(ctx + c.SENT_COUNTS, sent)
    poke(ctx + c.RECEIVED_COUNTS, received)


def map_runs(ctx, source_run, source_stride, target_run, target_stride):
    """Say that blocks are rows of runs in x and in the result. Equal run and stride: they are contiguous."""
    poke(ctx + c.SOURCE_RUN, source_run)
    poke(ctx + c.SOURCE_STRIDE, source_stride)
    poke(ctx + c.TARGET_RUN, target_run)
    poke(ctx + c.TARGET_STRIDE, target_stride)


def source_of(ctx, rank):
    """Return where the block for `rank` begins."""
    offsets = peek(ctx + c.SOURCE_TABLE)
    return peek(ctx + c.SOURCE) + peek(ctx + c.SOURCE_STEP) * (peek(offsets + rank * WORD) if offsets else rank)


def target_of(ctx, rank):
    """Return where the block from `rank` goes."""
    offsets = peek(ctx + c.TARGET_TABLE)
    return peek(ctx + c.TARGET) + peek(ctx + c.TARGET_STEP) * (peek(offsets + rank * WORD) if offsets else rank)


def sent_bytes(ctx, rank):
    """Return how much this rank sends to another one."""
    return length_of(ctx, c.SENDS_TO, c.SENT_COUNTS, rank)


def received_bytes(ctx, rank):
    """Return how much this rank gets from another one."""
    return length_of(ctx, c.READS_FROM, c.RECEIVED_COUNTS, rank)


def length_of(ctx, partner, table_of_counts, rank):
    only = peek(ctx + partner)
    counts = peek(ctx + table_of_counts)
    if only not in (ANYONE, rank):
        return 0
    return peek(ctx + c.LENGTH) * (peek(counts + rank * WORD) if counts else 1)


def parts_of(ctx, length):
    part = peek(ctx + c.PART)
    return -(-length // part) if length > part else 1


def readers_of_a_cell(ctx):
    return max(peek(ctx + c.SIZE) - 1, 1)


def shares_of_a_cell(ctx):
    """Return into how many shares a cell is cut. If every rank sends to all, one share stays unused, because full cells
    take more of the caches: of two ranks, 4 MiB in place take 273 us instead of 310."""
    all_send = peek(ctx + c.READS_FROM) == ANYONE and peek(ctx + c.SENDS_TO) == ANYONE
    return readers_of_a_cell(ctx) + all_send


# --- the call ---------------------------------------------------------------------------------------------------------


def exchange_blocks(ctx, turn, way, share, has_result):
    """Open, and move all blocks of the map. See `offer_blocks`."""
    offer_blocks(ctx, turn, way, share, has_result)
    status = exchange_headers(ctx)
    return move_blocks(ctx, turn) if status == c.OK else status


def offer_blocks(ctx, turn, way, share, has_result):
    """Expose x if that pays, else stage the first part of each block, before the opening. share: the bytes of x that
    each peer reads, about; 0: it cannot be exposed. has_result: `out` is one array."""
    note_result(ctx, has_result)
    least = least_exposed(ctx, way, share)
    choice = peek(ctx + c.TIMED)
    begin_way(ctx, choice)
    if not expose(ctx, share, least):
        stage(ctx, turn, 0)
    note_way(ctx, choice, 0)


def move_blocks(ctx, turn):
    """Move all blocks of the map, after the opening. Let the call count for the choice by which they go: without the
    opening, because peers may come late. But a rank that reads nothing leaves before its cells have been read, and
    waits for that in the next opening."""
    choice = peek(ctx + c.TIMED)
    poke(ctx + c.TIMED, 0)
    if choice and peek(ctx + c.RANK) != 0:
        poke(ctx + choice + LED, way_of_leader(ctx))
    if peek(ctx + c.READS_FROM) != peek(ctx + c.RANK):
        begin_way(ctx, choice)
    status = move_all(ctx, turn)
    note_way(ctx, choice, UNIT)
    return status


def way_of_leader(ctx):
    """Return 1 + the way that rank 0 goes, after the opening, if it leads this rank; else 0."""
    place, length = exposed(ctx, 0), received_bytes(ctx, 0)
    if place > 0 or length == 0 or length != sent_bytes(ctx, 0):
        return 0
    return 2 if place else 1


def move_all(ctx, turn):
    if not results_are_apart(ctx):
        return c.OVERLAP
    exposes = exposed(ctx, peek(ctx + c.RANK))
    own, part = peek(ctx + c.OWN_BYTES), peek(ctx + c.PART)
    rounds, reads_exposed = survey(ctx, turn, exposes)
    stages, copied = not exposes and peek(ctx + c.SENDS_TO) != peek(ctx + c.RANK), 0
    copies_first = stages or (not exposes and reads_exposed)
    for k in range(rounds):
        is_last = k == rounds - 1
        if k > 0:
            status = c.OK if exposes else stage(ctx, turn, k)
            if status != c.OK:
                return status
            publish_step(ctx, turn, k)
        ready = own if is_last and copies_first else min((k + stages) * part, own)
        copy_own(ctx, copied, ready)
        copied = ready
        for i in range(1, peek(ctx + c.SIZE)):
            status = read_source(ctx, turn, k, is_last, peer_after(ctx, i))
            if status != c.OK:
                return status
    if reads_exposed and has_ended(ctx):
        return c.ABORTED
    if reads_exposed or rounds > 1:
        publish_step(ctx, turn, LAST)
    else:
        note_step(ctx, turn, LAST)
    copy_own(ctx, copied, own)
    return await_readers(ctx, turn, exposes)


def survey(ctx, turn, exposes):
    """Return how many parts have the longest blocks that this rank moves through cells, at least 1, and whether it
    reads something that a peer exposes."""
    longest, most_received, reads_exposed = 1, 0, 0
    for i in range(1, peek(ctx + c.SIZE)):
        peer = peer_after(ctx, i)
        received = received_bytes(ctx, peer)
        most_received = max(most_received, received)
        if exposed(ctx, peer):
            reads_exposed = reads_exposed or received > 0
        else:
            longest = max(longest, received)
        if not exposes:
            longest = max(longest, sent_bytes(ctx, peer))
    if may_expose(ctx, most_received):
        is_readable(ctx)  # the others need to know what this rank finds out
    return parts_of(ctx, longest), reads_exposed


def stage(ctx, turn, k):
    """Copy part k of each block into this rank's cell, after the part before the last has been read there."""
    begin, reader, is_cut = k * peek(ctx + c.PART), -1, peek(ctx + c.IS_CUT)
    for i in range(1, peek(ctx + c.SIZE)):
        peer = peer_to_await(ctx, i)
        if begin >= sent_bytes(ctx, peer):
            continue
        if k > 1:
            status = await_step(ctx, turn, k - 1, peer)
            if status != c.OK:
                return status
        reader = peer
        if is_cut:
            stage_for(ctx, turn, k, reader)
    if reader >= 0 and not is_cut:
        stage_for(ctx, turn, k, reader)
    return c.OK


def stage_for(ctx, turn, k, reader):
    """Copy part k of the block for a reader into this rank's cell."""
    length, begin = sent_bytes(ctx, reader), k * peek(ctx + c.PART)
    place = part_cell(ctx, turn, k, peek(ctx + c.RANK), reader, length)
    put_block(ctx, place, reader, begin, min(begin + peek(ctx + c.PART), length))


def put_block(ctx, place, reader, begin, end):
    """Copy bytes [begin, end) of the block for a reader to a place in this rank's cell."""
    run, stride = peek(ctx + c.SOURCE_RUN), peek(ctx + c.SOURCE_STRIDE)
    if run == stride:
        write_cell(ctx, place, source_of(ctx, reader) + begin, end - begin)
    else:
        gather_runs(place, source_of(ctx, reader), run, stride, begin, end)


def part_cell(ctx, turn, k, sender, reader, length):
    """Return where part k of a block of `length` bytes is staged."""
    index, shares = 0, 1
    if peek(ctx + c.IS_CUT):
        index, shares = reader - (reader > sender), shares_of_a_cell(ctx)
    return cell_in_share(ctx, sender, turn, k, parts_of(ctx, length), min(length, peek(ctx + c.PART)), index, shares)


def read_source(ctx, turn, k, is_last, peer):
    """Copy part k of the block from a peer to its place, after the peer has published it; an exposed block at once, in
    the last round."""
    length, begin = received_bytes(ctx, peer), k * peek(ctx + c.PART)
    if length > 0 and exposed(ctx, peer):
        return read_block(ctx, turn, peer, length) if is_last else c.OK
    if begin >= length:
        return c.OK
    if k > 0:
        status = await_step(ctx, turn, k, peer)
        if status != c.OK:
            return status
    place = part_cell(ctx, turn, k, peer, peek(ctx + c.RANK), length)
    get_block(ctx, place, peer, begin, min(begin + peek(ctx + c.PART), length))
    return c.OK


def get_block(ctx, place, peer, begin, end):
    """Copy bytes [begin, end) of the block from a peer from a place in its cell into the result."""
    target, run, stride = target_of(ctx, peer), peek(ctx + c.TARGET_RUN), peek(ctx + c.TARGET_STRIDE)
    if peek(ctx + c.SENDS_TO) == peek(ctx + c.RANK):  # it has not read x, which may be its result
        copy_to_unread(ctx, target + begin, place, end - begin)
        return
    begun = begin_copy(ctx, end - begin)
    if run == stride:
        copy_to_result(ctx, target + begin, place, end - begin)
    else:
        scatter_runs(target, run, stride, place, begin, end)
    note_copy(ctx, c.FETCH_PACE, begun, end - begin)


def place_at(ctx, turn, peer):
    """Return where the block for this rank begins in what a peer exposes."""
    me, length = peek(ctx + c.RANK), peek(ctx + c.LENGTH)
    if peek(ctx + c.RECEIVED_COUNTS):
        return get(table(ctx, peer, turn), peek(ctx + c.SIZE), SEND_DISPLS, me) * length
    return me * length if peek(ctx + c.IS_CUT) else 0


def read_block(ctx, turn, peer, length):
    """Copy an exposed block to its place; if it becomes runs, through private memory that fits a cache."""
    start, target, scratch = place_at(ctx, turn, peer), target_of(ctx, peer), peek(ctx + c.SCRATCH)
    run, stride = peek(ctx + c.TARGET_RUN), peek(ctx + c.TARGET_STRIDE)
    if run == stride:
        return read_exposed(ctx, peer, start, target, length)
    for done in range(0, length, c.SCRATCH_BYTES):
        count = min(c.SCRATCH_BYTES, length - done)
        status = read_exposed(ctx, peer, start + done, scratch, count)
        if status != c.OK:
            return status
        scatter_runs(target, run, stride, scratch, done, done + count)
    return c.OK


def copy_own(ctx, begin, end):
    """Copy bytes [begin, end) of the block that this rank sends to itself. Runs are copied when `end` is their end."""
    me = peek(ctx + c.RANK)
    target, source = target_of(ctx, me), source_of(ctx, me)
    target_run, target_stride = peek(ctx + c.TARGET_RUN), peek(ctx + c.TARGET_STRIDE)
    source_run, source_stride = peek(ctx + c.SOURCE_RUN), peek(ctx + c.SOURCE_STRIDE)
    if target == source or begin >= end:
        return
    if target_run == target_stride and source_run == source_stride:
        copy_to_result(ctx, target + begin, source + begin, end - begin)
    elif end == peek(ctx + c.OWN_BYTES):
        move_runs(target, target_run, target_stride, source, source_run, source_stride, end)


def await_readers(ctx, turn, exposes):
    """Wait until all readers have read what this rank exposes, or the cell that the next operation fills."""
    for i in range(1, peek(ctx + c.SIZE)):
        peer = peer_to_await(ctx, i)
        length = sent_bytes(ctx, peer)
        steps = parts_of(ctx, length) & -2
        if steps > 0 or (exposes and length > 0):
            status = await_step(ctx, turn, LAST if exposes else steps, peer)
            if status != c.OK:
                return status
    return c.OK
