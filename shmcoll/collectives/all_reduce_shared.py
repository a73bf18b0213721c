"""all_reduce where every rank's x and out lie in the arena: each rank reduces its n-th part of all arrays from where
they lie into its own result, and then copies the other parts from the results of the others. Nothing goes through
cells, and nobody writes but into its own arrays.

    inline payload   of r's header: X_PLACE, OUT_PLACE, where r's arrays begin in the arena, plus 1; 0 for a private
                     one. Written before the opening by r alone. All see the same headers, so all go the same way
    x of any rank    part r is read by rank r alone, after the opening, before r's step 1
    out of rank r    part r is written by r before its step 1; the others after it has seen step 1 of the ranks whose
                     they are, who have then read them in r's x: so out may be the very x. An out that overlaps an x or
                     an out of any rank otherwise would be written while it is read; that is found from the headers,
                     and all refuse the call
    PROGRESS of r    step 1: part r is in r's result. Step 2: r has copied everything. Nobody leaves before all have
                     done step 2, because then it may change its arrays

But a rank leaves earlier when the group ends. A reader cannot see that what it reads is being changed; therefore it
looks whether the group has ended when it has read everything: who leaves ends the group first.

A rank waits for steps of ranks that wait for nobody in between: no cycle. The order of additions is that of the ring.
Cost: 3 a + S (b + g) / n + 2 S b, against the ring's copies into cells and out of them.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import load, peek, store
from shmcoll.engine.kernels.kernels import FINISH, JOIN, START, STEP
from shmcoll.engine.layout import HEADER_INLINE, WORD
from shmcoll.engine.protocol.nontemporal import replace
from shmcoll.engine.protocol.reduction import reduce, scratch_length, slice_length
from shmcoll.engine.protocol.sync import await_step, has_ended, header, my_header, publish_step, say_and_await

X_PLACE, OUT_PLACE = HEADER_INLINE, HEADER_INLINE + WORD


def offer(ctx, sequence):
    """Tell, before the opening, where this rank's arrays lie."""
    store(my_header(ctx, sequence) + X_PLACE, place_in_arena(ctx, peek(ctx + c.X + c.DATA)))
    store(my_header(ctx, sequence) + OUT_PLACE, place_in_arena(ctx, peek(ctx + c.OUT + c.DATA)))


def place_in_arena(ctx, address):
    offset = address - peek(ctx + c.ARENA)
    return offset + 1 if 0 <= offset < peek(ctx + c.ARENA_BYTES) else 0


def all_are_shared(ctx, sequence):
    """Whether, after the opening, the arrays of all ranks can be reached."""
    last = peek(ctx + c.ARENA_BYTES) - peek(ctx + c.X + c.BYTES) + 1
    for rank in range(peek(ctx + c.SIZE)):
        x, out = place(ctx, sequence, rank, X_PLACE), place(ctx, sequence, rank, OUT_PLACE)
        if not (0 < x <= last and 0 < out <= last):
            return 0
    return 1


def place(ctx, sequence, rank, which):
    return load(header(ctx, rank, sequence) + which)


def address(ctx, sequence, rank, which, offset):
    """Where byte `offset` of a rank's array lies for this rank."""
    return peek(ctx + c.ARENA) + place(ctx, sequence, rank, which) - 1 + offset


def reduce_shared(ctx, sequence):
    if not outs_lie_apart(ctx, sequence):
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
    status = copy_the_others(ctx, sequence)
    if status != c.OK:
        return status
    return c.ABORTED if has_ended(ctx) else say_and_await(ctx, sequence, 2)


def part(ctx, rank):
    """First element of the part of a rank; that of rank n is the end."""
    size, total = peek(ctx + c.SIZE), peek(ctx + c.X + c.COUNT)
    return total // size * rank if rank < size else total


def copy_the_others(ctx, sequence):
    """Copy the parts of all other ranks from their results, each once it is there."""
    size, me, item = peek(ctx + c.SIZE), peek(ctx + c.RANK), peek(ctx + c.X + c.ITEM)
    for i in range(1, size):
        peer = me + i if me + i < size else me + i - size
        status = await_step(ctx, sequence, 1, peer)
        if status != c.OK:
            return status
        offset, end = part(ctx, peer) * item, part(ctx, peer + 1) * item
        target = peek(ctx + c.OUT + c.DATA) + offset
        replace(ctx, target, address(ctx, sequence, peer, OUT_PLACE, offset), end - offset)
    return c.OK


def outs_lie_apart(ctx, sequence):
    """Whether no out overlaps an x or another out, but for being the x of its own rank."""
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
