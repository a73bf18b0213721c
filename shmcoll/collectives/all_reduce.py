"""all_reduce: every rank gets the element-wise reduction of all ranks' arrays, of equal shape and dtype.

Three algorithms with the same bits (see `engine/protocol/reduction.py` for the order):

flat, up to FLAT_BYTES for two ranks and 2 / n of that for more. Everybody lays its array beside its header (48 bytes)
or into its cell before the opening sync and afterwards reduces all n arrays itself. One sync. Cost: a + S b + (n - 1) S
g.

ring, above: the ring in shared memory ("movement-avoiding reduction", Peng et al., SC'23). In each round there are n
slices, one accumulating in the cell of each rank. In step t rank r adds its private block to slice r - t: in step 0 it
writes its own cell, in step n - 1 it finishes slice r + 1, straight into its result and the cell, from where the others
copy it. No rank copies its whole array in. Rank r waits in step t for step t - 1 of rank r - 1 alone.
Cost for each round of n slices: n a + (2 n slice) b + (n slice) g.

    cell of rank j, round k: written in turn by ranks j, j + 1, ..., j - 1, each after it has seen the step before;
    then read by all. Round k + 2 writes it again: who has finished round k + 1 has seen all steps of k + 1 of all
    ranks, and those come after their reads of round k. The last round uses cell s & 1, so that the next operation may
    fill cell (s + 1) & 1.

Where all arrays lie in the arena, the ring gives way to `all_reduce_shared.py`.

cells, for operators that are not commutative (the ring starts each slice elsewhere), and up to (n - 2) RING_BYTES,
where the steps of the ring take longer than laying the whole array into the cell (with 8 ranks on 2 cores 45 us for 97
at 64 KiB, 182 for 253 at 256 KiB): reduce-scatter and all-gather through the cells. In each round everybody lays a
cellful into its cell, reduces its n-th of it from all cells into its own cell, in place (nobody else reads that part of
it), and copies all parts from the cells that hold them.
Cost for each round: 2 a + 2 cell b + (n - 1) / n cell g.

    cell (s + k) & 1 of a rank: filled as step 2 k (round 0: before the opening), its own part overwritten as step
    2 k + 1. Filled again for round k + 2 after step 2 (k + 1) of every peer, which comes after its reads of round k.
"""

from shmcoll.collectives.all_reduce_shared import all_are_shared, offer, reduce_shared
from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek
from shmcoll.engine.collective import ALIKE, REDUCING, SHAPE, Collective
from shmcoll.engine.kernels.kernels import STEP
from shmcoll.engine.protocol.nontemporal import land
from shmcoll.engine.protocol.reduction import (
    chosen,
    finish_slice,
    fold_slices,
    goes_through_cells,
    is_flat,
    reduce,
    reduce_alone,
    slice_length,
    start_slice,
)
from shmcoll.engine.protocol.sync import await_step, begin, cell, meet, payload, publish_step, release_cells

COVERS = SHAPE
ALGORITHMS = ("flat", "ring", "cells")
FLAT, RING, CELLS = range(1, 4)


def all_reduce(ctx):
    sequence = begin(ctx, COVERS)
    if peek(ctx + c.SIZE) == 1:
        return reduce_alone(ctx)
    if is_short(ctx):
        return flat(ctx, sequence)
    if goes_through_cells(ctx, CELLS, peek(ctx + c.X + c.BYTES)):
        return cells(ctx, sequence, 1)
    return ring(ctx, sequence)


# --- flat -------------------------------------------------------------------------------------------------------------


def is_short(ctx):
    """Whether the call goes the flat way: while n arrays are reduced sooner than an n-th of them and another sync."""
    length = peek(ctx + c.X + c.BYTES)
    few = chosen(ctx) == FLAT or length * peek(ctx + c.SIZE) <= 2 * peek(ctx + c.FLAT_BYTES)
    return is_flat(ctx, FLAT, length) and few


def flat(ctx, sequence):
    length = peek(ctx + c.X + c.BYTES)
    copy(payload(ctx, peek(ctx + c.RANK), sequence, length), peek(ctx + c.X + c.DATA), length)
    status = meet(ctx, sequence)
    if status != c.OK or length == 0:
        return status
    return fold_payloads(ctx, sequence, length)


def fold_payloads(ctx, sequence, length):
    """Reduce what lies beside the headers, or in the cells, into the result."""
    places = payload(ctx, 0, sequence, length)
    stride = payload(ctx, 1, sequence, length) - places
    return fold_slices(ctx, peek(ctx + c.OUT + c.DATA), places, stride, 0, peek(ctx + c.X + c.COUNT))


# --- ring -------------------------------------------------------------------------------------------------------------


