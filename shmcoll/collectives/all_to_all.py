"""all_to_all: rank r sends block i of its array, cut along `split_axis`, to rank i, and puts the blocks that it gets
one after the other along `concat_axis`, in rank order (MindSpore's AlltoAll).

A sender gathers each block from its array into its cell, and the receiver scatters the block from there into its
result, both in C order of the block. So no array is transposed as a whole. A cell is divided evenly among the n
receivers. There is one sync if a block fits its part, else one per round. Cost for n - 1 blocks of S / n bytes:
a ceil(S / cell) + 2 (n - 1) / n S b. Peers read long blocks that are contiguous where they are, if they can:
2 a + (n - 1) / n S b. But not of a list, and not in place: there each rank writes what its peers read.

If both axes are the same, the result may replace x: each round writes what it brings of a block to where the same round
has read it.

Protocol: one sync if all blocks fit a cell and are not exposed; else `engine/protocol/block_mover.py`. A block is a row
of runs on both sides (see `engine/kernels/kernels.py`). A block that becomes runs goes from an exposed array through
private memory that fits a cache.

Arguments: the EXTRA words are block bytes, source run and stride, target run and stride, all in bytes. For lists of n
blocks instead of one array they are followed by the addresses of n source addresses, of n target addresses (0: an
array), and of the number of dimensions and the dimensions that an array of all blocks of x would have. For a list, x is
its first array.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.collective import CUTS, SHAPE, Collective
from shmcoll.engine.kernels.element_marks import MARK_SHIFT, in_words
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol.block_mover import (
    copy_own,
    exchange_blocks,
    get_block,
    map_blocks,
    map_runs,
    map_sources,
    map_targets,
    put_block,
)
from shmcoll.engine.protocol.cells import payload_for, whole_lines
from shmcoll.engine.protocol.count_checks import ANYONE
from shmcoll.engine.protocol.exposure import works_in_place
from shmcoll.engine.protocol.sync import begin, exchange_headers, peer_after
from shmcoll.engine.protocol.ways import EXCHANGE, is_short

COVERS = SHAPE
BLOCK, SOURCE_RUN, SOURCE_STRIDE, TARGET_RUN, TARGET_STRIDE, SOURCES, TARGETS, WHOLE = (
    c.EXTRA + WORD * i for i in range(8)
)


def all_to_all(ctx):
    if peek(ctx + WHOLE):
        describe_whole(ctx)
    turn, block, size = begin(ctx, COVERS), peek(ctx + BLOCK), peek(ctx + c.SIZE)
    map_all(ctx, block)
    if not is_short(ctx, size * whole_lines(block), block):
        is_contiguous = peek(ctx + SOURCES) == 0 and peek(ctx + SOURCE_RUN) == block
        share = block if is_contiguous and not works_in_place(ctx) else 0
        return exchange_blocks(ctx, turn, EXCHANGE, share, peek(ctx + TARGETS) == 0)
    me = peek(ctx + c.RANK)
    for i in range(1, size):
        put_block(ctx, payload_for(ctx, me, peer_after(ctx, i), turn, block), peer_after(ctx, i), 0, block)
    status = exchange_headers(ctx)
    if status != c.OK:
        return status
    copy_own(ctx, 0, block)
    for i in range(1, size):
        get_block(ctx, payload_for(ctx, peer_after(ctx, i), me, turn, block), peer_after(ctx, i), 0, block)
    return c.OK


def map_all(ctx, block):
    """Map the blocks of arrays or lists, which are rows of runs."""
    map_blocks(ctx, ANYONE, ANYONE, block, True)
    map_sources(ctx, peek(ctx + c.X + c.DATA), peek(ctx + SOURCE_RUN), 0)
    map_targets(ctx, peek(ctx + c.OUT + c.DATA), peek(ctx + TARGET_RUN), 0)
    if peek(ctx + SOURCES):
        map_sources(ctx, 0, 1, peek(ctx + SOURCES))
    if peek(ctx + TARGETS):
        map_targets(ctx, 0, 1, peek(ctx + TARGETS))
    source_stride = peek(ctx + SOURCE_STRIDE) if peek(ctx + SOURCE_RUN) != block else block
    target_stride = peek(ctx + TARGET_STRIDE) if peek(ctx + TARGET_RUN) != block else block
    map_runs(ctx, peek(ctx + SOURCE_RUN), source_stride, peek(ctx + TARGET_RUN), target_stride)


def describe_whole(ctx):
    """Describe x, the first array of a list, as the array of all blocks: lists and arrays have the same header."""
    shape = peek(ctx + WHOLE)
    poke(ctx + c.X + c.DIMENSIONS, peek(shape))
    poke(ctx + c.X + c.DIMS, shape + WORD)
    for word in (c.COUNT, c.BYTES):
        poke(ctx + c.X + word, peek(ctx + c.X + word) * peek(ctx + c.SIZE))


COLLECTIVE = Collective(
    all_to_all,
    code=3,
    form=CUTS,
    covers=COVERS,
    plans=True,
    describe=lambda split, second: f", split_axis={split}, concat_axis={second & 0xFF}{in_words(second >> MARK_SHIFT)}",
)
