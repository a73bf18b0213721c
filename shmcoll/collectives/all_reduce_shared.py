"""all_reduce of shared arrays, if x and out of every rank are in the arena: each rank reduces its n-th part of all
arrays in place into its own result, and copies the other parts from the results of the other ranks. Nothing goes
through cells, and each rank writes only into its own arrays. The order of additions is that of the ring. Long parts are
cut into pieces: the other ranks copy a piece while it is in a cache, and not from memory.
Cost for each piece: 2 a + piece (b + n g) + (n - 1) piece b.

Protocol:

    inline payload   of r's header: X_PLACE and OUT_PLACE, where r's arrays begin in the arena, plus 1; 0 for a private
                     array. Only r writes them, before the opening. All ranks see the same headers, so all ranks choose
                     the same algorithm
    x of any rank    rank r alone reads piece k of part r, after the opening and before its step k + 1
    out of rank r    r writes piece k of part r before its step k + 1. It writes that piece of the part of another rank
                     after it has seen step k + 1 of that rank, which has then read this piece of r's x. So out may be
                     exactly x. An out that overlaps an x or an out of any rank in another way would be written while
                     it is read. All ranks find that from the headers and refuse the call
    PROGRESS of r    step k + 1: piece k of part r is in r's result. One more step after the last piece: r has copied
                     everything. No rank leaves before all ranks have done that, because a rank that has left may
                     change its arrays

But a rank leaves earlier if the group ends. A reader cannot see that what it reads is being changed. So after it has
read everything, it checks whether the group has ended: a rank that leaves ends the group first.

A rank waits only for steps before which other ranks do not wait for it, so there is no cycle.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import load, peek, store
from shmcoll.engine.layout import HEADER_EXPOSED, HEADER_RESULT
from shmcoll.engine.protocol.exposure import end_exposure, place_in_arena
from shmcoll.engine.protocol.nontemporal import copy_to_unread
from shmcoll.engine.protocol.reduction import shortest_slice
from shmcoll.engine.protocol.shared_reduction import fold_shared_slices
from shmcoll.engine.protocol.sync import (
    await_step,
    header,
    my_header,
    peer_after,
    publish_step,
)

X_PLACE, OUT_PLACE = HEADER_EXPOSED, HEADER_RESULT

PIECE_BYTES = 1 << 20  # of a part


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
    me, size, out = peek(ctx + c.RANK), peek(ctx + c.SIZE), peek(ctx + c.OUT + c.DATA)
    pieces = -(-(part(ctx, size) - part(ctx, size - 1)) // piece_length(ctx))  # of the longest part, which is the last
    for k in range(pieces + 1):
        if k < pieces:
            status = fold_shared_slices(ctx, sequence, out, piece(ctx, me, k), piece(ctx, me, k + 1))
            if status != c.OK:
                return status
            publish_step(ctx, sequence, k + 1)
        if k > 0:
            status = copy_other_pieces(ctx, sequence, k - 1)
            if status != c.OK:
                return status
    return end_exposure(ctx, sequence, pieces + 1)


def part(ctx, rank):
    """Return the first element of the part of a rank; for rank n the end."""
    size, total = peek(ctx + c.SIZE), peek(ctx + c.X + c.COUNT)
    return total // size * rank if rank < size else total


def piece(ctx, rank, k):
    """Return the first element of piece k of the part of a rank, or the end of the part."""
    return min(part(ctx, rank) + k * piece_length(ctx), part(ctx, rank + 1))


def piece_length(ctx):
    return max(PIECE_BYTES // peek(ctx + c.X + c.ITEM), shortest_slice(peek(ctx + c.X + c.COUNT)))


def copy_other_pieces(ctx, sequence, k):
    """Copy piece k of the parts of all other ranks from their results, each after it has been published."""
    item = peek(ctx + c.X + c.ITEM)
    for i in range(1, peek(ctx + c.SIZE)):
        peer = peer_after(ctx, i)
        status = await_step(ctx, sequence, k + 1, peer)
        if status != c.OK:
            return status
        offset, end = piece(ctx, peer, k) * item, piece(ctx, peer, k + 1) * item
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
