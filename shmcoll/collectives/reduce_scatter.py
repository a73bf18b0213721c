"""reduce_scatter: every rank has n blocks; rank r gets the element-wise reduction of block r of all ranks.

Blocks are equal parts of one array along axis 0, or the arrays of a list, or of different lengths (reduce_scatter_v).
The reduction of block b starts at rank b + 1 and ends with rank b, whichever algorithm runs; with an operator that is
not commutative it starts at rank 0. In the costs S are the bytes of all blocks together.

flat: up to FLAT_BYTES. Every rank copies all its blocks beside its header or into its cell before the opening sync.
Afterwards it reduces its own block of all n ranks. Cost: a + S b + (n - 1) / n S g.

ring: above that. The ring of all_reduce, rotated so that every rank is the last to add to its own block, straight into
its result. Nothing is copied out of cells, and each rank copies at most S / n bytes into its cells.
Cost for each round of n slices: n a + slice b + (n - 1) slice g.

cells: for operators that are not commutative, and up to (n - 2) RING_BYTES. An all_to_all through the cells: in each
round every rank copies the next piece of every block into its cell, and reduces its own pieces from all n cells.
Cost for each round: a + cell b + (n - 1) / n cell g.

If the blocks of every rank are in shared memory, and one after the other, each rank reduces its block of all ranks
where they are, instead of the ring. There are two syncs. Cost: 2 a + (n - 1) / n S g.

Protocol of the ring: in round k a slice of each block travels around the ranks. In step t rank r adds its part of block
r - 1 - t, which accumulates in the cell of the rank that started it. In step n - 1 that is block r, which goes into the
result. Rank r waits in step t only for step t - 1 of rank r - 1.

    cell of rank j, round k: written in turn by ranks j, j + 1, ..., j - 2 (steps 0 to n - 2), read by j - 1 in step
    n - 1, each after it has seen the step before. Rank j writes it again in round k + 2: in step 1 of round k + 1 it
    has seen that j - 1 had finished round k. The last round uses cell t & 1, so that the next operation may fill cell
    (t + 1) & 1.

Protocol of the cells: part b of a cell is for block b.

    cell (t + k) & 1 of a rank: filled as step k (round 0: before the opening), for round k + 2 after step k + 1 of
    every peer, which follows the peer's reads of round k.

Arguments: SOURCES is the address of the addresses of this rank's n blocks, or 0: they follow one another in x. ARGUMENT
is EVEN or LISTED. For blocks of different lengths it is any greater number that all ranks share if they share the
lengths; the n lengths in elements then follow the addresses.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek, poke
from shmcoll.engine.collective import COUNTS, OWN_PART, REDUCING, SCATTERS, SHAPE, Collective
from shmcoll.engine.kernels.kernels import STEP
from shmcoll.engine.layout import HEADER_EXPOSED, LINE, WORD
from shmcoll.engine.protocol.cells import cell_of_round, full_cell, payload, write_cell
from shmcoll.engine.protocol.exposure import are_all_in_arena, end_exposure, expose_in_arena, results_are_apart
from shmcoll.engine.protocol.reduction import (
    EXPOSED,
    ORDERED,
    SOURCES,
    accumulator_bytes,
    chosen,
    finish_slice,
    fold,
    goes_through_cells,
    is_flat,
    reduce,
    reduce_alone,
    slice_length_of,
    start_slice,
)
from shmcoll.engine.protocol.sync import (
    await_step,
    begin,
    exchange_headers,
    peer_before,
    publish_and_await_step,
    publish_step,
    release_cells,
)

COVERS = SHAPE
ALGORITHMS = ("flat", "ring", "cells")
FLAT, RING, CELLS = range(1, 4)

EVEN, LISTED = range(2)


def reduce_scatter(ctx):
    turn = begin(ctx, COVERS)
    size = peek(ctx + c.SIZE)
    if size == 1:
        return reduce_alone(ctx)
    length = blocks_before(ctx, size) * peek(ctx + c.X + c.ITEM)
    poke(ctx + c.MOVED, peek(ctx + c.MOVED) + length - peek(ctx + c.X + c.BYTES))  # x is only the first of a list
    if is_flat(ctx, FLAT, length):
        return flat(ctx, turn, length)
    if goes_through_cells(ctx, CELLS, length):
        return cells(ctx, turn)
    expose_in_arena(ctx, length if are_consecutive(ctx) else 0, 1)
    status = exchange_headers(ctx)
    if status != c.OK:
        return status
    if chosen(ctx) or not are_all_in_arena(ctx, HEADER_EXPOSED, length):
        return ring(ctx, turn)
    return shared(ctx, turn) if results_are_apart(ctx) else c.OVERLAP


# --- blocks -----------------------------------------------------------------------------------------------------------


def block_count(ctx, b):
    """Return the elements of block b."""
    kind, size = peek(ctx + c.ARGUMENT), peek(ctx + c.SIZE)
    if kind == EVEN:
        return peek(ctx + c.X + c.COUNT) // size
    if kind == LISTED:
        return peek(ctx + c.X + c.COUNT)
    return peek(peek(ctx + SOURCES) + (size + b) * WORD)


def block_source(ctx, b):
    """Return the address of this rank's block b."""
    table = peek(ctx + SOURCES)
    if table:
        return peek(table + b * WORD)
    return peek(ctx + c.X + c.DATA) + b * block_count(ctx, b) * peek(ctx + c.X + c.ITEM)


