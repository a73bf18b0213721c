"""The algorithms of scan and exscan: rank r reduces the arrays of the ranks before it; scan includes its own.

chain: the array is cut into slices. The partial result of slice i is kept, in the accumulator's type, in slot i mod 2 n
and passes from rank to rank: rank 0 starts it, and every other rank adds its own elements. In scan a rank adds, then
copies the partial result, narrowed, to its own result; the last rank writes the sum straight to its result. Rank 0
copies its own elements once it has passed them on. In exscan a rank copies the partial result first and adds
afterwards, through its scratch memory, so that its result may replace its array; the last rank adds nothing. Between
two ranks, the slots have the elements of rank 0 as they are.

    The slots are the halves of the cells t & 1 of turn t. There are 2 n of them, so that all ranks can work at once,
    and the first rank can be ahead. Slot of slice i: written by ranks 0, 1, ..., n - 2 in turn and read by n - 1, each
    after step i + 1 of the rank before it (PROGRESS counts slices). Rank 0 starts slice i + 2 n there after step i + 1
    of rank n - 1. Cells (t + 1) & 1 are not used, so the next turn may fill them at once. The turn after that
    fills the slots only after all ranks have left this one.

flat: few bytes; see `prefix_flat.py`.

direct: if x of every rank is in the arena, no rank works in place, and there are at most MOST_DIRECT ranks. Each rank
reduces the arrays where they are, and leaves after all ranks have read its array (`engine/protocol/exposure.py`).

No rank waits forever: in the chain a rank waits for the rank before it to finish the same slice, and rank 0 waits for a
slice that it has begun earlier.
"""

from shmcoll.collectives.prefix_flat import flat
from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek
from shmcoll.engine.kernels.kernels import STEP, STORE
from shmcoll.engine.layout import HEADER_EXPOSED, WORD
from shmcoll.engine.protocol.cells import cell_of_round
from shmcoll.engine.protocol.exposure import (
    are_all_in_arena,
    end_exposure,
    expose_in_arena,
    results_are_apart,
    works_in_place,
)
from shmcoll.engine.protocol.reduction import (
    EXPOSED,
    SHORTEST_SLICE,
    SLICE_UNIT,
    accumulator_bytes,
    chosen,
    finish_slice,
    fold,
    has_truth_values,
    is_flat,
    reduce,
    scratch_length,
    shortest_slice,
    start_slice,
)
from shmcoll.engine.protocol.sync import (
    await_step,
    exchange_headers,
    next_turn,
    publish_step,
)

ALGORITHMS = ("flat", "chain")
FLAT, CHAIN = range(1, 3)

MOST_DIRECT = 2  # ranks; the last of four read so much that the chain took 0.7 of the time
FILLINGS = 4  # the array is cut so that every rank has about this many slices for filling and for emptying the chain
LONG = 64 << 10  # bytes


def prefix_reduce(ctx, includes_own):
    """Reduce the arrays of the ranks before this one, and its own if `includes_own`, into its result."""
    if is_flat(ctx, FLAT, peek(ctx + c.X + c.BYTES)):
        return flat(ctx, includes_own)
    turn = next_turn(ctx)
    has_result = peek(ctx + c.RANK) + includes_own > 0
    is_exposed = not has_result or not works_in_place(ctx)
    expose_in_arena(ctx, peek(ctx + c.X + c.BYTES) if is_exposed else 0, has_result)
    status = exchange_headers(ctx)
    if status != c.OK:
        return status
    is_chain = chosen(ctx) or peek(ctx + c.SIZE) > MOST_DIRECT
    if is_chain or not are_all_in_arena(ctx, HEADER_EXPOSED, peek(ctx + c.X + c.BYTES)):
        return chain(ctx, turn, includes_own)
    return direct(ctx, turn, includes_own) if results_are_apart(ctx) else c.OVERLAP


def direct(ctx, turn, includes_own):
    """Reduce the arrays of ranks 0, 1, ..., where they are, into the result."""
    ranks, status = peek(ctx + c.RANK) + includes_own, c.OK
    if ranks > 0:
        status = fold(ctx, peek(ctx + c.OUT + c.DATA), 0, EXPOSED, peek(ctx + c.X + c.COUNT), 0, ranks)
    return end_exposure(ctx, turn, 1) if status == c.OK else status


