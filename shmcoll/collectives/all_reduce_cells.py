"""The algorithm "cells" of all_reduce and reduce: reduce-scatter and all-gather through the cells.

In each round every rank copies the next chunk of its array into its cell, and reduces its n-th of the chunk from all
cells into its own cell, in place: no other rank reads that part of that cell. Then the ranks that get the result copy
each part from the cell of the rank that has reduced it.

    cell (s + k) & 1 of a rank: filled as step 2 k (round 0: before the opening). Its own part is overwritten as step
    2 k + 1. It is filled again for round k + 2 after step 2 (k + 1) of every peer, which follows the peer's reads of
    round k. In reduce only the root copies the parts; its next step says that it has, and all ranks wait for that step.

Each step waits only for earlier steps of the peers, so no rank waits forever.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.protocol.cells import cell, write_cell
from shmcoll.engine.protocol.nontemporal import copy_to_result
from shmcoll.engine.protocol.reduction import fold_slices, gets_result
from shmcoll.engine.protocol.sync import (
    await_step,
    exchange_headers,
    peer_after,
    publish_and_await_step,
    publish_step,
    release_cells,
)


def reduce_in_cells(ctx, sequence, root):
    """Open, and reduce the arrays of all ranks into the result of `root`, or of ALL."""
    chunk = peek(ctx + c.CELL_BYTES) // peek(ctx + c.X + c.ITEM)
    rounds = max(-(-peek(ctx + c.X + c.COUNT) // chunk), 1)
    stage(ctx, sequence, 0, chunk)
    status = exchange_headers(ctx, sequence)
    if status != c.OK:
        return status
    for k in range(rounds):
        status = reduce_part(ctx, sequence, k, chunk)
        if status == c.OK and gets_result(ctx, root):
            status = collect_parts(ctx, sequence, k, chunk)
        if status != c.OK:
            return status
    return release_cells(ctx, sequence, rounds, 2 * rounds)


def stage(ctx, sequence, k, chunk):
    """Copy the k-th chunk of x into this rank's cell."""
    first = k * chunk
    item = peek(ctx + c.X + c.ITEM)
    count = min(chunk, peek(ctx + c.X + c.COUNT) - first)
    place = cell(ctx, peek(ctx + c.RANK), sequence, k, peek(ctx + c.X + c.BYTES))
    write_cell(ctx, place, peek(ctx + c.X + c.DATA) + first * item, count * item)


def reduce_part(ctx, sequence, k, chunk):
    """Reduce this rank's part of the k-th chunk, after every rank has staged the chunk."""
    if k > 0:
        stage(ctx, sequence, k, chunk)
        status = publish_and_await_step(ctx, sequence, 2 * k)
        if status != c.OK:
            return status
    me = peek(ctx + c.RANK)
    first, offset, count = part_bounds(ctx, k, me, chunk)
    offset *= peek(ctx + c.X + c.ITEM)
    length = peek(ctx + c.X + c.BYTES)
    places = cell(ctx, 0, sequence, k, length)
    stride = cell(ctx, 1, sequence, k, length) - places
    own = places + me * stride + offset
    status = fold_slices(ctx, own, places + offset, stride, first, first + count)
    if status == c.OK:
        publish_step(ctx, sequence, 2 * k + 1)
    return status


def collect_parts(ctx, sequence, k, chunk):
    """Copy what every rank has reduced of the k-th chunk to the result."""
    item = peek(ctx + c.X + c.ITEM)
    for i in range(peek(ctx + c.SIZE)):
        peer = peer_after(ctx, i)
        if i > 0:
            status = await_step(ctx, sequence, 2 * k + 1, peer)
            if status != c.OK:
                return status
        first, offset, count = part_bounds(ctx, k, peer, chunk)
        source = cell(ctx, peer, sequence, k, peek(ctx + c.X + c.BYTES)) + offset * item
        copy_to_result(ctx, peek(ctx + c.OUT + c.DATA) + first * item, source, count * item)
    return c.OK


def part_bounds(ctx, k, rank, chunk):
    """Return what `rank` reduces of the k-th chunk: first element, offset within the chunk, number of elements."""
    size = peek(ctx + c.SIZE)
    count = min(chunk, peek(ctx + c.X + c.COUNT) - k * chunk)
    offset = count * rank // size
    return k * chunk + offset, offset, count * (rank + 1) // size - offset
