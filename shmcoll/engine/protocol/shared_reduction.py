"""Reductions of arrays that are all in the arena: a rank reads the elements of every rank where they are.

Before the opening each rank notes in its header where x is (`exposure.py`). If the x of every rank is in the arena, all
ranks see that, and they use an algorithm without copies into cells. The order of additions is that of
`reduction.py`.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import load, peek
from shmcoll.engine.kernels.kernels import FINISH, JOIN, START, STEP, STORE
from shmcoll.engine.layout import HEADER_EXPOSED
from shmcoll.engine.protocol.reduction import reduce, scratch_length, slice_length
from shmcoll.engine.protocol.sync import header


def are_all_in_arena(ctx, sequence, length):
    """Return, after the opening, whether the x of all ranks, of so many bytes each, are in the arena."""
    last = peek(ctx + c.ARENA_BYTES) - length + 1
    for rank in range(peek(ctx + c.SIZE)):
        if not 0 < load(header(ctx, rank, sequence) + HEADER_EXPOSED) <= last:
            return 0
    return 1


def source(ctx, sequence, rank, first):
    """Return the address, in this process, of element `first` of the x of a rank."""
    place = load(header(ctx, rank, sequence) + HEADER_EXPOSED)
    return peek(ctx + c.ARENA) + place - 1 + first * peek(ctx + c.X + c.ITEM)


def fold_shared_slices(ctx, sequence, target, first, end):
    """Reduce elements [first, end) of all ranks, each slice from its first rank on, to their places in `target`."""
    length, size = slice_length(ctx), peek(ctx + c.SIZE)
    while first < end:
        j = first // length
        count = min(end, (j + 1) * length) - first
        status = fold_shared(ctx, sequence, target + first * peek(ctx + c.X + c.ITEM), first, count, j % size, size)
        if status != c.OK:
            return status
        first += count
    return c.OK


def fold_shared(ctx, sequence, target, first, count, start, ranks):
    """Reduce `count` elements from element `first` on, of `ranks` ranks, from rank `start` on and past the last to
    rank 0, into `target`."""
    block = scratch_length(ctx)
    for done in range(0, count, block):
        place = target + done * peek(ctx + c.X + c.ITEM)
        status = fold_shared_block(ctx, sequence, place, first + done, min(block, count - done), start, ranks)
        if status != c.OK:
            return status
    return c.OK


def fold_shared_block(ctx, sequence, target, first, count, start, ranks):
    """Do the same for at most `scratch_length` elements."""
    size, accumulator = peek(ctx + c.SIZE), peek(ctx + c.SCRATCH)
    one = source(ctx, sequence, start, first)
    rank = start + 1 if start + 1 < size else 0
    if ranks == 2:
        return reduce(ctx, JOIN, target, one, source(ctx, sequence, rank, first), count)
    status = reduce(ctx, START, accumulator, 0, one, count)
    if ranks == 1:
        return reduce(ctx, STORE, target, accumulator, 0, count)
    for i in range(1, ranks):
        if status != c.OK:
            return status
        another = source(ctx, sequence, rank, first)
        if i < ranks - 1:
            status = reduce(ctx, STEP, 0, accumulator, another, count)
        else:
            status = reduce(ctx, FINISH, target, accumulator, another, count)
        rank = rank + 1 if rank + 1 < size else 0
    return status
