"""exscan: rank r gets the element-wise reduction of the arrays of ranks 0, 1, ..., r - 1, in that order; rank 0 gets
nothing (MPI_Exscan).

The algorithms of `scan.py` and its protocol, one array less at each rank: rank r keeps what has come to it and then
adds its own; the last rank adds nothing. In the chain a rank in between takes each block through its scratch memory, so
that its array may be its result. Cost: that of scan, and in the chain S b more.
"""

from shmcoll.collectives.scan import ALGORITHMS, FLAT, await_slice, flat, link_length, slot
from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek
from shmcoll.engine.collective import ALIKE, NO_OUT_AT_0, REDUCING, SHAPE, Collective
from shmcoll.engine.kernels.kernels import START, STEP, STORE
from shmcoll.engine.protocol.reduction import accumulator_bytes, is_flat, reduce, scratch_length
from shmcoll.engine.protocol.sync import begin, meet, publish_step

COVERS = SHAPE


def exscan(ctx):
    sequence = begin(ctx, COVERS)
    if peek(ctx + c.SIZE) == 1:
        return c.OK
    if is_flat(ctx, FLAT, peek(ctx + c.X + c.BYTES)):
        return flat(ctx, sequence, peek(ctx + c.RANK))
    status = meet(ctx, sequence)
    if status != c.OK:
        return status
    length = link_length(ctx)
    for i in range(-(-peek(ctx + c.X + c.COUNT) // length)):
        status = await_slice(ctx, sequence, i)
        if status != c.OK:
            return status
        status = keep_and_add(ctx, i, slot(ctx, sequence, i), length)
        if status != c.OK:
            return status
        publish_step(ctx, sequence, i + 1)
    return c.OK


def keep_and_add(ctx, i, place, length):
    """This rank's part in slice i, whose partial result lies at `place`."""
    me, item = peek(ctx + c.RANK), peek(ctx + c.X + c.ITEM)
    count = min(length, peek(ctx + c.X + c.COUNT) - i * length)
    source = peek(ctx + c.X + c.DATA) + i * length * item
    result = peek(ctx + c.OUT + c.DATA) + i * length * item
    if me == 0:
        return reduce(ctx, START, place, 0, source, count)
    if me == peek(ctx + c.SIZE) - 1:
        return reduce(ctx, STORE, result, place, 0, count)
    wide, scratch, block = accumulator_bytes(ctx), peek(ctx + c.SCRATCH), scratch_length(ctx)
    for first in range(0, count, block):
        several = min(block, count - first)
        copy(scratch, place + first * wide, several * wide)
        status = reduce(ctx, STEP, 0, place + first * wide, source + first * item, several)
        if status != c.OK:
            return status
        reduce(ctx, STORE, result + first * item, scratch, 0, several)
    return c.OK


COLLECTIVE = Collective(
    exscan, code=12, form=REDUCING | ALIKE | NO_OUT_AT_0, covers=COVERS, algorithms=ALGORITHMS, plans=True
)
