"""broadcast and scatter over nodes: the root has something for all.

The root contributes a row to the opening (`opening.py`): ROW_LENGTH; ARRAY_TYPE, dtype and mark; the number of
dimensions; dimensions; and its array, if that is not longer than `most_carried` or, in a scatter, `most_scattered`. A
longer one is sent separately, after the opening (`long_moves.py`). The row describes what a rank gets, in a scatter one
part. If no node has several ranks, the row of a scatter of longer parts has that of its receiver only (`parts_fit`).

A rank that knows the array, and so the length of the row, writes that into its slot. If all ranks of a node do, it is
published in one broadcast.

A broadcast or scatter whose row has the array, and is short, runs ahead (`running_ahead.py`). A rank of a scatter
compares its `out` with the row by itself then.

A rank without an array has two phases, as on one machine (`collectives/scatter.py`): OPEN returns the shape, and DATA
writes the result. The root's row stays where it is until the next opening, which cannot begin between the phases
(`engine/native/entering.py`, ACTIVE).
"""

from shmcoll.collectives.scatter import DATA, MARK, OPEN, PHASE
from shmcoll.collectives.scatter import SHAPE as WANTED_SHAPE
from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek, poke
from shmcoll.engine.kernels.element_marks import MARK_SHIFT
from shmcoll.engine.layout import WORD
from shmcoll.nodes.algorithms.long_moves import broadcast_long, scatter_long
from shmcoll.nodes.opening import layout as o
from shmcoll.nodes.opening.call import announce
from shmcoll.nodes.opening.fingerprint import UNKNOWN, describe, positive, with_array
from shmcoll.nodes.opening.opening import parts_fit, row_of_root, row_place, sends_apart
from shmcoll.nodes.opening.running_ahead import make_open_from_root

ROW_LENGTH, ARRAY_TYPE, ARRAY_DIMENSIONS, ARRAY_DIMS = (WORD * i for i in range(4))
MOST_DIMENSIONS_CARRIED = (o.MOST_IN_SLOT - ARRAY_DIMS) // WORD
MOST_FOLLOWING = 64 << 10  # bytes of an array that the root's leader sends to all others together


def most_carried(nodes):
    """Return how long an array may be that the opening carries: less for more nodes, as a leader sends it to each."""
    return MOST_FOLLOWING // max(nodes - 1, 1)


def most_scattered(nodes):
    """Return the same for a scatter, of which another node needs only a part."""
    return most_carried(nodes) // 2


def head_bytes(dimensions):
    """Return the bytes of a row before the array."""
    return ARRAY_DIMS + min(dimensions, MOST_DIMENSIONS_CARRIED) * WORD


def row_bytes(length, dimensions, most):
    """Return the bytes of a row of an array of so many bytes, of which the opening carries up to `most`."""
    carried = length if length <= most and dimensions <= MOST_DIMENSIONS_CARRIED else 0
    return head_bytes(dimensions) + (carried + WORD - 1) // WORD * WORD


def broadcast(ctx):
    x, state, length = ctx + c.X, peek(ctx + o.STATE), peek(ctx + c.X + c.BYTES)
    status, place = c.OK, peek(x + c.DATA)
    if peek(ctx + PHASE) == DATA:
        place, length = peek(ctx + c.OUT + c.DATA), peek(ctx + c.OUT + c.BYTES)
    else:
        status = opened_by_root(ctx, x, peek(ctx + c.ARGUMENT_2), length, 0, most_carried(peek(state + o.NODES)), 1)
    if status != c.OK:
        return status
    root = peek(ctx + c.ARGUMENT)
    if is_separate(state, root):
        return broadcast_long(state, place, length, root)
    if peek(ctx + c.RANK) != root:
        copy(place, carried_array(state, root), length)
    return c.OK


def scatter(ctx):
    out, state, status = ctx + c.OUT, peek(ctx + o.STATE), c.OK
    length = peek(out + c.BYTES)
    if peek(ctx + PHASE) != DATA:
        mark = 0 if peek(ctx + PHASE) == OPEN else peek(ctx + MARK)
        most, step, sent = most_scattered(peek(state + o.NODES)), 0, length * peek(ctx + c.SIZE)
        if parts_fit(state, length) and length % WORD == 0:
            most, step, sent = length, length, length
        status = opened_by_root(ctx, out, mark, sent, step, most, 0)
    if status != c.OK:
        return status
    root = peek(ctx + c.ARGUMENT)
    if is_separate(state, root):
        return scatter_long(state, peek(ctx + c.X + c.DATA), peek(out + c.DATA), length, root)
    part = peek(ctx + c.X + c.DATA) if peek(ctx + c.RANK) == root else carried_array(state, root)
    if peek(ctx + c.RANK) == root or carried_bytes(state, root) != length:
        part += peek(ctx + c.RANK) * length
    copy(peek(out + c.DATA), part, length)
    return c.OK


