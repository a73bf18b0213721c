"""reduce: the root gets the element-wise reduction of all ranks' arrays, of equal shape and dtype; the others nothing.

The three algorithms of `all_reduce.py` with the same bits, but that the root alone takes the result:

flat, up to FLAT_BYTES. Everybody lays its array beside its header or into its cell before the opening sync; the root
reduces all n arrays. Cost: a + S b, and (n - 1) S g at the root.

ring, above. The steps of a round are those of all_reduce: the slice that accumulates in the cell of rank j is started
by j and added to by j + 1, ..., j - 1. It stays there, for the root to bring to its result, narrowed if more than two
ranks have added to it; the one that the root itself comes last to goes straight there. Cost for each round of n slices:
n a + slice b + (n - 1) slice g, and another (n - 1) slice b at the root.

    cell of rank j, round k: written in turn by ranks j, ..., j - 1, each after it has seen the step before, then read
    by the root. Rank j starts round k + 2 there when it has finished round k + 1, for which it waited for step n - 2
    of rank j - 1, which had waited for step n - 3 of j - 2, and so on all around: every rank had done step 0 of round
    k + 1, the root too, which does so when it has read round k. The last round uses cell s & 1: who leaves knows by the
    same that the root has read cell (s + 1) & 1, which the next operation may fill at once.

cells, for operators that are not commutative and up to (n - 2) RING_BYTES: that of all_reduce; the root alone collects
the parts. (It says so by its next step, for which all wait.)

Argument: ARGUMENT is the root.
"""

from shmcoll.collectives.all_reduce import accumulate, cells, fold_payloads, slice_bounds
from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek
from shmcoll.engine.collective import ALIKE, OUT_AT_ROOT, REDUCING, ROOTED, SHAPE, Collective
from shmcoll.engine.kernels.kernels import STEP, STORE
from shmcoll.engine.protocol.nontemporal import land
from shmcoll.engine.protocol.reduction import finish_slice, goes_through_cells, is_flat, reduce_alone, slice_length
from shmcoll.engine.protocol.reduction import reduce as apply
from shmcoll.engine.protocol.sync import await_step, begin, cell, meet, payload, publish_step

COVERS = SHAPE
ALGORITHMS = ("flat", "ring", "cells")
FLAT, RING, CELLS = range(1, 4)


def reduce(ctx):
    sequence = begin(ctx, COVERS)
    if peek(ctx + c.SIZE) == 1:
        return reduce_alone(ctx)
    if is_flat(ctx, FLAT, peek(ctx + c.X + c.BYTES)):
        return flat(ctx, sequence)
    if goes_through_cells(ctx, CELLS, peek(ctx + c.X + c.BYTES)):
        return cells(ctx, sequence, is_root(ctx))
    return ring(ctx, sequence)


def is_root(ctx):
    return peek(ctx + c.RANK) == peek(ctx + c.ARGUMENT)


def flat(ctx, sequence):
    length = peek(ctx + c.X + c.BYTES)
    copy(payload(ctx, peek(ctx + c.RANK), sequence, length), peek(ctx + c.X + c.DATA), length)
    status = meet(ctx, sequence)
    if status != c.OK or length == 0 or not is_root(ctx):
        return status
    return fold_payloads(ctx, sequence, length)


def ring(ctx, sequence):
    status = meet(ctx, sequence)
    if status != c.OK:
        return status
    length = slice_length(ctx)
    rounds = -(-peek(ctx + c.X + c.COUNT) // (peek(ctx + c.SIZE) * length))
    for k in range(rounds):
        half = sequence + rounds - 1 - k
        status = accumulate(ctx, sequence, k, half, length)
        if status != c.OK:
            return status
        status = finish(ctx, sequence, k, half, length)
        if status == c.OK and is_root(ctx):
            status = collect(ctx, sequence, k, half, length)
        if status != c.OK:
            return status
    return c.OK


def finish(ctx, sequence, k, half, length):
    """The last step of round k: this rank's block comes last to slice r + 1."""
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    j = me + 1 if me + 1 < size else 0
    status = await_step(ctx, sequence, (k + 1) * size - 1, me - 1 if me > 0 else size - 1)
    if status != c.OK:
        return status
    first, count = slice_bounds(ctx, k, j, length)
    offset = first * peek(ctx + c.X + c.ITEM)
    source = peek(ctx + c.X + c.DATA) + offset
    place = cell(ctx, j, half)
    if is_root(ctx):
        status = finish_slice(ctx, peek(ctx + c.OUT + c.DATA) + offset, place, source, count)
    elif size == 2:
        status = finish_slice(ctx, place, place, source, count)
    else:
        status = apply(ctx, STEP, 0, place, source, count)
    if status == c.OK:
        publish_step(ctx, sequence, (k + 1) * size)
    return status


def collect(ctx, sequence, k, half, length):
    """The root takes the slices that the others have been last to in round k."""
    size, me, item = peek(ctx + c.SIZE), peek(ctx + c.RANK), peek(ctx + c.X + c.ITEM)
    for i in range(1, size):
        finisher = me + i if me + i < size else me + i - size
        j = finisher + 1 if finisher + 1 < size else 0
        status = await_step(ctx, sequence, (k + 1) * size, finisher)
        if status != c.OK:
            return status
        first, count = slice_bounds(ctx, k, j, length)
        result = peek(ctx + c.OUT + c.DATA) + first * item
        if size == 2:
            land(ctx, result, cell(ctx, j, half), count * item)
        else:
            apply(ctx, STORE, result, cell(ctx, j, half), 0, count)
    return c.OK


COLLECTIVE = Collective(
    reduce, code=6, form=ROOTED | OUT_AT_ROOT | REDUCING | ALIKE, covers=COVERS, algorithms=ALGORITHMS, plans=True
)
