"""broadcast and scatter over nodes: the root brings something for all.

Arrays up to `most_following` or `most_scattered` bytes come with the opening (`root_opening.py`). Longer ones follow
(`long_moves.py`). The opening describes what a rank gets, in a scatter one part.

A rank without an array has two phases, as on one machine (`collectives/scatter.py`): OPEN returns the shape, and DATA
writes the result. What the opening has brought stays in TOLD until the next one, which cannot begin between the phases
(`engine/native/entry.py`, ACTIVE).
"""

from shmcoll.collectives.scatter import DATA, MARK, OPEN, PHASE
from shmcoll.collectives.scatter import SHAPE as WANTED_SHAPE
from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek, poke
from shmcoll.engine.kernels.element_marks import MARK_SHIFT
from shmcoll.engine.layout import WORD
from shmcoll.nodes.native import layout as o
from shmcoll.nodes.native.call import announce
from shmcoll.nodes.native.fingerprint import UNKNOWN, describe, positive, with_array
from shmcoll.nodes.native.long_moves import hand_out_rows, spread
from shmcoll.nodes.native.root_opening import (
    ARRAY_DIMENSIONS,
    ARRAY_DIMS,
    ARRAY_LENGTH,
    ARRAY_TYPE,
    LONG,
    MOST_DIMENSIONS_BROUGHT,
    following,
    most_following,
    most_scattered,
    open_array,
    told_array,
)


def broadcast(ctx):
    x, state, length = ctx + c.X, peek(ctx + o.STATE), peek(ctx + c.X + c.BYTES)
    status, place = c.OK, peek(x + c.DATA)
    if peek(ctx + PHASE) == DATA:
        place, length = peek(ctx + c.OUT + c.DATA), peek(ctx + c.OUT + c.BYTES)
    else:
        status = opened_by_root(ctx, x, peek(ctx + c.ARGUMENT_2), length, most_following(peek(state + o.NODES)))
    if status != c.OK:
        return status
    if brought_length(state) == LONG:
        return spread(state, place, length, peek(ctx + c.ARGUMENT))
    if peek(ctx + c.RANK) != peek(ctx + c.ARGUMENT):
        copy(place, brought_array(state), length)
    return c.OK


def scatter(ctx):
    out, state, status = ctx + c.OUT, peek(ctx + o.STATE), c.OK
    length = peek(out + c.BYTES)
    if peek(ctx + PHASE) != DATA:
        mark = 0 if peek(ctx + PHASE) == OPEN else peek(ctx + MARK)
        status = opened_by_root(ctx, out, mark, length * peek(ctx + c.SIZE), most_scattered(peek(state + o.NODES)))
    if status != c.OK:
        return status
    if brought_length(state) == LONG:
        return hand_out_rows(state, peek(ctx + c.X + c.DATA), peek(out + c.DATA), length, peek(ctx + c.ARGUMENT))
    copy(peek(out + c.DATA), brought_array(state) + peek(ctx + c.RANK) * length, length)
    return c.OK


def opened_by_root(ctx, view, mark, length, most):
    """Open a call in which the root brings its x, `length` bytes, of which the opening carries up to `most`. view: what
    a rank gets, if this rank knows that. Return OK, or SHAPE_KNOWN in the phase OPEN."""
    state, root, is_known = peek(ctx + o.STATE), peek(ctx + c.ARGUMENT), peek(view + c.DTYPE) != 0
    dimensions = peek(view + c.DIMENSIONS)
    told = length if length <= most and dimensions <= MOST_DIMENSIONS_BROUGHT else LONG
    follows, address = following(told, dimensions) if is_known else 0, peek(ctx + c.X + c.DATA)
    first, second = describe(ctx, view, mark), UNKNOWN
    if is_known:
        second = positive(with_array(first, view, mark))
    announce(ctx, first, second, 0, 0)
    if peek(ctx + c.RANK) == root:
        describe_array(view, mark, peek(state + o.SLOT) + o.BROUGHT, told, address, 0 if follows else told)
    status = open_array(state, address, follows, root)
    if status == c.OK:
        status = take_shape(ctx, state, view, mark, root)
    return c.SHAPE_KNOWN if status == c.OK and peek(ctx + PHASE) == OPEN else status


def describe_array(view, mark, brought, told, address, length):
    """Write the description of what the root brings, with `length` bytes of the array."""
    dimensions = peek(view + c.DIMENSIONS)
    for i in range(o.MOST_BROUGHT // WORD):
        poke(brought + i * WORD, 0)
    poke(brought + ARRAY_LENGTH, told)
    poke(brought + ARRAY_TYPE, peek(view + c.DTYPE) | mark << MARK_SHIFT)
    poke(brought + ARRAY_DIMENSIONS, dimensions)
    if dimensions > 0:
        copy(brought + ARRAY_DIMS, peek(view + c.DIMS), min(dimensions, MOST_DIMENSIONS_BROUGHT) * WORD)
    if length > 0:
        copy(brought + ARRAY_DIMS + dimensions * WORD, address, length)


def take_shape(ctx, state, view, mark, root):
    """Write what each rank gets to where the caller of the phase OPEN reads it: dtype and mark, number of dimensions,
    dimensions. If an opening has no room for these, all ranks get them here."""
    told, shape, status = peek(state + o.TOLD) + WORD, peek(state + o.TOLD) + WORD + ARRAY_TYPE, c.OK
    dimensions = peek(told + ARRAY_DIMENSIONS)
    if dimensions > MOST_DIMENSIONS_BROUGHT:
        shape = peek(state + o.SHAPE)
        if peek(ctx + c.RANK) == root:
            poke(shape, peek(view + c.DTYPE) | mark << MARK_SHIFT)
            poke(shape + WORD, dimensions)
            copy(shape + 2 * WORD, peek(view + c.DIMS), dimensions * WORD)
        status = spread(state, shape, o.SHAPE_WORDS * WORD, root)
    if status == c.OK and peek(ctx + PHASE) == OPEN:
        copy(peek(ctx + WANTED_SHAPE), shape, (2 + dimensions) * WORD)
    return status


def brought_length(state):
    """Return the length of the root's array in bytes, or LONG."""
    return peek(peek(state + o.TOLD) + WORD + ARRAY_LENGTH)


def brought_array(state):
    """Return the address of the root's array, if it has come with the opening."""
    told = peek(state + o.TOLD) + WORD
    dimensions = peek(told + ARRAY_DIMENSIONS)
    return told_array(state) if following(brought_length(state), dimensions) else told + ARRAY_DIMS + dimensions * WORD