def chain(ctx, turn, includes_own):
    """Do this rank's part in every slice, in order."""
    length = chain_slice_length(ctx)
    for i in range(-(-peek(ctx + c.X + c.COUNT) // length)):
        status = await_slice(ctx, turn, i)
        if status != c.OK:
            return status
        if includes_own:
            status = add_and_copy(ctx, i, slot(ctx, turn, i), length)
        else:
            status = copy_and_add(ctx, i, slot(ctx, turn, i), length)
        if status != c.OK:
            return status
        publish_step(ctx, turn, i + 1)
        if includes_own and peek(ctx + c.RANK) == 0:
            take_own(ctx, i, length)
    return c.OK


def await_slice(ctx, turn, i):
    """Wait until this rank may work on slice i: rank 0 until its slot is free, the others for the rank before them."""
    size, me = peek(ctx + c.SIZE), peek(ctx + c.RANK)
    if me > 0:
        return await_step(ctx, turn, i + 1, me - 1)
    if i < 2 * size:
        return c.OK
    return await_step(ctx, turn, i - 2 * size + 1, size - 1)


def add_and_copy(ctx, i, place, length):
    """Add this rank's elements to slice i, whose partial result is at `place`, and copy the sum to the result, except
    on rank 0."""
    me = peek(ctx + c.RANK)
    count = min(length, peek(ctx + c.X + c.COUNT) - i * length)
    offset = i * length * peek(ctx + c.X + c.ITEM)
    source, result = peek(ctx + c.X + c.DATA) + offset, peek(ctx + c.OUT + c.DATA) + offset
    if me == 0:
        return start_slice(ctx, place, source, count, stays(ctx))
    if me == peek(ctx + c.SIZE) - 1:
        return finish_slice(ctx, result, place, source, count)
    status = reduce(ctx, STEP, 0, place, source, count)
    return reduce(ctx, STORE, result, place, 0, count) if status == c.OK else status


def copy_and_add(ctx, i, place, length):
    """Copy slice i, whose partial result is at `place`, to the result, and add this rank's elements to it."""
    me, item = peek(ctx + c.RANK), peek(ctx + c.X + c.ITEM)
    count = min(length, peek(ctx + c.X + c.COUNT) - i * length)
    source = peek(ctx + c.X + c.DATA) + i * length * item
    result = peek(ctx + c.OUT + c.DATA) + i * length * item
    if me == 0:
        return start_slice(ctx, place, source, count, stays(ctx))
    if peek(ctx + c.SIZE) == 2:
        return take_alone(ctx, result, place, count)
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


def take_own(ctx, i, length):
    """Take this rank's elements of slice i as its result."""
    count = min(length, peek(ctx + c.X + c.COUNT) - i * length)
    offset = i * length * peek(ctx + c.X + c.ITEM)
    return take_alone(ctx, peek(ctx + c.OUT + c.DATA) + offset, peek(ctx + c.X + c.DATA) + offset, count)


def take_alone(ctx, result, source, count):
    """Write the reduction of the elements of one rank to the result. In place it is what is there already, unless these
    are truth values. Else it is no mere copy: every NaN gets the bits that each algorithm gives it."""
    if has_truth_values(ctx) or accumulator_bytes(ctx) != peek(ctx + c.X + c.ITEM):
        return fold(ctx, result, source, WORD, count, 0, 1)
    return reduce(ctx, STORE, result, source, 0, count) if result != source else c.OK


def chain_slice_length(ctx):
    """Return the elements of a slice of the chain: at most half a cell, and fewer if the array is short, so that all
    ranks have work soon."""
    longest = min(peek(ctx + c.SLICE_BYTES), peek(ctx + c.CELL_BYTES) // 2) // accumulator_bytes(ctx)
    even = -(-peek(ctx + c.X + c.COUNT) // (FILLINGS * peek(ctx + c.SIZE)))
    usual = min(max(-(-even // SLICE_UNIT) * SLICE_UNIT, SHORTEST_SLICE), longest)
    return max(usual, shortest_slice(peek(ctx + c.X + c.COUNT)))


def slot(ctx, turn, i):
    """Return the address of the partial result of slice i."""
    slots = 2 * peek(ctx + c.SIZE)
    number, filling = i % slots, i // slots
    whole = peek(ctx + c.CELL_BYTES)
    length = 0 if stays(ctx) else whole
    return cell_of_round(ctx, number // 2, turn, 2 * filling, 1, length) + (number & 1) * (whole // 2)


def stays(ctx):
    """Return whether the slots do not move on: slices of a shorter array are too short for that."""
    return peek(ctx + c.X + c.BYTES) < LONG
