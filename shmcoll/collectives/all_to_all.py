"""all_to_all: rank r sends block i of its array, cut along `split_axis`, to rank i, and puts the blocks that it gets
one after the other along `concat_axis`, in rank order (MindSpore's AlltoAll).

A sender gathers each block from its array into its cell, and the receiver scatters the block from there into its
result, both in C order of the block. So no array is transposed as a whole. A cell is divided evenly among the n
receivers. There is one sync if a block fits its part, else one per round. Cost for n - 1 blocks of S / n bytes:
a ceil(S / cell) + 2 (n - 1) / n S b. Peers read long blocks that are contiguous where they are, if they can:
2 a + (n - 1) / n S b. But not of a list, and not in place: there each rank writes what its peers read.

If both axes are the same, the result may replace x: each round writes what it brings of a block to where the same round
has read it.

Protocol: a block is a row of runs on both sides (see `engine/kernels/kernels.py`). Rounds, cells and exposed arrays
(`engine/protocol/exposure.py`) as in all_gather. A block that becomes runs goes from an exposed array through private
memory that fits a cache.

Arguments: the EXTRA words are block bytes, source run and stride, target run and stride, all in bytes. For lists of n
blocks instead of one array they are followed by the addresses of n source addresses, of n target addresses (0: an
array), and of the number of dimensions and the dimensions that an array of all blocks of x would have. For a list, x is
its first array.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.collective import CUTS, SHAPE, Collective
from shmcoll.engine.kernels.element_marks import MARK_SHIFT, in_words
from shmcoll.engine.kernels.kernels import gather_runs, scatter_runs
from shmcoll.engine.layout import LINE, WORD
from shmcoll.engine.protocol.cells import cell_of_round, write_cell
from shmcoll.engine.protocol.exposure import (
    end_exposure,
    expose,
    exposed,
    find_out,
    how_many_expose,
    may_expose,
    note_result,
    read_exposed,
    results_are_apart,
    works_in_place,
)
from shmcoll.engine.protocol.nontemporal import copy_block_to_result, copy_runs_to_result
from shmcoll.engine.protocol.pace import begin_copy, limit_by_pace, note_copy
from shmcoll.engine.protocol.sync import (
    await_step,
    begin,
    exchange_headers,
    peer_after,
    publish_step,
    release_cells,
)

COVERS = SHAPE
BLOCK, SOURCE_RUN, SOURCE_STRIDE, TARGET_RUN, TARGET_STRIDE, SOURCES, TARGETS, WHOLE = (
    c.EXTRA + WORD * i for i in range(8)
)


def all_to_all(ctx):
    if peek(ctx + WHOLE):
        describe_whole(ctx)
    sequence = begin(ctx, COVERS)
    part = staged_bytes(ctx)
    if not expose_array(ctx, sequence):
        stage(ctx, sequence, 0, part)
    status = exchange_headers(ctx, sequence)
    if status != c.OK:
        return status
    exposing = how_many_expose(ctx, sequence, peek(ctx + BLOCK))
    if exposing and not results_are_apart(ctx, sequence):
        return c.OVERLAP
    rounds = 1 if exposing == peek(ctx + c.SIZE) else max(-(-peek(ctx + BLOCK) // part), 1)
    copy_own(ctx)
    for k in range(rounds):
        if k > 0:
            if not exposed(ctx, sequence, peek(ctx + c.RANK), peek(ctx + BLOCK)):
                stage(ctx, sequence, k, part)
            publish_step(ctx, sequence, k)
        for i in range(1, peek(ctx + c.SIZE)):
            status = fetch(ctx, sequence, k, peer_after(ctx, i), part if rounds > 1 else peek(ctx + BLOCK))
            if status != c.OK:
                return status
    return end_exposure(ctx, sequence, rounds) if exposing else release_cells(ctx, sequence, rounds, rounds)


def expose_array(ctx, sequence):
    """Expose this rank's array, if it can be and that pays. Return whether peers read their blocks where they are."""
    if not may_expose(ctx, peek(ctx + BLOCK)):
        return 0
    note_result(ctx, sequence, peek(ctx + TARGETS) == 0)
    find_out(ctx, peek(ctx + BLOCK))
    is_contiguous = peek(ctx + WHOLE) == 0 and peek(ctx + SOURCE_RUN) == peek(ctx + BLOCK)
    share = peek(ctx + BLOCK) if is_contiguous and not works_in_place(ctx) else 0
    limit = limit_by_pace(ctx, share, peek(ctx + c.EXCHANGE_BYTES))
    return expose(ctx, sequence, peek(ctx + c.X + c.DATA), peek(ctx + c.X + c.BYTES), share, limit)


