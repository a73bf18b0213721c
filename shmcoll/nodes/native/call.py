"""How native code makes a call over nodes: its marks, its opening, and the record for programs that look at the job.

A call returns NEEDS_PYTHON before anything is sent if the call has marks that are not known yet. What Python has never
made in a form that native code makes has no marks (`marks.py`).
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import note, peek, poke, recent
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory.node_words import CALL_BEGAN, CALL_ENDED, CALL_NUMBER, CALL_OPERATION
from shmcoll.nodes.native.layout import (
    BEGINS,
    KEY,
    LENGTHS,
    MOST_FOR_ONE,
    MOST_FOR_ONE_SHARED,
    MOST_ROW,
    RECORD,
    SEQUENCE,
    SHARES,
)
from shmcoll.nodes.native.marks import MOST_DIMENSIONS, find, write_key
from shmcoll.nodes.native.opening import bring, open_rows
from shmcoll.nodes.native.partial_opening import open_partials

STATE = c.MAILBOXES  # in the context of a group over nodes, which has no mailboxes: the address of its state


def marks_of(ctx):
    """Return the address of the marks of the call in the context; 0 if they are not known."""
    x = ctx + c.X
    if peek(x + c.DIMENSIONS) > MOST_DIMENSIONS or peek(ctx + c.ALGORITHM) != 0 or peek(ctx + c.ARGUMENT_2) != 0:
        return 0
    return known_marks(ctx, peek(x + c.DTYPE), peek(x + c.DIMENSIONS), peek(x + c.DIMS))


def known_marks(ctx, dtype, dimensions, dims):
    """Return the same for a call with an array of this dtype and this shape."""
    state = peek(ctx + STATE)
    key = peek(state + KEY)
    operation, reduction, root = peek(ctx + c.OPERATION), peek(ctx + c.REDUCTION), peek(ctx + c.ARGUMENT)
    write_key(key, operation, reduction, dtype, root, dimensions, dims)
    return find(state, key)


def opened(ctx):
    """Open a call in which every rank brings its x. Return OK if all ranks have what all have brought."""
    state, x, length = peek(ctx + STATE), peek(ctx + c.X + c.DATA), peek(ctx + c.X + c.BYTES)
    marks = marks_of(ctx) if is_carried(ctx, length) else 0
    if marks == 0:
        return c.NEEDS_PYTHON
    announce(ctx, marks, x, length)
    return open_rows(state, x, length)


def agreed(ctx):
    """Open a call whose arrays follow. Return OK if all ranks make it."""
    state, marks = peek(ctx + STATE), marks_of(ctx)
    if marks == 0:
        return c.NEEDS_PYTHON
    announce(ctx, marks, 0, 0)
    return open_rows(state, 0, 0)


def opened_in_partials(ctx):
    """Open a reduction whose result all ranks get, behind the verdict in TOLD."""
    state, marks = peek(ctx + STATE), marks_of(ctx)
    if marks == 0:
        return c.NEEDS_PYTHON
    announce(ctx, marks, 0, 0)
    return open_partials(state)


def announce(ctx, marks, source, length):
    """Write this rank's slot, with the marks at an address and the bytes that it brings, and note the call for programs
    that look at the job."""
    state = peek(ctx + STATE)
    bring(state, peek(marks), peek(marks + WORD), source, length)
    last = peek(state + RECORD)
    note(last + CALL_OPERATION, peek(ctx + c.OPERATION))
    note(last + CALL_NUMBER, peek(state + SEQUENCE))
    note(last + CALL_BEGAN, recent())
    note(last + CALL_ENDED, 0)


def is_carried(ctx, most):
    """Return whether the opening carries the arrays of all ranks, where it carries up to `most` bytes of each."""
    return peek(ctx + c.X + c.BYTES) <= min(peek(peek(ctx + STATE) + MOST_ROW), most)


def most_for_one(state):
    """Return the bytes of an array for one rank that the opening carries. If ranks share a node, all of them get the
    arrays of all, which takes longer than another message."""
    return MOST_FOR_ONE_SHARED if peek(state + SHARES) else MOST_FOR_ONE


def works_in_place(ctx):
    return peek(ctx + c.X + c.DATA) == peek(ctx + c.OUT + c.DATA)


def equal_blocks(ctx, length):
    """Write the tables of equal blocks for all ranks."""
    state = peek(ctx + STATE)
    for rank in range(peek(ctx + c.SIZE)):
        poke(peek(state + LENGTHS) + rank * WORD, length)
        poke(peek(state + BEGINS) + rank * WORD, rank * length)
