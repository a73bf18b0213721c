"""Rows of objects: what the native entry does when a collective has exchanged them (`communicator/object_rows.py`).

Such a collective moves rows of equal lengths, and its word REDUCTION is ROWS: no reduction has this number, and the
other parts of a call for objects have 0. The result has as many rows as `out`. In a broadcast and a scatter the root
chooses the length (`collectives/scatter.py`); elsewhere it is BYTES. If the upper half of the first word of a row in
the result is not 0, the call goes on with other parts. Then the collectives of other threads must be refused until it
has ended, as during every composite call (`runtime/turns.py`). The entry writes COLLECTIVE itself, under the GIL,
before it returns to Python. So no other thread runs between the end of the first part and that, and none has been in a
collective before: this one was. The thread sets COLLECTIVE to 0 when its last part has ended, or when an exception has
ended the group (`communicator/object_calls.py`).

The entry writes nothing, and answers GOES_ON, in two cases. COLLECTIVE has this thread already: the call is within
another one, which has been noted. Or this thread has the turn, which tells its calls from those of other threads; then
COLLECTIVE may have a thread that waits behind it.
"""

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.native.tables import CALL_BITS, COMPOSITE

BYTES = 512  # of a row that all ranks exchange
SIZE_BITS = 32  # in the first word of a row


def status_of_rows(ctx, me):
    """Return OK if the rows that have arrived hold all there is."""
    begin, rows = peek(ctx + c.OUT + c.DATA), peek(peek(ctx + c.OUT + c.DIMS))
    length = peek(ctx + c.OUT + c.BYTES) // rows
    for i in range(rows):
        if peek(begin + i * length) >> SIZE_BITS != 0:
            return goes_on_with_parts(ctx, me)
    return c.OK


def goes_on_with_parts(ctx, me):
    if peek(ctx + c.COLLECTIVE) != 0 or peek(ctx + c.OWNER) == me:
        return c.GOES_ON
    poke(ctx + c.COLLECTIVE, me << CALL_BITS | call_code(ctx))
    return c.GOES_ON_ALONE


def call_code(ctx):
    """Return the code of the call that is inside, for COLLECTIVE and MET: that of the composite call, if it is a
    part."""
    composite = peek(ctx + c.ALGORITHM) >> layout.COMPOSITE_SHIFT & layout.COMPOSITE_CODE
    return COMPOSITE + composite if composite else peek(ctx + c.OPERATION)