def describe_whole(ctx):
    """Describe x, the first array of a list, as the array of all blocks: lists and arrays have the same header."""
    shape = peek(ctx + WHOLE)
    poke(ctx + c.X + c.DIMENSIONS, peek(shape))
    poke(ctx + c.X + c.DIMS, shape + WORD)
    for word in (c.COUNT, c.BYTES):
        poke(ctx + c.X + word, peek(ctx + c.X + word) * peek(ctx + c.SIZE))


def part_bytes(ctx):
    """Return the share of a cell that one receiver has."""
    return peek(ctx + c.CELL_BYTES) // peek(ctx + c.SIZE) // LINE * LINE


def staged_bytes(ctx):
    """Return how much of a block is staged in a round: all of it, in whole lines, if it fits; at least a line."""
    return min(part_bytes(ctx), max(-(-peek(ctx + BLOCK) // LINE), 1) * LINE)


def stage(ctx, sequence, k, part):
    """Gather the k-th part of every peer's block into this rank's cell."""
    begin_byte = k * part
    end = min(begin_byte + part, peek(ctx + BLOCK))
    run, stride = peek(ctx + SOURCE_RUN), peek(ctx + SOURCE_STRIDE)
    place = place_of(ctx, peek(ctx + c.RANK), sequence, k)
    for i in range(1, peek(ctx + c.SIZE)):
        peer = peer_after(ctx, i)
        if run in (stride, peek(ctx + BLOCK)):
            write_cell(ctx, place + peer * part, source(ctx, peer) + begin_byte, end - begin_byte)
        else:
            gather_runs(place + peer * part, source(ctx, peer), run, stride, begin_byte, end)


def place_of(ctx, rank, sequence, k):
    """Return the address of the cell of a rank in round k: n places of `staged_bytes`."""
    size, staged = peek(ctx + c.SIZE), staged_bytes(ctx)
    return cell_of_round(ctx, rank, sequence, k, max(-(-peek(ctx + BLOCK) // staged), 1), size * staged)


def fetch(ctx, sequence, k, peer, part):
    """Wait for the k-th part of the block from `peer` and scatter it. Part 0 was published with the header."""
    if k > 0:
        status = await_step(ctx, sequence, k, peer)
        if status != c.OK:
            return status
    begin_byte = k * part
    end = min(begin_byte + part, peek(ctx + BLOCK))
    if exposed(ctx, sequence, peer, peek(ctx + BLOCK)):
        return fetch_exposed(ctx, sequence, peer, begin_byte, end)
    run, stride = peek(ctx + TARGET_RUN), peek(ctx + TARGET_STRIDE)
    place = place_of(ctx, peer, sequence, k) + peek(ctx + c.RANK) * staged_bytes(ctx)
    begun = begin_copy(ctx, end - begin_byte)
    copy_runs_to_result(ctx, target(ctx, peer), run, stride, place, begin_byte, end)
    note_copy(ctx, c.FETCH_PACE, begun, end - begin_byte)
    return c.OK


def fetch_exposed(ctx, sequence, peer, begin_byte, end):
    """Copy bytes [begin_byte, end) of the block from `peer` to their place from where that rank exposes it."""
    block, run, stride = peek(ctx + BLOCK), peek(ctx + TARGET_RUN), peek(ctx + TARGET_STRIDE)
    first, place = peek(ctx + c.RANK) * block, target(ctx, peer)
    if run in (stride, block):
        return read_exposed(ctx, sequence, peer, first + begin_byte, place + begin_byte, end - begin_byte)
    done = begin_byte
    while done < end:
        count = min(c.SCRATCH_BYTES, end - done)
        status = read_exposed(ctx, sequence, peer, first + done, peek(ctx + c.SCRATCH), count)
        if status != c.OK:
            return status
        scatter_runs(place, run, stride, peek(ctx + c.SCRATCH), done, done + count)
        done += count
    return c.OK


def copy_own(ctx):
    """Copy the block that this rank sends to itself from its array to its result."""
    me = peek(ctx + c.RANK)
    if target(ctx, me) != source(ctx, me):
        copy_block_to_result(
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
    """Return where the block for `rank` begins."""
    table = peek(ctx + SOURCES)
    if table:
        return peek(table + rank * WORD)
    return peek(ctx + c.X + c.DATA) + rank * peek(ctx + SOURCE_RUN)


def target(ctx, rank):
    """Return where the block from `rank` goes."""
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
    describe=lambda split, second: f", split_axis={split}, concat_axis={second & 0xFF}{in_words(second >> MARK_SHIFT)}",
)