def blocks_before(ctx, b):
    """Return the elements of all blocks before block b together."""
    total = 0
    for i in range(b):
        total += block_count(ctx, i)
    return total


def are_consecutive(ctx):
    """Return whether this rank's blocks are one after the other, from x on."""
    place = peek(ctx + c.X + c.DATA)
    for b in range(peek(ctx + c.SIZE)):
        if block_source(ctx, b) != place:
            return 0
        place += block_count(ctx, b) * peek(ctx + c.X + c.ITEM)
    return 1


def longest_block(ctx):
    longest = 0
    for b in range(peek(ctx + c.SIZE)):
        longest = max(longest, block_count(ctx, b))
    return longest


def first_rank(ctx):
    """Return the rank at which the reduction of this rank's block starts."""
    after = peek(ctx + c.RANK) + 1
    return 0 if peek(ctx + ORDERED) or after == peek(ctx + c.SIZE) else after


# --- flat -------------------------------------------------------------------------------------------------------------


def flat(ctx, turn, length):
    size, me, item = peek(ctx + c.SIZE), peek(ctx + c.RANK), peek(ctx + c.X + c.ITEM)
    place = payload(ctx, me, turn, length)
    for b in range(size):
        block = block_count(ctx, b) * item
        copy(place, block_source(ctx, b), block)
        place += block
    status = exchange_headers(ctx)
    if status != c.OK:
        return status
    places = payload(ctx, 0, turn, length)
    stride = payload(ctx, 1, turn, length) - places
    places += blocks_before(ctx, me) * item
    return fold(ctx, peek(ctx + c.OUT + c.DATA), places, stride, block_count(ctx, me), first_rank(ctx), size)


# --- shared -----------------------------------------------------------------------------------------------------------


def shared(ctx, turn):
    me = peek(ctx + c.RANK)
    offset, count = blocks_before(ctx, me) * peek(ctx + c.X + c.ITEM), block_count(ctx, me)
    target = peek(ctx + c.OUT + c.DATA)
    status = fold(ctx, target, offset, EXPOSED, count, first_rank(ctx), peek(ctx + c.SIZE))
    return end_exposure(ctx, turn, 1) if status == c.OK else status


# --- ring -------------------------------------------------------------------------------------------------------------


def ring(ctx, turn):
    longest = longest_block(ctx)
    length = slice_length_of(ctx, longest * peek(ctx + c.SIZE))
    rounds = -(-longest // length)
    for k in range(rounds):
        status = ring_round(ctx, turn, k, rounds, length)
        if status != c.OK:
            return status
    return c.OK


def ring_round(ctx, turn, k, rounds, length):
    """Do the n steps of a round: add this rank's elements to a slice of each block, the last into its result."""
    size, left = peek(ctx + c.SIZE), peer_before(ctx, 1)
    for t in range(size):
        starter, b = peer_before(ctx, t), peer_before(ctx, t + 1)
        first = min(k * length, block_count(ctx, b))
        count = min(length, block_count(ctx, b) - first)
        offset = first * peek(ctx + c.X + c.ITEM)
        place = cell_of_round(ctx, starter, turn, rounds - 1 - k, rounds, length * accumulator_bytes(ctx))
        source = block_source(ctx, b) + offset
        status = c.OK
        if t > 0:
            status = await_step(ctx, turn, k * size + t, left)
            if status != c.OK:
                return status
        if t == 0:
            status = start_slice(ctx, place, source, count, False)
        elif t < size - 1:
            status = reduce(ctx, STEP, 0, place, source, count)
        else:
            status = finish_slice(ctx, peek(ctx + c.OUT + c.DATA) + offset, place, source, count)
        if status != c.OK:
            return status
        publish_step(ctx, turn, k * size + t + 1)
    return c.OK


# --- cells ------------------------------------------------------------------------------------------------------------


def cells(ctx, turn):
    part = peek(ctx + c.CELL_BYTES) // peek(ctx + c.SIZE) // LINE * LINE // peek(ctx + c.X + c.ITEM)
    rounds = max(-(-longest_block(ctx) // part), 1)
    stage(ctx, turn, 0, part)
    status = exchange_headers(ctx)
    if status != c.OK:
        return status
    for k in range(rounds):
        if k > 0:
            status = stage_next(ctx, turn, k, part)
            if status != c.OK:
                return status
        status = reduce_piece(ctx, turn, k, part)
        if status != c.OK:
            return status
    return release_cells(ctx, turn, rounds, rounds)


def stage(ctx, turn, k, part):
    """Copy the k-th piece of every block into this rank's cell."""
    size, item = peek(ctx + c.SIZE), peek(ctx + c.X + c.ITEM)
    place = full_cell(ctx, peek(ctx + c.RANK), turn, k)
    for b in range(size):
        first = k * part
        count = min(part, block_count(ctx, b) - first)
        if count > 0:
            write_cell(ctx, place + b * part * item, block_source(ctx, b) + first * item, count * item)


def stage_next(ctx, turn, k, part):
    """Copy the k-th piece of every block, k > 0, and wait until all peers have done it."""
    stage(ctx, turn, k, part)
    return publish_and_await_step(ctx, turn, k)


def reduce_piece(ctx, turn, k, part):
    """Reduce the k-th piece of this rank's block from all cells."""
    size, me, item = peek(ctx + c.SIZE), peek(ctx + c.RANK), peek(ctx + c.X + c.ITEM)
    first = k * part
    count = min(part, block_count(ctx, me) - first)
    places = full_cell(ctx, 0, turn, k)
    stride = full_cell(ctx, 1, turn, k) - places
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
