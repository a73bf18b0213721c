"""all_to_all: rank r sends block i of its array, cut along `split_axis`, to rank i, and puts the blocks it gets one
after the other along `concat_axis`, in rank order (MindSpore's AlltoAll).

A block is a row of runs at both ends (see `kernels.py`): it is gathered from the sender's array into the sender's cell
and scattered from there into the receiver's result, both in C order of the block, so no array is transposed as a whole.
A cell is divided evenly among the n receivers. One sync when a block fits its part, else one a round.
Cost for n - 1 blocks of S / n bytes: a ceil(S / cell) + 2 (n - 1) / n S b.

Arguments: EXTRA words are block bytes, source run and stride, target run and stride, all in bytes.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.kernels import gather_runs, move_runs, scatter_runs
from shmcoll.engine.layout import LINE, WORD
from shmcoll.engine.sync import await_step, begin, cell, meet, publish_step

BLOCK, SOURCE_RUN, SOURCE_STRIDE, TARGET_RUN, TARGET_STRIDE = (c.EXTRA + WORD * i for i in range(5))


def all_to_all(ctx):
    sequence = begin(ctx, 1)
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    part = part_bytes(ctx)
    rounds = max(-(-peek(ctx + BLOCK) // part), 1)
    fill(ctx, sequence, 0, part)
    status = meet(ctx, sequence)
    if status != c.OK:
        return status
    keep_own(ctx)
    for k in range(rounds):
        if k > 0:
            fill(ctx, sequence + k, k, part)
            publish_step(ctx, sequence, k)
        for i in range(1, size):
            peer = me + i if me + i < size else me + i - size
            status = fetch(ctx, sequence, k, peer, part)
            if status != c.OK:
                return status
    return release_cells(ctx, sequence, rounds)


def part_bytes(ctx):
    """The share of a cell that one receiver has."""
    return peek(ctx + c.CELL_BYTES) // peek(ctx + c.SIZE) // LINE * LINE


def fill(ctx, half, k, part):
    """Gather the k-th part of every peer's block into this rank's cell."""
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    begin_byte = k * part
    end = min(begin_byte + part, peek(ctx + BLOCK))
    run, stride = peek(ctx + SOURCE_RUN), peek(ctx + SOURCE_STRIDE)
    place = cell(ctx, me, half)
    for i in range(1, size):
        peer = me + i if me + i < size else me + i - size
        gather_runs(place + peer * part, peek(ctx + c.X + c.DATA) + peer * run, run, stride, begin_byte, end)


def fetch(ctx, sequence, k, peer, part):
    """Scatter the k-th part of the block that `peer` has for this rank; round 0 came with the header."""
    if k > 0:
        status = await_step(ctx, sequence, k, peer)
        if status != c.OK:
            return status
    begin_byte = k * part
    end = min(begin_byte + part, peek(ctx + BLOCK))
    run, stride = peek(ctx + TARGET_RUN), peek(ctx + TARGET_STRIDE)
    source = cell(ctx, peer, sequence + k) + peek(ctx + c.RANK) * part
    scatter_runs(peek(ctx + c.OUT + c.DATA) + peer * run, run, stride, source, begin_byte, end)
    return c.OK


def keep_own(ctx):
    """The block that this rank has for itself, straight from array to result."""
    me = peek(ctx + c.RANK)
    run, target_run = peek(ctx + SOURCE_RUN), peek(ctx + TARGET_RUN)
    move_runs(
        peek(ctx + c.OUT + c.DATA) + me * target_run,
        target_run,
        peek(ctx + TARGET_STRIDE),
        peek(ctx + c.X + c.DATA) + me * run,
        run,
        peek(ctx + SOURCE_STRIDE),
        peek(ctx + BLOCK),
    )


def release_cells(ctx, sequence, rounds):
    """After an even number of rounds: wait until every peer has read the last one (see `sync.py`)."""
    if rounds & 1:
        return c.OK
    publish_step(ctx, sequence, rounds)
    for peer in range(peek(ctx + c.SIZE)):
        if peer != peek(ctx + c.RANK):
            status = await_step(ctx, sequence, rounds, peer)
            if status != c.OK:
                return status
    return c.OK
