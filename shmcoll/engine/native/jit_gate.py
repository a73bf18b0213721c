"""How jitted code of users enters a routine: by one function for all operations, called by its address.

It may be called with the GIL held or without (`nogil=True`). It takes the GIL, which makes `what_hinders` and the words
of the context safe (see `entering.py`), and the routine's plain form releases it while it runs. The call is described
in a block of words that the caller keeps until the gate returns:

    OPERATION  REDUCTION  ARGUMENT  ARGUMENT_2  STATUS  then x, and out behind it, each as TYPE, DATA, DIMENSIONS, dims

TYPE is the type word of an array's dtype (`tables.py`), 0 for no array. Arrays are C-contiguous and aligned; the rest
is checked here as for a call from Python. If a status is not OK, because Python has to prepare the call or because of
an error, the gate stores it in STATUS and calls the communicator's callback, a Python function of the block's address.
The gate returns 0, or 1 with a Python exception pending.

Messages. The callback also allocates memory for a message whose sender has asked for some (ASKS). After a recv ARGUMENT
and ARGUMENT_2 hold the source and the tag of the message, and STATUS the number of its elements.

Cost: the entry's, and 20 to 60 ns for the GIL.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import call_routine, peek, poke
from shmcoll.engine.collective import PEER
from shmcoll.engine.layout import LARGEST_TAG, WORD
from shmcoll.engine.messages.ring_buffers import FOUND_TOTAL, SOURCE_SHIFT, found_message
from shmcoll.engine.native import cpython as py
from shmcoll.engine.native.arguments import FIXED, set_view
from shmcoll.engine.native.entering import waits_for_turn, what_hinders
from shmcoll.engine.native.fitting import suits
from shmcoll.engine.native.tables import CALLBACK, KINDS, ROUTINES

OPERATION, REDUCTION, ARGUMENT, ARGUMENT_2, STATUS, ARRAYS = (WORD * i for i in range(6))
TYPE, DATA, DIMENSIONS, DIMS = (WORD * i for i in range(4))


def gate(ctx, block):
    state = py.ensure_gil()
    status = what_hinders(ctx, peek(ctx + KINDS + peek(block + OPERATION) * WORD) or PEER)
    if status == c.OK:
        status = enter(ctx, block)
    failed = 0
    if status < c.OK:
        note_message(ctx, block, -1 - status)
    elif status == c.INTERRUPTED:
        failed = tell_and_keep_error(ctx, block, status)
    elif status != c.OK:
        poke(block + STATUS, status)
        failed = py.call_back(peek(ctx + CALLBACK), block)
    py.leave_gil(state)
    return failed


def enter(ctx, block):
    """Fill the context and run the routine. Returns NEEDS_PYTHON if the arguments do not suit it, or if it or its
    kernel is not loaded."""
    operation = peek(block + OPERATION)
    poke(ctx + c.REDUCTION, peek(block + REDUCTION))
    poke(ctx + c.ARGUMENT, peek(block + ARGUMENT))
    poke(ctx + c.ARGUMENT_2, peek(block + ARGUMENT_2))
    poke(ctx + c.ALGORITHM, 0)
    fill_view(ctx + c.OUT, fill_view(ctx + c.X, block + ARRAYS))
    routine = peek(ctx + ROUTINES + operation * WORD)
    kind = peek(ctx + KINDS + operation * WORD)
    if routine == 0 or not suits(ctx, kind, FIXED):
        return c.NEEDS_PYTHON
    if kind & PEER and waits_for_turn(ctx, kind):
        return c.BUSY
    poke(ctx + c.OPERATION, operation)
    return call_routine(routine, ctx)


def note_message(ctx, block, where):
    """Store what a recv has found out about its message."""
    total = peek(found_message(ctx) + FOUND_TOTAL)
    poke(block + ARGUMENT, where >> SOURCE_SHIFT)
    poke(block + ARGUMENT_2, where & LARGEST_TAG)
    poke(block + STATUS, total // peek(ctx + c.OUT + c.ITEM))


def fill_view(view, array):
    """Fill a view of the context. Returns the address of the next array."""
    dimensions = peek(array + DIMENSIONS)
    set_view(view, peek(array + TYPE), peek(array + DATA), dimensions, array + DIMS)
    return array + DIMS + dimensions * WORD


def tell_and_keep_error(ctx, block, status):
    """Have the callback end the group. The exception of the signal handler stays pending."""
    kept = block + OPERATION + WORD  # three words that have been read
    error = py.take_error(kept)
    poke(block + STATUS, status)
    if py.call_back(peek(ctx + CALLBACK), block):
        py.forget_error()
    py.put_error(kept)
    return error
