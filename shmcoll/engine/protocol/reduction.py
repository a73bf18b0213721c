"""The parts of every reducing collective: slices, and the element-wise steps on them.

Order of operations. The elements are cut into slices. Slice j is reduced from rank j mod n upwards, whichever algorithm
runs. So the bits of the result depend only on n, the count, the dtype and the arena's thresholds. An operator that is
not commutative starts every slice at rank 0. reduce_scatter starts block b at rank b + 1, so that rank b, which gets
the block, comes last. scan and exscan start at rank 0.

Arguments of reducing calls: the EXTRA words are the kernel's address (0: the kernel in the table), whether the order of
ranks matters, and the address of n addresses that replace x, or 0. `engine/native/entry.py` clears them for calls that
do not pass them.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import call_kernel, peek, poke
from shmcoll.engine.kernels.dtypes import BY_NAME, DTYPES, REDUCTIONS
from shmcoll.engine.kernels.kernels import FINISH, JOIN, START, STEP, STORE
from shmcoll.engine.layout import ALGORITHM_BITS, STEP_BITS, WORD
from shmcoll.engine.protocol.cells import write_cell
from shmcoll.engine.protocol.exposure import exposed
from shmcoll.engine.protocol.pace import begin_copy, note_copy
from shmcoll.engine.protocol.team import REDUCE, copy_in_parts, is_shared, run

KERNEL_GIVEN, ORDERED, SOURCES = (c.EXTRA + WORD * i for i in range(3))

BOOL = BY_NAME["bool"].code
HALF_TYPES = tuple(d.code for d in DTYPES if d.accumulator != d.numpy)  # reduced in float32
LAND, LXOR = REDUCTIONS["land"], REDUCTIONS["lxor"]
SLICE_UNIT = 64  # elements: slices start on cache lines
SHORTEST_SLICE = 1024  # elements

ALL = -1  # instead of a root: every rank gets the result
EXPOSED = 0  # instead of a stride: each rank's x is in the arena, and its header says where


def reduce(ctx, mode, target, accumulator, source, count):
    """Run one kernel step on `count` elements. Return OK, or RAISED if a user's function raised. Then FIRST_VALUE and
    SECOND_VALUE are the addresses of its two arguments, the first in the accumulator's type."""
    failed = call_kernel(peek(ctx + c.KERNEL), mode, target, accumulator, source, count, peek(ctx + c.SIZE))
    if failed == 0:
        return c.OK
    item = peek(ctx + c.X + c.ITEM)
    value = accumulator + (failed - 1) * accumulator_bytes(ctx)
    if mode == JOIN:
        value = peek(ctx + c.SCRATCH)
        call_kernel(peek(ctx + c.KERNEL), START, value, 0, accumulator + (failed - 1) * item, 1, peek(ctx + c.SIZE))
    poke(ctx + c.CULPRIT, peek(ctx + c.RANK))
    poke(ctx + c.FIRST_VALUE, value)
    poke(ctx + c.SECOND_VALUE, source + (failed - 1) * item)
    return c.RAISED


def reduce_slice(ctx, mode, target, accumulator, source, count):
    """Do the same for a slice, by the team of this rank if it is long. A user's function may raise: this thread alone
    calls it."""
    item, wide = peek(ctx + c.X + c.ITEM), accumulator_bytes(ctx)
    if peek(ctx + KERNEL_GIVEN) or not is_shared(ctx, count * item):
        return reduce(ctx, mode, target, accumulator, source, count)
    first, second = wide if mode == START else item, item if mode == JOIN else wide
    run(ctx, REDUCE, peek(ctx + c.KERNEL), mode, target, accumulator, source, first, second, item, count)
    return c.OK


def start_slice(ctx, place, source, count, stays):
    """Do the first step on a slice to which all other ranks add. Widen it, unless there is only one other rank.
    `stays`: the cell does not move on, and is written by plain stores."""
    if peek(ctx + c.SIZE) > 2:
        return reduce_slice(ctx, START, place, 0, source, count)
    if stays:
        copy_in_parts(ctx, place, source, count * peek(ctx + c.X + c.ITEM))
    else:
        write_cell(ctx, place, source, count * peek(ctx + c.X + c.ITEM))
    return c.OK


def finish_slice(ctx, target, place, source, count):
    """Do the last step on a slice that `start_slice` has begun. It counts as a copy out of a cell."""
    length = count * peek(ctx + c.X + c.ITEM)
    begun = begin_copy(ctx, length)
    status = reduce_slice(ctx, FINISH if peek(ctx + c.SIZE) > 2 else JOIN, target, place, source, count)
    note_copy(ctx, c.FETCH_PACE, begun, length)
    return status


def gets_result(ctx, root):
    """Return whether this rank gets a result that goes to `root`, or to ALL."""
    return root == ALL or root == peek(ctx + c.RANK)


def chosen(ctx):
    """Return the number of the algorithm that the call asks for; 0 for the best one."""
    return peek(ctx + c.ALGORITHM) & ((1 << ALGORITHM_BITS) - 1)


