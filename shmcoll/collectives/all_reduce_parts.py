"""The algorithm "parts" of all_reduce and reduce: reduce-scatter and all-gather through memory that all ranks see.

The array is cut into chunks, one for each round. In a round every rank reduces its n-th of the chunk from the arrays of
all ranks. Then the ranks that get the result copy the parts of the others from where these have reduced them:

    kind      x is read              each rank reduces its part into        a chunk
    CELLS     from the cells         its cell, in place                     as long as a cell
    ARENA     where it is exposed    its cell; the root into its result     n cells
    RESULTS   where it is exposed    its result, which is in the arena      n pieces of PIECE_BYTES

CELLS is the algorithm "cells". The other two replace the ring where x of every rank is in the arena, ARENA in reduce,
RESULTS in all_reduce if `out` is there, too: nothing is copied into cells. The order of additions is that of the ring.

Cost for each round. CELLS: 2 a + 2 cell b + (n - 1) / n cell g. ARENA: 2 a + (n - 1) cell g, and (n - 1) cell b at the
root. RESULTS: 2 a + piece (b + n g) + (n - 1) piece b; the parts of a round are copied after the next one is reduced,
while they are in a cache.

Protocol. Step 2 k + 1 of a rank: its part of round k is reduced, and it has read what it reads of the rounds before
round k, in RESULTS before round k - 1. After the last round all ranks make step 2 rounds, which says that they have
read everything, and wait for it. After an odd number of rounds through CELLS that is not necessary.

    CELLS     cell (t + k) & 1 of a rank: it writes chunk k there, round 0 before the opening and round k before step
              2 k. All ranks wait for step 2 k of all. Then no other rank reads its n-th, which it overwrites
    ARENA     cell (t + k) & 1 of a rank other than the root: filled with its part of round k, for k >= 2 after step
              2 k - 1 of the root, which has then copied round k - 2
    x, result a rank alone reads its part of all x, before its step 2 k + 1. A rank writes the part of another into its
              result after that step. So the result may be exactly x. Results that overlap an array of another rank
              would be written while it is read: all ranks find that from the headers and refuse the call

A rank leaves earlier if the group ends. A reader cannot see that what it reads is being changed. So after it has read
everything that is exposed, it checks whether the group has ended (`exposure.end_exposure`).

A rank waits only for steps before which other ranks do not wait for it, so no rank waits forever.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import load, peek
from shmcoll.engine.layout import HEADER_EXPOSED, HEADER_RESULT
from shmcoll.engine.protocol.cells import cell, full_cell, write_cell
from shmcoll.engine.protocol.exposure import end_exposure
from shmcoll.engine.protocol.nontemporal import copy_to_result, copy_to_unread
from shmcoll.engine.protocol.reduction import EXPOSED, fold_slices, gets_result, shortest_slice
from shmcoll.engine.protocol.sync import (
    await_step,
    exchange_headers,
    header,
    peer_after,
    publish_and_await_step,
    publish_step,
    release_cells,
)

CELLS, ARENA, RESULTS = range(3)

PIECE_BYTES = 1 << 20  # of a part of RESULTS


def reduce_in_cells(ctx, turn, root):
    """Open, and reduce the arrays of all ranks through the cells into the result of `root`, or of ALL."""
    stage(ctx, turn, 0)
    status = exchange_headers(ctx)
    return reduce_in_parts(ctx, turn, root, CELLS) if status == c.OK else status


def reduce_in_parts(ctx, turn, root, kind):
    """Reduce the arrays of all ranks, after the opening, into the result of `root`, or of ALL."""
    rounds, lag = max(-(-peek(ctx + c.X + c.COUNT) // chunk_length(ctx, kind)), 1), 1 if kind == RESULTS else 0
    for k in range(rounds + lag):
        status = reduce_part(ctx, turn, k, root, kind) if k < rounds else c.OK
        if status == c.OK and k >= lag and gets_result(ctx, root):
            status = collect_parts(ctx, turn, k - lag, root, kind)
        if status != c.OK:
            return status
    if kind == CELLS:
        return release_cells(ctx, turn, rounds, 2 * rounds)
    return end_exposure(ctx, turn, 2 * rounds)


def stage(ctx, turn, k):
    """Copy the k-th chunk of x into this rank's cell."""
    item, chunk = peek(ctx + c.X + c.ITEM), chunk_length(ctx, CELLS)
    count = min(chunk, peek(ctx + c.X + c.COUNT) - k * chunk)
    place = cell(ctx, peek(ctx + c.RANK), turn, k, peek(ctx + c.X + c.BYTES))
    write_cell(ctx, place, peek(ctx + c.X + c.DATA) + k * chunk * item, count * item)


