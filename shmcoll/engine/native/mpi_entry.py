"""How a function of MPI enters a routine, in native code.

C calls it, so it may hold the GIL or not. It takes the GIL, as the gate for jitted code does (`jit_gate.py`), writes
the call into the context of the communicator, and runs the routine, whose plain form releases the GIL.

What is not simple is left to Python. A native function answers `TO_PYTHON` when it has done nothing. Then the Python
function of the same name is called with the same arguments. Only what a call has begun cannot be done again: a failure,
and a message whose sender asks for memory. Then FAILED of the table is called, with the GIL. It returns the code of the
error, after the error handler of the communicator has been called. An exception of a signal handler is in KEPT
meanwhile. None is pending when C gets the code.
"""

from shmcoll.engine import context as c
from shmcoll.engine.atomics import call, peek, peek_int, poke, poke_int, static_word
from shmcoll.engine.collective import PEER
from shmcoll.engine.kernels.dtypes import BY_NAME
from shmcoll.engine.layout import LARGEST_TAG, WORD
from shmcoll.engine.messages.ring_buffers import FOUND_TOTAL, SOURCE_SHIFT, found_message
from shmcoll.engine.native import cpython as py
from shmcoll.engine.native import mpi_table as t
from shmcoll.engine.native.arguments import FIXED, set_view
from shmcoll.engine.native.entering import waits_for_turn, what_hinders
from shmcoll.engine.native.entry import FILLED
from shmcoll.engine.native.fitting import suits
from shmcoll.engine.native.tables import KINDS, ROUTINES, type_word

TO_PYTHON = -1  # no code of MPI is negative

BYTE = type_word(BY_NAME["uint8"])
IN_PLACE, PROC_NULL, ANY_SOURCE, UNDEFINED = -1, -1, -2, -32766
STATUS_IGNORE = 1
STATUS_BYTES = 20

AT_ONCE = 1  # of `run`: the call is a send that does not wait for its receiver


def table():
    """Return the address of the table."""
    return peek(static_word())


def install(address):
    """Set the address of the table."""
    poke(static_word(), address)
    return 0


def python_function(number):
    """Return the address of the Python function in place of a native one."""
    return peek(table() + t.PYTHON + number * WORD)


def bytes_of(datatype, count):
    """Return the bytes of elements that are one run; -1 for others."""
    known = t.find(table(), t.TYPES, datatype)
    return peek(known + t.BYTES) * count if known and peek(known + t.IS_RUN) and count >= 0 else -1


def is_memory(address):
    """Return whether this is an address of memory, and not MPI_BOTTOM, MPI_IN_PLACE or a null pointer."""
    return address > 0


def run(ctx, operation, reduction, argument, argument_2, x_type, x, x_count, out_type, out, out_count, status, more):
    """Call a routine. Return the code of MPI, or TO_PYTHON.

    Args:
        ctx: the context of the communicator.
        x_type, out_type: type words; 0 for no array.
        status: the address for what is told of a received message, if it is one.
        more: AT_ONCE or 0.
    """
    if peek(table() + t.DEFERRED) and more != AT_ONCE:
        return TO_PYTHON
    gil = py.ensure_gil()
    answer = what_hinders(ctx, peek(ctx + KINDS + operation * WORD) or PEER)
    if answer == c.OK:
        set_line(ctx + c.X, x_type, x, x_count)
        set_line(ctx + c.OUT, out_type, out, out_count)
        answer = enter(ctx, operation, reduction, argument, argument_2)
    code = ended(ctx, answer, status, more)
    py.leave_gil(gil)
    return code


def enter(ctx, operation, reduction, argument, argument_2):
    """Run a routine, for which the arrays are in the context. Return its answer."""
    poke(ctx + c.REDUCTION, reduction)
    poke(ctx + c.ARGUMENT, argument)
    poke(ctx + c.ARGUMENT_2, argument_2)
    poke(ctx + c.ALGORITHM, 0)
    routine, kind = peek(ctx + ROUTINES + operation * WORD), peek(ctx + KINDS + operation * WORD)
    if routine == 0 or not suits(ctx, kind, FIXED):
        return c.NEEDS_PYTHON
    if kind & PEER and waits_for_turn(ctx, kind):
        return c.BUSY
    poke(ctx + c.OPERATION, operation)
    return call(routine, ctx, FILLED, 0)


def set_line(view, known, data, count):
    """Fill a view of the context with an array of one dimension, or with none."""
    set_view(view, known, data, 0, 0)
    if known:
        poke(view + c.COUNT, count)
        poke(view + c.BYTES, count * peek(view + c.ITEM))
        poke(view + c.DIMENSIONS, 1)
        poke(view + c.DIMS, view + c.COUNT)


def ended(ctx, answer, status, more):
    """Return the code of MPI for the answer of a routine, or TO_PYTHON. A message that does not fit stays, so Python
    finds it again."""
    if answer == c.OK:
        return 0
    if answer < c.OK:
        where = -1 - answer
        put_status(status, where >> SOURCE_SHIFT, where & LARGEST_TAG, peek(found_message(ctx) + FOUND_TOTAL))
        return 0
    if answer in (c.NEEDS_PYTHON, c.GIVES_WAY, c.BUSY, c.NOT_ALONE) or (answer == c.REFUSED and status != 0):
        return TO_PYTHON
    kept = table() + t.KEPT
    if answer == c.INTERRUPTED:
        py.take_error(kept)
    code = call(peek(table() + t.FAILED), ctx, answer, more)
    if answer == c.INTERRUPTED:
        py.put_error(kept)
        py.forget_error()
    return code


def put_status(status, source, tag, length):
    """Fill an MPI_Status: the length in two numbers, source, tag. An error is put there by other functions."""
    if status > STATUS_IGNORE:
        poke_int(status, length)
        poke_int(status + 4, length >> 32 << 1)
        poke_int(status + 8, source)
        poke_int(status + 12, tag)


def length_in(status):
    """Return the length in an MPI_Status."""
    return peek_int(status) & 0xFFFFFFFF | peek_int(status + 4) >> 1 << 32
