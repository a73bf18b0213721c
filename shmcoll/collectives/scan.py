"""scan: rank r gets the element-wise reduction of the arrays of ranks 0, 1, ..., r, in that order (MPI_Scan).

flat, up to FLAT_BYTES. Everybody lays its array beside its header or into its cell before the opening sync; rank r then
reduces the first r + 1 of them. Cost: a + S b + r S g.

chain, above: a pipeline. The array is cut into m slices. The partial result of slice i lies, wide, in slot i mod 2 n
and goes from rank to rank: rank 0 starts it, rank r adds its own and keeps a copy, narrowed, as its result; that of the
last rank goes straight to its result. With m slices of S / m bytes the cost is (m + n - 1) (a + S / m (b + g)).

    Slots are the halves of the cells s & 1: 2 n of them, so that all ranks can work at once, and the first be ahead.
    Slot of slice i: written by ranks 0, 1, ..., n - 2 in turn and read by n - 1, each after step i + 1 of the one
    before it (PROGRESS counts slices). Rank 0 starts slice i + 2 n there after step i + 1 of rank n - 1. Cells
    (s + 1) & 1 are not used, so the next operation may fill them at once; the one after it fills ours when all have
    left.
    Nobody waits for ever: the waits for one slice are for the rank before, rank 0's for a slice begun earlier.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek
from shmcoll.engine.collective import ALIKE, REDUCING, SHAPE, Collective
from shmcoll.engine.kernels.kernels import FINISH, START, STEP, STORE
from shmcoll.engine.protocol.reduction import (
    SHORTEST_SLICE,
    SLICE_UNIT,
    accumulator_bytes,
    fold,
    is_flat,
    reduce,
    reduce_alone,
    shortest_slice,
)
from shmcoll.engine.protocol.sync import await_step, begin, cell, meet, payload, publish_step

COVERS = SHAPE
ALGORITHMS = ("flat", "chain")
FLAT, CHAIN = range(1, 3)

FILLINGS = 4  # the array is cut so that every rank has about so many slices for each of filling and emptying the pipe


def scan(ctx):
    sequence = begin(ctx, COVERS)
    if peek(ctx + c.SIZE) == 1:
        return reduce_alone(ctx)
    if is_flat(ctx, FLAT, peek(ctx + c.X + c.BYTES)):
        return flat(ctx, sequence, peek(ctx + c.RANK) + 1)
    status = meet(ctx, sequence)
    if status != c.OK:
        return status
    length = link_length(ctx)
    for i in range(-(-peek(ctx + c.X + c.COUNT) // length)):
        status = await_slice(ctx, sequence, i)
        if status != c.OK:
            return status
        status = add_own(ctx, i, slot(ctx, sequence, i), length)
        if status != c.OK:
            return status
        publish_step(ctx, sequence, i + 1)
    return c.OK


def add_own(ctx, i, place, length):
    """This rank's part in slice i, whose partial result lies at `place`."""
    me = peek(ctx + c.RANK)
    count = min(length, peek(ctx + c.X + c.COUNT) - i * length)
    offset = i * length * peek(ctx + c.X + c.ITEM)
    source, result = peek(ctx + c.X + c.DATA) + offset, peek(ctx + c.OUT + c.DATA) + offset
    if me == peek(ctx + c.SIZE) - 1:
        return reduce(ctx, FINISH, result, place, source, count)
    if me == 0:
        status = reduce(ctx, START, place, 0, source, count)
    else:
        status = reduce(ctx, STEP, 0, place, source, count)
    return reduce(ctx, STORE, result, place, 0, count) if status == c.OK else status


# --- what exscan does alike -------------------------------------------------------------------------------------------


def flat(ctx, sequence, ranks):
    """Reduce the arrays of ranks 0, 1, ..., `ranks` - 1 from where they were laid before the opening."""
    length = peek(ctx + c.X + c.BYTES)
    copy(payload(ctx, peek(ctx + c.RANK), sequence, length), peek(ctx + c.X + c.DATA), length)
    status = meet(ctx, sequence)
    if status != c.OK or ranks == 0:
        return status
    places = payload(ctx, 0, sequence, length)
    stride = payload(ctx, 1, sequence, length) - places
    return fold(ctx, peek(ctx + c.OUT + c.DATA), places, stride, peek(ctx + c.X + c.COUNT), 0, ranks)


def link_length(ctx):
    """Elements of a slice of the chain: at most half a cell, less for a short pipe to fill soon."""
    longest = min(peek(ctx + c.SLICE_BYTES), peek(ctx + c.CELL_BYTES) // 2) // accumulator_bytes(ctx)
    even = -(-peek(ctx + c.X + c.COUNT) // (FILLINGS * peek(ctx + c.SIZE)))
    usual = min(max(-(-even // SLICE_UNIT) * SLICE_UNIT, SHORTEST_SLICE), longest)
    return max(usual, shortest_slice(peek(ctx + c.X + c.COUNT)))


def slot(ctx, sequence, i):
    """Where the partial result of slice i lies."""
    number = i % (2 * peek(ctx + c.SIZE))
    return cell(ctx, number // 2, sequence) + (number & 1) * (peek(ctx + c.CELL_BYTES) // 2)


def await_slice(ctx, sequence, i):
    """Wait until this rank may work on slice i: rank 0 until its slot is free, the others until the one before has."""
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    if me > 0:
        return await_step(ctx, sequence, i + 1, me - 1)
    if i < 2 * size:
        return c.OK
    return await_step(ctx, sequence, i - 2 * size + 1, size - 1)


COLLECTIVE = Collective(scan, code=11, form=REDUCING | ALIKE, covers=COVERS, algorithms=ALGORITHMS, plans=True)