def reduce_part(ctx, turn, k, root, kind):
    """Reduce this rank's part of the k-th chunk."""
    status, me, item = c.OK, peek(ctx + c.RANK), peek(ctx + c.X + c.ITEM)
    if kind == CELLS and k > 0:
        stage(ctx, turn, k)
        status = publish_and_await_step(ctx, turn, 2 * k)
    elif kind == ARENA and k >= 2 and me != root:
        status = await_step(ctx, turn, 2 * k - 1, root)
    if status != c.OK:
        return status
    first, offset, count = part_bounds(ctx, k, me, kind)
    places, stride = first * item, EXPOSED
    if kind == CELLS:
        places = cell(ctx, 0, turn, k, peek(ctx + c.X + c.BYTES))
        stride = cell(ctx, 1, turn, k, peek(ctx + c.X + c.BYTES)) - places
        places += offset * item
    status = fold_slices(ctx, part_place(ctx, turn, k, me, root, kind), places, stride, first, first + count)
    if status == c.OK:
        publish_step(ctx, turn, 2 * k + 1)
    return status


def collect_parts(ctx, turn, k, root, kind):
    """Copy what other ranks have reduced of the k-th chunk to the result; from CELLS also what this rank has."""
    item = peek(ctx + c.X + c.ITEM)
    for i in range(0 if kind == CELLS else 1, peek(ctx + c.SIZE)):
        peer = peer_after(ctx, i)
        if i > 0:
            status = await_step(ctx, turn, 2 * k + 1, peer)
            if status != c.OK:
                return status
        first, _, count = part_bounds(ctx, k, peer, kind)
        target, source = peek(ctx + c.OUT + c.DATA) + first * item, part_place(ctx, turn, k, peer, root, kind)
        if kind == CELLS:
            copy_to_result(ctx, target, source, count * item)
        else:
            copy_to_unread(ctx, target, source, count * item)
    return c.OK


def part_place(ctx, turn, k, rank, root, kind):
    """Return where a rank reduces its part of the k-th chunk."""
    first, offset, _ = part_bounds(ctx, k, rank, kind)
    item = peek(ctx + c.X + c.ITEM)
    if kind == CELLS:
        return cell(ctx, rank, turn, k, peek(ctx + c.X + c.BYTES)) + offset * item
    if rank == root:
        return peek(ctx + c.OUT + c.DATA) + first * item
    if kind == ARENA:
        return full_cell(ctx, rank, turn, k)
    return peek(ctx + c.ARENA) + load(header(ctx, rank) + HEADER_RESULT) - 1 + first * item


def part_bounds(ctx, k, rank, kind):
    """Return what `rank` reduces of the k-th chunk: first element, offset within the chunk, number of elements."""
    size, chunk = peek(ctx + c.SIZE), chunk_length(ctx, kind)
    count = min(chunk, peek(ctx + c.X + c.COUNT) - k * chunk)
    offset = count * rank // size
    return k * chunk + offset, offset, count * (rank + 1) // size - offset


def chunk_length(ctx, kind):
    """Return the elements of a chunk."""
    size, item = peek(ctx + c.SIZE), peek(ctx + c.X + c.ITEM)
    if kind == RESULTS:
        return size * max(PIECE_BYTES // item, shortest_slice(peek(ctx + c.X + c.COUNT)))
    return peek(ctx + c.CELL_BYTES) // item * (size if kind == ARENA else 1)


def results_fit(ctx):
    """Return whether no result overlaps an x or another result. It may be exactly the x of its own rank."""
    size, length = peek(ctx + c.SIZE), peek(ctx + c.X + c.BYTES)
    for a in range(size):
        out = load(header(ctx, a) + HEADER_RESULT)
        for b in range(size):
            x, other = load(header(ctx, b) + HEADER_EXPOSED), load(header(ctx, b) + HEADER_RESULT)
            if abs(out - x) < length and not (a == b and out == x):
                return 0
            if abs(out - other) < length and a != b:
                return 0
    return 1