def carries_all(row):
    """Return whether a row has the root's array."""
    return peek(row) > head_bytes(peek(row + ARRAY_DIMENSIONS))


open_from_root = make_open_from_root(carries_all)


def opened_by_root(ctx, view, mark, length, step, most, compares):
    """Open a call in which the root contributes its x, `length` bytes, of which the opening carries up to `most`. step:
    0, or where in x the bytes for the next rank begin, if each gets only its own. view: what a rank gets, if this rank
    knows that. compares: whether that must be alike on all ranks, even if the call runs ahead. Return OK, or
    SHAPE_KNOWN in the phase OPEN."""
    state, root = peek(ctx + o.STATE), peek(ctx + c.ARGUMENT)
    first, second, size = describe(ctx, view, mark), UNKNOWN, 0
    if peek(view + c.DTYPE):
        second = positive(with_array(first, view, mark))
        size = row_bytes(length, peek(view + c.DIMENSIONS), most)
    announce(ctx, first, second, 0, 0)
    slot = peek(state + o.SLOT) + o.SLOT_DATA
    poke(slot + ROW_LENGTH, size)
    if peek(ctx + c.RANK) == root:
        poke(state + o.APART_STEP, step)
        row = slot if size <= o.MOST_IN_SLOT else row_place(state)
        write_row(state, row, size, view, mark, peek(ctx + c.X + c.DATA), length)
    status = open_from_root(state, root, compares)
    if status == c.OK and peek(view + c.DTYPE) and not is_described(row_of_root(state, root), view, mark):
        poke(state + o.VERDICT, o.UNLIKE_HERE)
        poke(state + o.THEIRS, row_of_root(state, root) + ARRAY_TYPE)
        return c.MISMATCH
    if status == c.OK:
        status = take_shape(ctx, state, view, mark, root)
    return c.SHAPE_KNOWN if status == c.OK and peek(ctx + PHASE) == OPEN else status


def write_row(state, row, size, view, mark, address, length):
    """Write the row of the root, with the array if there is room for that."""
    head = head_bytes(peek(view + c.DIMENSIONS))
    poke(row + ROW_LENGTH, size)
    poke(row + ARRAY_TYPE, peek(view + c.DTYPE) | mark << MARK_SHIFT)
    poke(row + ARRAY_DIMENSIONS, peek(view + c.DIMENSIONS))
    copy(row + ARRAY_DIMS, peek(view + c.DIMS), head - ARRAY_DIMS)
    if size > head and (size - head != length or not sends_apart(state, address, length)):
        copy(row + head, address, length)


def is_described(row, view, mark):
    """Return whether a row is of an array such as a rank has, if it describes that whole."""
    dimensions = peek(view + c.DIMENSIONS)
    if (
        peek(row + ARRAY_TYPE) != peek(view + c.DTYPE) | mark << MARK_SHIFT
        or peek(row + ARRAY_DIMENSIONS) != dimensions
    ):
        return 0
    for i in range(min(dimensions, MOST_DIMENSIONS_CARRIED)):
        if peek(row + ARRAY_DIMS + i * WORD) != peek(peek(view + c.DIMS) + i * WORD):
            return 0
    return 1


def take_shape(ctx, state, view, mark, root):
    """Write what each rank gets to where the caller of the phase OPEN reads it: dtype and mark, number of dimensions,
    dimensions. If a row has no room for these, all ranks get them here."""
    shape, status = row_of_root(state, root) + ARRAY_TYPE, c.OK
    dimensions = peek(shape + WORD)
    if dimensions > MOST_DIMENSIONS_CARRIED:
        shape = peek(state + o.SHAPE)
        if peek(ctx + c.RANK) == root:
            poke(shape, peek(view + c.DTYPE) | mark << MARK_SHIFT)
            poke(shape + WORD, dimensions)
            copy(shape + 2 * WORD, peek(view + c.DIMS), dimensions * WORD)
        status = broadcast_long(state, shape, o.SHAPE_WORDS * WORD, root)
    if status == c.OK and peek(ctx + PHASE) == OPEN:
        copy(peek(ctx + WANTED_SHAPE), shape, (2 + dimensions) * WORD)
    return status


def is_separate(state, root):
    """Return whether the root's array is sent separately, or is empty."""
    return not carries_all(row_of_root(state, root))


def carried_array(state, root):
    """Return the address of the root's array, if the opening has carried it."""
    row = row_of_root(state, root)
    return row + head_bytes(peek(row + ARRAY_DIMENSIONS))


def carried_bytes(state, root):
    """Return how many bytes of the root's array the opening has carried, up to a word."""
    row = row_of_root(state, root)
    return peek(row) - head_bytes(peek(row + ARRAY_DIMENSIONS))