def ring(ctx, sequence):
    offer(ctx, sequence)
    status = meet(ctx, sequence)
    if status != c.OK:
        return status
    if chosen(ctx) == 0 and all_are_shared(ctx, sequence):
        return reduce_shared(ctx, sequence)
    length = slice_length(ctx)
    rounds = -(-peek(ctx + c.X + c.COUNT) // (peek(ctx + c.SIZE) * length))
    for k in range(rounds):
        half = sequence + rounds - 1 - k
        status = accumulate(ctx, sequence, k, half, length)
        if status != c.OK:
            return status
        status = finish(ctx, sequence, k, half, length)
        if status != c.OK:
            return status
        status = copy_out(ctx, sequence, k, half, length)
        if status != c.OK:
            return status
    return c.OK


def accumulate(ctx, sequence, k, half, length):
    """The steps of round k but the last: start a slice, and add this rank's block to others as they come by."""
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    left = me - 1 if me > 0 else size - 1
    item = peek(ctx + c.X + c.ITEM)
    for t in range(size - 1):
        j = me - t if me >= t else me - t + size
        first, count = slice_bounds(ctx, k, j, length)
        place = cell(ctx, j, half)
        source = peek(ctx + c.X + c.DATA) + first * item
        if t == 0:
            status = start_slice(ctx, place, source, count)
        else:
            status = await_step(ctx, sequence, k * size + t, left)
            if status != c.OK:
                return status
            status = reduce(ctx, STEP, 0, place, source, count)
        if status != c.OK:
            return status
        publish_step(ctx, sequence, k * size + t + 1)
    return c.OK


def finish(ctx, sequence, k, half, length):
    """The last step of round k: slice r + 1 is finished by rank r, into its result and for the others into the cell."""
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    j = me + 1 if me + 1 < size else 0
    status = await_step(ctx, sequence, (k + 1) * size - 1, me - 1 if me > 0 else size - 1)
    if status != c.OK:
        return status
    first, count = slice_bounds(ctx, k, j, length)
    offset = first * peek(ctx + c.X + c.ITEM)
    place, result = cell(ctx, j, half), peek(ctx + c.OUT + c.DATA) + offset
    status = finish_slice(ctx, result, place, peek(ctx + c.X + c.DATA) + offset, count)
    if status == c.OK:
        copy(place, result, count * peek(ctx + c.X + c.ITEM))
        publish_step(ctx, sequence, (k + 1) * size)
    return status


def copy_out(ctx, sequence, k, half, length):
    """Fetch the slices that other ranks have finished in round k."""
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    item = peek(ctx + c.X + c.ITEM)
    for i in range(1, size):
        finisher = me + i if me + i < size else me + i - size
        j = finisher + 1 if finisher + 1 < size else 0
        status = await_step(ctx, sequence, (k + 1) * size, finisher)
        if status != c.OK:
            return status
        first, count = slice_bounds(ctx, k, j, length)
        land(ctx, peek(ctx + c.OUT + c.DATA) + first * item, cell(ctx, j, half), count * item)
    return c.OK


def slice_bounds(ctx, k, j, length):
    """First element and number of elements of slice j in round k; none behind the end."""
    total = peek(ctx + c.X + c.COUNT)
    first = min((k * peek(ctx + c.SIZE) + j) * length, total)
    return first, min(length, total - first)


# --- cells ------------------------------------------------------------------------------------------------------------


def cells(ctx, sequence, collects):
    """`collects`: whether this rank wants the result."""
    chunk = peek(ctx + c.CELL_BYTES) // peek(ctx + c.X + c.ITEM)
    rounds = max(-(-peek(ctx + c.X + c.COUNT) // chunk), 1)
    fill(ctx, sequence, 0, chunk)
    status = meet(ctx, sequence)
    if status != c.OK:
        return status
    for k in range(rounds):
        status = fold_part(ctx, sequence, k, chunk)
        if status != c.OK:
            return status
        if collects:
            status = collect_parts(ctx, sequence, k, chunk)
            if status != c.OK:
                return status
    return release_cells(ctx, sequence, rounds, 2 * rounds)


def fill(ctx, sequence, k, chunk):
    """Lay the k-th chunk of x into this rank's cell."""
    first = k * chunk
    item = peek(ctx + c.X + c.ITEM)
    count = min(chunk, peek(ctx + c.X + c.COUNT) - first)
    copy(cell(ctx, peek(ctx + c.RANK), sequence + k), peek(ctx + c.X + c.DATA) + first * item, count * item)


def fold_part(ctx, sequence, k, chunk):
    """Reduce this rank's part of the k-th chunk, once it lies in every cell."""
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    if k > 0:
        fill(ctx, sequence, k, chunk)
        publish_step(ctx, sequence, 2 * k)
        for peer in range(size):
            if peer != me:
                status = await_step(ctx, sequence, 2 * k, peer)
                if status != c.OK:
                    return status
    first, offset, count = part_bounds(ctx, k, me, chunk)
    offset *= peek(ctx + c.X + c.ITEM)
    places = cell(ctx, 0, sequence + k)
    stride = cell(ctx, 1, sequence + k) - places
    own = places + me * stride + offset
    status = fold_slices(ctx, own, places + offset, stride, first, first + count)
    if status == c.OK:
        publish_step(ctx, sequence, 2 * k + 1)
    return status


def collect_parts(ctx, sequence, k, chunk):
    """Copy what every rank has reduced of the k-th chunk."""
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    item = peek(ctx + c.X + c.ITEM)
    for i in range(size):
        peer = me + i if me + i < size else me + i - size
        if i > 0:
            status = await_step(ctx, sequence, 2 * k + 1, peer)
            if status != c.OK:
                return status
        first, offset, count = part_bounds(ctx, k, peer, chunk)
        source = cell(ctx, peer, sequence + k) + offset * item
        land(ctx, peek(ctx + c.OUT + c.DATA) + first * item, source, count * item)
    return c.OK


def part_bounds(ctx, k, rank, chunk):
    """What `rank` reduces of the k-th chunk: its first element, its place within the chunk, and how many."""
    size = peek(ctx + c.SIZE)
    count = min(chunk, peek(ctx + c.X + c.COUNT) - k * chunk)
    offset = count * rank // size
    return k * chunk + offset, offset, count * (rank + 1) // size - offset


COLLECTIVE = Collective(all_reduce, code=2, form=REDUCING | ALIKE, covers=COVERS, algorithms=ALGORITHMS, plans=True)
