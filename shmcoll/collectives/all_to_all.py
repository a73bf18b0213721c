"""all_to_all: rank r sends block i of its array, cut along `split_axis`, to rank i, and puts the blocks it gets one
after the other along `concat_axis`, in rank order (MindSpore's AlltoAll).

A block is a row of runs at both ends (see `engine/kernels/kernels.py`): it is gathered from the sender's array into the
sender's cell and scattered from there into the receiver's result, both in C order of the block, so no array is
transposed as a whole. A cell is divided evenly among the n receivers. One sync when a block fits its part, else one a
round. Cost for n - 1 blocks of S / n bytes: a ceil(S / cell) + 2 (n - 1) / n S b.

Where both axes are the same the result may lie in place of x: what a round brings for a block goes where that round
has taken it from.

Arguments: EXTRA words are block bytes, source run and stride, target run and stride, all in bytes; then, for lists of
n blocks in place of one array, the addresses of n source addresses, of n target addresses (0: an array), and of the
number of dimensions and the dimensions that an array of all blocks of x would have. For a list, x is its first array.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.collective import CUTS, SHAPE, Collective
from shmcoll.engine.kernels.kernels import gather_runs
from shmcoll.engine.layout import LINE, WORD
from shmcoll.engine.protocol.nontemporal import land_block, land_runs
from shmcoll.engine.protocol.sync import await_step, begin, cell, meet, publish_step, release_cells

COVERS = SHAPE
BLOCK, SOURCE_RUN, SOURCE_STRIDE, TARGET_RUN, TARGET_STRIDE, SOURCES, TARGETS, WHOLE = (
    c.EXTRA + WORD * i for i in range(8)
)


def all_to_all(ctx):
    if peek(ctx + WHOLE):
        describe_whole(ctx)
    sequence = begin(ctx, COVERS)
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
    return release_cells(ctx, sequence, rounds, rounds)


def describe_whole(ctx):
    """Make x, the first of a list, look like the array of all blocks: lists and arrays get the same header."""
    shape = peek(ctx + WHOLE)
    poke(ctx + c.X + c.DIMENSIONS, peek(shape))
    poke(ctx + c.X + c.DIMS, shape + WORD)
    for word in (c.COUNT, c.BYTES):
        poke(ctx + c.X + word, peek(ctx + c.X + word) * peek(ctx + c.SIZE))


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
        gather_runs(place + peer * part, source(ctx, peer), run, stride, begin_byte, end)


def fetch(ctx, sequence, k, peer, part):
    """Scatter the k-th part of the block that `peer` has for this rank; round 0 came with the header."""
    if k > 0:
        status = await_step(ctx, sequence, k, peer)
        if status != c.OK:
            return status
    begin_byte = k * part
    end = min(begin_byte + part, peek(ctx + BLOCK))
    run, stride = peek(ctx + TARGET_RUN), peek(ctx + TARGET_STRIDE)
    place = cell(ctx, peer, sequence + k) + peek(ctx + c.RANK) * part
    land_runs(ctx, target(ctx, peer), run, stride, place, begin_byte, end)
    return c.OK


def keep_own(ctx):
    """The block that this rank has for itself, straight from array to result."""
    me = peek(ctx + c.RANK)
    if target(ctx, me) != source(ctx, me):
        land_block(
            ctx,
            target(ctx, me),
            peek(ctx + TARGET_RUN),
            peek(ctx + TARGET_STRIDE),
            source(ctx, me),
            peek(ctx + SOURCE_RUN),
            peek(ctx + SOURCE_STRIDE),
            peek(ctx + BLOCK),
        )


def source(ctx, rank):
    """Where the block for `rank` begins."""
    table = peek(ctx + SOURCES)
    if table:
        return peek(table + rank * WORD)
    return peek(ctx + c.X + c.DATA) + rank * peek(ctx + SOURCE_RUN)


def target(ctx, rank):
    """Where the block from `rank` goes."""
    table = peek(ctx + TARGETS)
    if table:
        return peek(table + rank * WORD)
    return peek(ctx + c.OUT + c.DATA) + rank * peek(ctx + TARGET_RUN)


COLLECTIVE = Collective(
    all_to_all,
    code=3,
    form=CUTS,
    covers=COVERS,
    plans=True,
    describe=lambda split, concat: f", split_axis={split}, concat_axis={concat}",
)
