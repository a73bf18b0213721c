"""reduce_scatter: every rank has n blocks; rank r gets the element-wise reduction of block r of all ranks.

Blocks are equal parts of one array along axis 0, or the arrays of a list, or of different lengths (reduce_scatter_v).
The reduction of block b starts at rank b + 1 and ends with rank b, whichever algorithm runs; with an operator that is
not commutative it starts at rank 0. In the costs S are the bytes of all blocks together.

flat, up to FLAT_BYTES. Everybody lays all its blocks beside its header or into its cell before the opening sync, and
afterwards reduces its own block of all n ranks. Cost: a + S b + (n - 1) / n S g.

ring, above: the ring of all_reduce, turned so that every rank comes last to its own block. In round k a slice of each
block goes round: in step t rank r adds its part of block r - 1 - t, which accumulates in the cell of the rank that
started it; in step n - 1 that is block r, and goes straight into the result. Nothing is copied out, and each rank lays
no more than S / n bytes into its cells. Rank r waits in step t for step t - 1 of rank r - 1 alone.
Cost for each round of n slices: n a + slice b + (n - 1) slice g.

    cell of rank j, round k: written in turn by ranks j, j + 1, ..., j - 2 (steps 0 to n - 2), read by j - 1 in step
    n - 1, each after it has seen the step before. Rank j writes it again in round k + 2: in step 1 of round k + 1 it
    has seen that j - 1 had finished round k. The last round uses cell s & 1, so that the next operation may fill cell
    (s + 1) & 1.

cells, for operators that are not commutative and up to (n - 2) RING_BYTES: all_to_all through the cells. Part b of a
cell is for block b; in each round everybody lays the next piece of every block into its cell and reduces its own from
all n cells.
Cost for each round: a + cell b + (n - 1) / n cell g.

    cell (s + k) & 1 of a rank: filled as step k (round 0: before the opening), for round k + 2 after step k + 1 of
    every peer, which comes after its reads of round k.

Arguments: SOURCES leads to the addresses of this rank's n blocks, or is 0: they lie one after the other in x. ARGUMENT
is EVEN, LISTED, or for blocks of different lengths anything above that all ranks have alike if these are; the n lengths
in elements then stand behind the addresses.
"""

from shmcoll.collectives.all_to_all import part_bytes
from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek, poke
from shmcoll.engine.collective import COUNTS, OWN_PART, REDUCING, SCATTERS, SHAPE, Collective
from shmcoll.engine.kernels.kernels import STEP
from shmcoll.engine.layout import WORD
from shmcoll.engine.protocol.reduction import (
    ORDERED,
    SOURCES,
    finish_slice,
    fold,
    goes_through_cells,
    is_flat,
    reduce,
    reduce_alone,
    slice_length_of,
    start_slice,
)
from shmcoll.engine.protocol.sync import await_step, begin, cell, meet, payload, publish_step, release_cells

COVERS = SHAPE
ALGORITHMS = ("flat", "ring", "cells")
FLAT, RING, CELLS = range(1, 4)

EVEN, LISTED = range(2)


def reduce_scatter(ctx):
    sequence = begin(ctx, COVERS)
    size = peek(ctx + c.SIZE)
    if size == 1:
        return reduce_alone(ctx)
    length = blocks_before(ctx, size) * peek(ctx + c.X + c.ITEM)
    poke(ctx + c.MOVED, peek(ctx + c.MOVED) + length - peek(ctx + c.X + c.BYTES))  # x is but the first of a list
    if is_flat(ctx, FLAT, length):
        return flat(ctx, sequence, length)
    if goes_through_cells(ctx, CELLS, length):
        return cells(ctx, sequence)
    return ring(ctx, sequence)


# --- blocks -----------------------------------------------------------------------------------------------------------


def block_count(ctx, b):
    """Elements of block b."""
    kind, size = peek(ctx + c.ARGUMENT), peek(ctx + c.SIZE)
    if kind == EVEN:
        return peek(ctx + c.X + c.COUNT) // size
    if kind == LISTED:
        return peek(ctx + c.X + c.COUNT)
    return peek(peek(ctx + SOURCES) + (size + b) * WORD)


def block_source(ctx, b):
    """Where this rank has its block b."""
    table = peek(ctx + SOURCES)
    if table:
        return peek(table + b * WORD)
    return peek(ctx + c.X + c.DATA) + b * block_count(ctx, b) * peek(ctx + c.X + c.ITEM)


def blocks_before(ctx, b):
    """Elements of all blocks before block b together."""
    total = 0
    for i in range(b):
        total += block_count(ctx, i)
    return total


def longest_block(ctx):
    longest = 0
    for b in range(peek(ctx + c.SIZE)):
        longest = max(longest, block_count(ctx, b))
    return longest


def first_rank(ctx):
    """Where the reduction of this rank's block starts."""
    after = peek(ctx + c.RANK) + 1
    return 0 if peek(ctx + ORDERED) or after == peek(ctx + c.SIZE) else after


