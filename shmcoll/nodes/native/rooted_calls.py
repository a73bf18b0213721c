"""The calls that native code makes over nodes in which the root brings something for all: broadcast and scatter.

Arrays up to `most_following` or `most_scattered` bytes come with the opening (`root_opening.py`). Longer ones follow
(`long_moves.py`).
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek, poke
from shmcoll.engine.layout import WORD
from shmcoll.nodes.native.call import STATE, announce, marks_of
from shmcoll.nodes.native.layout import BROUGHT, MOST_BROUGHT, NODES, SLOT, TOLD
from shmcoll.nodes.native.long_moves import hand_out_rows, spread
from shmcoll.nodes.native.root_opening import (
    ARRAY_DIMENSIONS,
    ARRAY_DIMS,
    ARRAY_LENGTH,
    ARRAY_TYPE,
    LONG,
    following,
    most_following,
    most_scattered,
    open_array,
    told_array,
)


def broadcast(ctx):
    x, address, length = ctx + c.X, peek(ctx + c.X + c.DATA), peek(ctx + c.X + c.BYTES)
    told = length if length <= most_following(peek(peek(ctx + STATE) + NODES)) else LONG
    status = opened_by_root(ctx, x, told)
    if status != c.OK:
        return status
    if told == LONG:
        return spread(peek(ctx + STATE), address, length, peek(ctx + c.ARGUMENT))
    if peek(ctx + c.RANK) != peek(ctx + c.ARGUMENT):
        copy(address, brought_by_root(ctx, x, told), length)
    return c.OK


def scatter(ctx):
    out, length = ctx + c.OUT, peek(ctx + c.OUT + c.BYTES)
    state, told = peek(ctx + STATE), length * peek(ctx + c.SIZE)
    if told > most_scattered(peek(state + NODES)):
        told = LONG
    status = opened_by_root(ctx, out, told)
    if status == c.OK and told == LONG:
        target, root = peek(out + c.DATA), peek(ctx + c.ARGUMENT)
        return hand_out_rows(state, peek(ctx + c.X + c.DATA), target, length, root)
    if status == c.OK:
        copy(peek(out + c.DATA), brought_by_root(ctx, out, told) + peek(ctx + c.RANK) * length, length)
    return status


def opened_by_root(ctx, view, told):
    """Open a call in which the root brings its x, `told` bytes or LONG, with the dtype and the shape of a view."""
    state, root, follows = peek(ctx + STATE), peek(ctx + c.ARGUMENT), following(told, peek(view + c.DIMENSIONS))
    marks, address = marks_of(ctx), peek(ctx + c.X + c.DATA)
    if marks == 0:
        return c.NEEDS_PYTHON
    announce(ctx, marks, 0, 0)
    if peek(ctx + c.RANK) == root:
        describe_array(view, peek(state + SLOT) + BROUGHT, told, address, 0 if follows else told)
    return open_array(state, address, follows, root)


def describe_array(view, brought, told, address, length):
    """Write the description of what the root brings, with `length` bytes of the array."""
    dimensions = peek(view + c.DIMENSIONS)
    for i in range(MOST_BROUGHT // WORD):
        poke(brought + i * WORD, 0)
    poke(brought + ARRAY_LENGTH, told)
    poke(brought + ARRAY_TYPE, peek(view + c.DTYPE))
    poke(brought + ARRAY_DIMENSIONS, dimensions)
    if dimensions > 0:
        copy(brought + ARRAY_DIMS, peek(view + c.DIMS), dimensions * WORD)
    if length > 0:
        copy(brought + ARRAY_DIMS + dimensions * WORD, address, length)


def brought_by_root(ctx, view, told):
    """Return the address of what the root has brought."""
    state, dimensions = peek(ctx + STATE), peek(view + c.DIMENSIONS)
    if following(told, dimensions):
        return told_array(state)
    return peek(state + TOLD) + WORD + ARRAY_DIMS + dimensions * WORD