def is_flat(ctx, flat, length):
    """Return whether a call uses the flat algorithm, with `length` bytes beside this rank's header or in its cell. It
    does if the bytes are few or the call chose it (`flat` is its number), and if they fit the cell."""
    algorithm = chosen(ctx)
    if algorithm == flat:
        return length <= peek(ctx + c.CELL_BYTES)
    return algorithm == 0 and length <= peek(ctx + c.FLAT_BYTES)


def goes_through_cells(ctx, cells, length):
    """Return whether a call of `length` bytes that is not flat goes through the cells, and not around the ring. It does
    if the order of ranks matters, if the call chose it (`cells` is the number of that algorithm), and if all of it fits
    a cell and copying it there takes less time than the n steps of the ring."""
    algorithm = chosen(ctx)
    if peek(ctx + ORDERED) or algorithm == cells:
        return 1
    return algorithm == 0 and length <= min(peek(ctx + c.CELL_BYTES), peek(ctx + c.RING_BYTES))


def element_of(ctx, places, stride, rank):
    """Return the address of what `fold` reads of a rank first."""
    if stride != EXPOSED:
        return places + rank * stride
    return peek(ctx + c.ARENA) + exposed(ctx, rank) - 1 + places


def fold(ctx, target, places, stride, count, start, ranks):
    """Reduce `count` elements of `ranks` ranks, from rank `start` on and past the last to rank 0, into `target`.

    The elements of rank r are at `places` + r * `stride`, or `places` bytes behind the beginning of the x that it has
    EXPOSED in the arena. `target` may be one of these places.
    """
    item, block = peek(ctx + c.X + c.ITEM), scratch_length(ctx)
    for first in range(0, count, block):
        offset = first * item
        status = fold_block(ctx, target + offset, places + offset, stride, min(block, count - first), start, ranks)
        if status != c.OK:
            return status
    return c.OK


def fold_block(ctx, target, places, stride, count, start, ranks):
    """Do the same for at most `scratch_length` elements."""
    size = peek(ctx + c.SIZE)
    rank = start + 1 if start + 1 < size else 0
    first = element_of(ctx, places, stride, start)
    if ranks == 2:
        return reduce(ctx, JOIN, target, first, element_of(ctx, places, stride, rank), count)
    accumulator = peek(ctx + c.SCRATCH)
    reduce(ctx, START, accumulator, 0, first, count)
    if ranks == 1:
        return reduce(ctx, STORE, target, accumulator, 0, count)
    for i in range(1, ranks):
        source = element_of(ctx, places, stride, rank)
        if i < ranks - 1:
            status = reduce(ctx, STEP, 0, accumulator, source, count)
        else:
            status = reduce(ctx, FINISH, target, accumulator, source, count)
        if status != c.OK:
            return status
        rank = rank + 1 if rank + 1 < size else 0
    return c.OK


def fold_slices(ctx, target, places, stride, first, end):
    """Reduce elements [first, end) of all ranks into `target`, each slice from its first rank on. Element `first` of
    rank r is where `fold` reads it."""
    item, length = peek(ctx + c.X + c.ITEM), slice_length(ctx)
    size = peek(ctx + c.SIZE)
    while first < end:
        j = first // length
        start = 0 if peek(ctx + ORDERED) else j % size
        count = min(end, (j + 1) * length) - first
        status = fold(ctx, target, places, stride, count, start, size)
        if status != c.OK:
            return status
        first += count
        target += count * item
        places += count * item
    return c.OK


def reduce_alone(ctx):
    """Reduce the array of the only rank: copy it, except if every element of a result is 0 or 1."""
    target, source = peek(ctx + c.OUT + c.DATA), peek(ctx + c.X + c.DATA)
    if not has_truth_values(ctx):
        if target != source:
            copy_in_parts(ctx, target, source, peek(ctx + c.X + c.BYTES))
        return c.OK
    return fold(ctx, target, source, WORD, peek(ctx + c.X + c.COUNT), 0, 1)


def has_truth_values(ctx):
    """Return whether the result holds only 0 and 1: for logical operators, and for bool, whose bytes may be any."""
    return LAND <= peek(ctx + c.REDUCTION) <= LXOR or peek(ctx + c.X + c.DTYPE) == BOOL


def slice_length(ctx):
    """Return the elements of a slice, for as few rounds as SLICE_BYTES allows, evenly filled."""
    return slice_length_of(ctx, peek(ctx + c.X + c.COUNT))


def slice_length_of(ctx, count):
    size = peek(ctx + c.SIZE)
    longest = peek(ctx + c.SLICE_BYTES) // (accumulator_bytes(ctx) if size > 2 else peek(ctx + c.X + c.ITEM))
    rounds = -(-count // (size * longest))
    even = -(-count // (size * max(rounds, 1)))
    return max(min(max(-(-even // SLICE_UNIT) * SLICE_UNIT, SHORTEST_SLICE), longest), shortest_slice(count))


def shortest_slice(count):
    """Return the elements that a slice must have so that STEP_BITS can count the steps: see PROGRESS in `sync.py`."""
    return count >> (STEP_BITS - 1)


def accumulator_bytes(ctx):
    dtype = peek(ctx + c.X + c.DTYPE)
    return 4 if dtype in HALF_TYPES else peek(ctx + c.X + c.ITEM)


def scratch_length(ctx):
    """Return how many elements the scratch memory holds."""
    return c.SCRATCH_BYTES // accumulator_bytes(ctx)
