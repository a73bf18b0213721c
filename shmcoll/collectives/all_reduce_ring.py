"""The ring algorithm of all_reduce and reduce.

In round k there are n slices, one accumulating in the cell of each rank. In step t rank r adds its own elements to
slice r - t: in step 0 it writes its own cell, in step n - 1 it finishes slice r + 1. Rank r waits in step t only for
step t - 1 of rank r - 1.

    cell of rank j, round k: written in turn by ranks j, j + 1, ..., j - 1, each after it has seen the step before;
    then read by the ranks that get the result. The last round uses cell t & 1, so that the next operation may fill cell
    (t + 1) & 1.

all_reduce: rank r writes the finished slice r + 1 into its result and into the cell. All other ranks copy it from
there. Round k + 2 writes the cell again: a rank that has finished round k + 1 has seen all steps of round k + 1 of all
ranks, and those follow their reads of round k.

In all_reduce a cell does not move on, and it is written by plain stores (`engine/protocol/cells.py`): a line comes back
to each rank before that rank writes it again, and so is not taken from a cache that only reads it.

reduce: the finished slice stays in the cell, wide, and the root brings it to its result, narrowed if more than two
ranks have added to it. The slice that the root itself finishes goes straight into its result. Rank j writes its cell in
round k + 2 after it has finished round k + 1. For that it waited for step n - 2 of rank j - 1, which waited for step
n - 3 of j - 2, and so on around the ring. So every rank had done step 0 of round k + 1. The root does that step after
it has read round k. By the same chain a rank that leaves knows that the root has read cell (t + 1) & 1, which the next
operation may fill at once.

No rank waits forever: each step waits only for an earlier step of another rank.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek
from shmcoll.engine.kernels.kernels import STEP, STORE
from shmcoll.engine.protocol.cells import cell_of_round
from shmcoll.engine.protocol.nontemporal import copy_to_result
from shmcoll.engine.protocol.reduction import (
    ALL,
    accumulator_bytes,
    finish_slice,
    gets_result,
    reduce_slice,
    slice_length,
    start_slice,
)
from shmcoll.engine.protocol.sync import await_step, peer_after, peer_before, publish_step
from shmcoll.engine.protocol.team import copy_in_parts


def reduce_in_ring(ctx, turn, root):
    """Reduce the arrays of all ranks, after the opening, into the result of `root`, or of ALL."""
    length = slice_length(ctx)
    rounds = -(-peek(ctx + c.X + c.COUNT) // (peek(ctx + c.SIZE) * length))
    for k in range(rounds):
        status = accumulate(ctx, turn, k, rounds, length, root)
        if status != c.OK:
            return status
        status = finish(ctx, turn, k, rounds, length, root)
        if status == c.OK and gets_result(ctx, root):
            status = collect(ctx, turn, k, rounds, length, root)
        if status != c.OK:
            return status
    return c.OK


def accumulate(ctx, turn, k, rounds, length, root):
    """Do all steps of round k except the last: start one slice, and add this rank's elements to n - 2 others."""
    size, left = peek(ctx + c.SIZE), peer_before(ctx, 1)
    item = peek(ctx + c.X + c.ITEM)
    for t in range(size - 1):
        j = peer_before(ctx, t)
        first, count = slice_bounds(ctx, k, j, length)
        place = slice_cell(ctx, turn, k, rounds, j, length, root)
        source = peek(ctx + c.X + c.DATA) + first * item
        if t == 0:
            status = start_slice(ctx, place, source, count, root == ALL)
        else:
            status = await_step(ctx, turn, k * size + t, left)
            if status != c.OK:
                return status
            status = reduce_slice(ctx, STEP, 0, place, source, count)
        if status != c.OK:
            return status
        publish_step(ctx, turn, k * size + t + 1)
    return c.OK


def finish(ctx, turn, k, rounds, length, root):
    """Do the last step of round k: this rank's elements are the last to be added to slice r + 1."""
    size, item = peek(ctx + c.SIZE), peek(ctx + c.X + c.ITEM)
    status = await_step(ctx, turn, (k + 1) * size - 1, peer_before(ctx, 1))
    if status != c.OK:
        return status
    j = peer_after(ctx, 1)
    first, count = slice_bounds(ctx, k, j, length)
    place = slice_cell(ctx, turn, k, rounds, j, length, root)
    source = peek(ctx + c.X + c.DATA) + first * item
    if gets_result(ctx, root):
        result = peek(ctx + c.OUT + c.DATA) + first * item
        status = finish_slice(ctx, result, place, source, count)
        if status == c.OK and root == ALL:
            copy_in_parts(ctx, place, result, count * item)
    elif size == 2:
        status = finish_slice(ctx, place, place, source, count)
    else:
        status = reduce_slice(ctx, STEP, 0, place, source, count)
    if status == c.OK:
        publish_step(ctx, turn, (k + 1) * size)
    return status


def collect(ctx, turn, k, rounds, length, root):
    """Bring the slices that other ranks have finished in round k to the result."""
    size, item = peek(ctx + c.SIZE), peek(ctx + c.X + c.ITEM)
    for i in range(1, size):
        status = await_step(ctx, turn, (k + 1) * size, peer_after(ctx, i))
        if status != c.OK:
            return status
        j = peer_after(ctx, i + 1)
        first, count = slice_bounds(ctx, k, j, length)
        result = peek(ctx + c.OUT + c.DATA) + first * item
        place = slice_cell(ctx, turn, k, rounds, j, length, root)
        if root == ALL or size == 2:
            copy_to_result(ctx, result, place, count * item)
        else:
            reduce_slice(ctx, STORE, result, place, 0, count)
    return c.OK


def slice_cell(ctx, turn, k, rounds, j, length, root):
    """Return the address of the cell of rank j in round k. The last round uses window s & 1."""
    length = 0 if root == ALL else length * accumulator_bytes(ctx)
    return cell_of_round(ctx, j, turn, rounds - 1 - k, rounds, length)


def slice_bounds(ctx, k, j, length):
    """Return the first element and the number of elements of slice j in round k; 0 elements past the end."""
    total = peek(ctx + c.X + c.COUNT)
    first = min((k * peek(ctx + c.SIZE) + j) * length, total)
    return first, min(length, total - first)
