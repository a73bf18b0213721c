"""all_reduce: every rank gets the element-wise reduction of all ranks' arrays, of equal shape and dtype.

Order of operations. The array is cut into slices; slice j is reduced starting from rank j mod n and going up, whichever
algorithm runs, so that the result's bits depend on n, the count, the dtype and the arena's thresholds alone.

Up to FLAT_BYTES: flat. Everybody lays its array beside its header (48 bytes) or into its cell before the opening sync
and afterwards reduces all n arrays itself. One sync. Cost: a + S b + (n - 1) S g.

Above: the ring in shared memory ("movement-avoiding reduction", Peng et al., SC'23). In each round there are n slices,
one accumulating in the cell of each rank. In step t rank r adds its private block to slice r - t: in step 0 it writes
its own cell, in step n - 1 it finishes slice r + 1, straight into its result and the cell, from where the others copy
it. No rank copies its whole array in. Rank r waits in step t for step t - 1 of rank r - 1 alone.
Cost for each round of n slices: n a + (2 n slice) b + (n slice) g.

    cell of rank j, round k: written in turn by ranks j, j + 1, ..., j - 1, each after it has seen the step before;
    then read by all. Round k + 2 writes it again: who has finished round k + 1 has seen all steps of k + 1 of all
    ranks, and those come after their reads of round k. The last round uses cell s & 1, so that the next operation may
    fill cell (s + 1) & 1.
"""

from shmcoll.dtypes import BY_NAME
from shmcoll.engine import context as c
from shmcoll.engine.atomics import call_kernel, copy, peek
from shmcoll.engine.kernels import FINISH, START, STEP
from shmcoll.engine.sync import await_step, begin, cell, meet, payload, publish_step

FLOAT16, BFLOAT16 = BY_NAME["float16"].code, BY_NAME["bfloat16"].code
SLICE_UNIT = 64  # elements: slices start on cache lines
SHORTEST_SLICE = 1024  # elements


def all_reduce(ctx):
    sequence = begin(ctx, 1)
    if peek(ctx + c.SIZE) == 1:
        copy_unless_same(peek(ctx + c.OUT + c.DATA), peek(ctx + c.X + c.DATA), peek(ctx + c.X + c.BYTES))
        return c.OK
    if peek(ctx + c.X + c.BYTES) <= peek(ctx + c.FLAT_BYTES):
        return flat(ctx, sequence)
    return ring(ctx, sequence)


def flat(ctx, sequence):
    length = peek(ctx + c.X + c.BYTES)
    copy(payload(ctx, peek(ctx + c.RANK), sequence, length), peek(ctx + c.X + c.DATA), length)
    status = meet(ctx, sequence)
    if status != c.OK or length == 0:
        return status
    count = peek(ctx + c.X + c.COUNT)
    slice_count = slice_length(ctx)
    block = scratch_length(ctx)
    first, start = 0, 0
    while first < count:
        end = min(first + slice_count, count)
        while first < end:
            elements = min(block, end - first)
            fold(ctx, sequence, first, elements, start)
            first += elements
        start = start + 1 if start + 1 < peek(ctx + c.SIZE) else 0
    return c.OK


def fold(ctx, sequence, first, count, start):
    """Reduce elements [first, first + count) of all payloads into the result, rank `start` first."""
    size = peek(ctx + c.SIZE)
    kernel = peek(ctx + c.KERNEL)
    length = peek(ctx + c.X + c.BYTES)
    item = peek(ctx + c.X + c.ITEM)
    offset = first * item
    accumulator = payload(ctx, start, sequence, length) + offset
    if size > 2 or accumulator_bytes(ctx) != item:
        source, accumulator = accumulator, peek(ctx + c.SCRATCH)
        call_kernel(kernel, START, accumulator, 0, source, count, size)
    rank = start
    for i in range(1, size):
        rank = rank + 1 if rank + 1 < size else 0
        source = payload(ctx, rank, sequence, length) + offset
        if i < size - 1:
            call_kernel(kernel, STEP, 0, accumulator, source, count, size)
        else:
            call_kernel(kernel, FINISH, peek(ctx + c.OUT + c.DATA) + offset, accumulator, source, count, size)


def ring(ctx, sequence):
    status = meet(ctx, sequence)
    if status != c.OK:
        return status
    size = peek(ctx + c.SIZE)
    length = slice_length(ctx)
    rounds = -(-peek(ctx + c.X + c.COUNT) // (size * length))
    for k in range(rounds):
        half = sequence + rounds - 1 - k
        status = accumulate(ctx, sequence, k, half, length)
        if status != c.OK:
            return status
        status = copy_out(ctx, sequence, k, half, length)
        if status != c.OK:
            return status
    return c.OK


def accumulate(ctx, sequence, k, half, length):
    """The n steps of round k: add this rank's block to each slice as it comes by."""
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    left = me - 1 if me > 0 else size - 1
    kernel, item = peek(ctx + c.KERNEL), peek(ctx + c.X + c.ITEM)
    for t in range(size):
        j = me - t if me >= t else me - t + size
        first, count = slice_bounds(ctx, k, j, length)
        place = cell(ctx, j, half)
        source = peek(ctx + c.X + c.DATA) + first * item
        if t == 0:
            call_kernel(kernel, START, place, 0, source, count, size)
        else:
            status = await_step(ctx, sequence, k * size + t, left)
            if status != c.OK:
                return status
            if t < size - 1:
                call_kernel(kernel, STEP, 0, place, source, count, size)
            else:
                result = peek(ctx + c.OUT + c.DATA) + first * item
                call_kernel(kernel, FINISH, result, place, source, count, size)
                copy(place, result, count * item)
        publish_step(ctx, sequence, k * size + t + 1)
    return c.OK


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
        copy(peek(ctx + c.OUT + c.DATA) + first * item, cell(ctx, j, half), count * item)
    return c.OK


def slice_length(ctx):
    """Elements of a slice: as few rounds as SLICE_BYTES allows, evenly filled."""
    count, size = peek(ctx + c.X + c.COUNT), peek(ctx + c.SIZE)
    longest = peek(ctx + c.SLICE_BYTES) // accumulator_bytes(ctx)
    rounds = -(-count // (size * longest))
    even = -(-count // (size * max(rounds, 1)))
    return min(max(-(-even // SLICE_UNIT) * SLICE_UNIT, SHORTEST_SLICE), longest)


def slice_bounds(ctx, k, j, length):
    """First element and number of elements of slice j in round k; none behind the end."""
    total = peek(ctx + c.X + c.COUNT)
    first = min((k * peek(ctx + c.SIZE) + j) * length, total)
    return first, min(length, total - first)


def accumulator_bytes(ctx):
    dtype = peek(ctx + c.X + c.DTYPE)
    return 4 if dtype in (FLOAT16, BFLOAT16) else peek(ctx + c.X + c.ITEM)


def scratch_length(ctx):
    """Elements that the scratch memory holds."""
    return c.SCRATCH_BYTES // accumulator_bytes(ctx)


def copy_unless_same(target, source, length):
    if target != source:
        copy(target, source, length)