# --- flat -------------------------------------------------------------------------------------------------------------


def flat(ctx, sequence, length):
    size, me, item = peek(ctx + c.SIZE), peek(ctx + c.RANK), peek(ctx + c.X + c.ITEM)
    place = payload(ctx, me, sequence, length)
    for b in range(size):
        block = block_count(ctx, b) * item
        copy(place, block_source(ctx, b), block)
        place += block
    status = meet(ctx, sequence)
    if status != c.OK:
        return status
    places = payload(ctx, 0, sequence, length)
    stride = payload(ctx, 1, sequence, length) - places
    places += blocks_before(ctx, me) * item
    return fold(ctx, peek(ctx + c.OUT + c.DATA), places, stride, block_count(ctx, me), first_rank(ctx), size)


# --- ring -------------------------------------------------------------------------------------------------------------


def ring(ctx, sequence):
    status = meet(ctx, sequence)
    if status != c.OK:
        return status
    longest = longest_block(ctx)
    length = slice_length_of(ctx, longest * peek(ctx + c.SIZE))
    rounds = -(-longest // length)
    for k in range(rounds):
        status = pass_on(ctx, sequence, k, sequence + rounds - 1 - k, length)
        if status != c.OK:
            return status
    return c.OK


def pass_on(ctx, sequence, k, half, length):
    """The n steps of round k: add this rank's part to a slice of each block as it comes by, and keep the last."""
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    left = me - 1 if me > 0 else size - 1
    for t in range(size):
        starter = me - t if me >= t else me - t + size
        b = starter - 1 if starter > 0 else size - 1
        first = min(k * length, block_count(ctx, b))
        count = min(length, block_count(ctx, b) - first)
        offset = first * peek(ctx + c.X + c.ITEM)
        place, source = cell(ctx, starter, half), block_source(ctx, b) + offset
        status = c.OK
        if t > 0:
            status = await_step(ctx, sequence, k * size + t, left)
            if status != c.OK:
                return status
        if t == 0:
            status = start_slice(ctx, place, source, count)
        elif t < size - 1:
            status = reduce(ctx, STEP, 0, place, source, count)
        else:
            status = finish_slice(ctx, peek(ctx + c.OUT + c.DATA) + offset, place, source, count)
        if status != c.OK:
            return status
        publish_step(ctx, sequence, k * size + t + 1)
    return c.OK


# --- cells ------------------------------------------------------------------------------------------------------------


def cells(ctx, sequence):
    part = part_bytes(ctx) // peek(ctx + c.X + c.ITEM)
    rounds = max(-(-longest_block(ctx) // part), 1)
    fill(ctx, sequence, 0, part)
    status = meet(ctx, sequence)
    if status != c.OK:
        return status
    for k in range(rounds):
        if k > 0:
            status = fill_again(ctx, sequence, k, part)
            if status != c.OK:
                return status
        status = fold_piece(ctx, sequence, k, part)
        if status != c.OK:
            return status
    return release_cells(ctx, sequence, rounds, rounds)


def fill(ctx, sequence, k, part):
    """Lay the k-th piece of every block into this rank's cell."""
    size, item = peek(ctx + c.SIZE), peek(ctx + c.X + c.ITEM)
    place = cell(ctx, peek(ctx + c.RANK), sequence + k)
    for b in range(size):
        first = k * part
        count = min(part, block_count(ctx, b) - first)
        if count > 0:
            copy(place + b * part * item, block_source(ctx, b) + first * item, count * item)


def fill_again(ctx, sequence, k, part):
    """The same for k > 0, and wait until all others have done it."""
    fill(ctx, sequence, k, part)
    publish_step(ctx, sequence, k)
    for peer in range(peek(ctx + c.SIZE)):
        if peer != peek(ctx + c.RANK):
            status = await_step(ctx, sequence, k, peer)
            if status != c.OK:
                return status
    return c.OK


def fold_piece(ctx, sequence, k, part):
    """Reduce the k-th piece of this rank's block from all cells."""
    size, me, item = peek(ctx + c.SIZE), peek(ctx + c.RANK), peek(ctx + c.X + c.ITEM)
    first = k * part
    count = min(part, block_count(ctx, me) - first)
    places = cell(ctx, 0, sequence + k)
    stride = cell(ctx, 1, sequence + k) - places
    target = peek(ctx + c.OUT + c.DATA) + first * item
    return fold(ctx, target, places + me * part * item, stride, count, first_rank(ctx), size)


def describe(kind, _):
    if kind > LISTED:
        return f", counts of hash {kind:x}"
    return ", first of a list" if kind == LISTED else ""


def title(kind):
    return "reduce_scatter_v" if kind > LISTED else "reduce_scatter"


COLLECTIVE = Collective(
    reduce_scatter,
    code=10,
    form=REDUCING | SCATTERS | OWN_PART | COUNTS,
    covers=COVERS,
    algorithms=ALGORITHMS,
    plans=True,
    describe=describe,
    title=title,
)
