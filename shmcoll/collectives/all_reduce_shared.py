"""all_reduce of shared arrays, if x and out of every rank are in the arena: each rank reduces its n-th part of all
arrays in place into its own result, and then copies the other parts from the results of the other ranks. Nothing goes
through cells, and each rank writes only into its own arrays. The order of additions is that of the ring.
Cost: 3 a + S (b + g) / n + 2 S b, without the ring's copies into cells and out of them.

Protocol:

    inline payload   of r's header: X_PLACE and OUT_PLACE, where r's arrays begin in the arena, plus 1; 0 for a private
                     array. Only r writes them, before the opening. All ranks see the same headers, so all ranks choose
                     the same algorithm
    x of any rank    rank r alone reads part r, after the opening and before its step 1
    out of rank r    r writes part r before its step 1. It writes the part of another rank after it has seen step 1 of
                     that rank, which has then read this part of r's x. So out may be exactly x. An out that overlaps
                     an x or an out of any rank in another way would be written while it is read. All ranks find that
                     from the headers and refuse the call
    PROGRESS of r    step 1: part r is in r's result. Step 2: r has copied everything. No rank leaves before all ranks
                     have done step 2, because a rank that has left may change its arrays

But a rank leaves earlier if the group ends. A reader cannot see that what it reads is being changed. So after it has
read everything, it checks whether the group has ended: a rank that leaves ends the group first.

A rank waits only for steps before which other ranks do not wait for it, so there is no cycle.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import load, peek, store
from shmcoll.engine.kernels.kernels import FINISH, JOIN, START, STEP
from shmcoll.engine.layout import HEADER_EXPOSED, HEADER_RESULT
from shmcoll.engine.protocol.exposure import place_in_arena
from shmcoll.engine.protocol.nontemporal import copy_to_unread
from shmcoll.engine.protocol.reduction import reduce, scratch_length, slice_length
from shmcoll.engine.protocol.sync import (
    await_step,
    has_ended,
    header,
    my_header,
    peer_after,
    publish_and_await_step,
    publish_step,
)

X_PLACE, OUT_PLACE = HEADER_EXPOSED, HEADER_RESULT


def describe_arrays(ctx, sequence):
    """Write into this rank's header, before the opening, where its arrays are."""
    store(my_header(ctx, sequence) + X_PLACE, place_in_arena(ctx, peek(ctx + c.X + c.DATA)))
    store(my_header(ctx, sequence) + OUT_PLACE, place_in_arena(ctx, peek(ctx + c.OUT + c.DATA)))


def are_all_shared(ctx, sequence):
    """Return, after the opening, whether the arrays of all ranks are in the arena."""
    last = peek(ctx + c.ARENA_BYTES) - peek(ctx + c.X + c.BYTES) + 1
    for rank in range(peek(ctx + c.SIZE)):
        x, out = place(ctx, sequence, rank, X_PLACE), place(ctx, sequence, rank, OUT_PLACE)
        if not (0 < x <= last and 0 < out <= last):
            return 0
    return 1


def place(ctx, sequence, rank, which):
    return load(header(ctx, rank, sequence) + which)


def address(ctx, sequence, rank, which, offset):
    """Return the address, in this process, of byte `offset` of a rank's array."""
    return peek(ctx + c.ARENA) + place(ctx, sequence, rank, which) - 1 + offset


def reduce_shared(ctx, sequence):
    if not outs_are_disjoint(ctx, sequence):
        return c.OVERLAP
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    first, end = part(ctx, me), part(ctx, me + 1)
    length, block = slice_length(ctx), scratch_length(ctx)
    while first < end:
        j = first // length
        count = min(block, min(end, (j + 1) * length) - first)
        status = reduce_block(ctx, sequence, first * peek(ctx + c.X + c.ITEM), count, j % size)
        if status != c.OK:
            return status
        first += count
    publish_step(ctx, sequence, 1)
    status = copy_other_parts(ctx, sequence)
    if status != c.OK:
        return status
    return c.ABORTED if has_ended(ctx) else publish_and_await_step(ctx, sequence, 2)


def part(ctx, rank):
    """Return the first element of the part of a rank; for rank n the end."""
    size, total = peek(ctx + c.SIZE), peek(ctx + c.X + c.COUNT)
    return total // size * rank if rank < size else total


def copy_other_parts(ctx, sequence):
    """Copy the parts of all other ranks from their results, each after it has been published."""
    item = peek(ctx + c.X + c.ITEM)
    for i in range(1, peek(ctx + c.SIZE)):
        peer = peer_after(ctx, i)
        status = await_step(ctx, sequence, 1, peer)
        if status != c.OK:
            return status
        offset, end = part(ctx, peer) * item, part(ctx, peer + 1) * item
        target = peek(ctx + c.OUT + c.DATA) + offset
        copy_to_unread(ctx, target, address(ctx, sequence, peer, OUT_PLACE, offset), end - offset)
    return c.OK


def outs_are_disjoint(ctx, sequence):
    """Return whether no out overlaps an x or another out. It may be exactly the x of its own rank."""
    size, length = peek(ctx + c.SIZE), peek(ctx + c.X + c.BYTES)
    for a in range(size):
        out = place(ctx, sequence, a, OUT_PLACE)
        for b in range(size):
            x, other = place(ctx, sequence, b, X_PLACE), place(ctx, sequence, b, OUT_PLACE)
            if abs(out - x) < length and not (a == b and out == x):
                return 0
            if abs(out - other) < length and a != b:
                return 0
    return 1


def reduce_block(ctx, sequence, offset, count, start):
    """Reduce `count` elements from byte `offset` on, from rank `start` up and around, into this rank's result."""
    size, target = peek(ctx + c.SIZE), peek(ctx + c.OUT + c.DATA) + offset
    first = address(ctx, sequence, start, X_PLACE, offset)
    rank = start + 1 if start + 1 < size else 0
    if size == 2:
        return reduce(ctx, JOIN, target, first, address(ctx, sequence, rank, X_PLACE, offset), count)
    accumulator = peek(ctx + c.SCRATCH)
    status = reduce(ctx, START, accumulator, 0, first, count)
    for i in range(1, size):
        if status != c.OK:
            return status
        source = address(ctx, sequence, rank, X_PLACE, offset)
        if i < size - 1:
            status = reduce(ctx, STEP, 0, accumulator, source, count)
        else:
            status = reduce(ctx, FINISH, target, accumulator, source, count)
        rank = rank + 1 if rank + 1 < size else 0
    return status
