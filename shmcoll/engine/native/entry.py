"""How Python enters a routine. No other file knows it.

The fast way: a routine is compiled with CPython's METH_FASTCALL signature and made callable by PyCFunction_NewEx, with
the rank's context array as `self`. It reads the fields of exact ndarrays itself, releases the GIL, runs, and returns a
status as a Python int. If an exception of a signal handler is pending, the entry raises it. A call takes about 0.2 us.
For comparison, numba's dispatcher takes 0.45 us, and `x.ctypes.data` alone takes 2.8 us.

Arguments of the callable: none, or (x, out, reduction, argument, argument 2, algorithm, extra words...). Arrays may be
None. Without extra words a call comes straight from the user, and the entry itself makes the checks of `ready`. It does
nothing and answers NEEDS_PYTHON for arguments that it does not read or accept: not an exact ndarray, not contiguous or
aligned, foreign byte order or dtype, read-only or overlapping `out`, a shape that does not fit, no kernel loaded. Then
the communicator prepares arrays that the entry does read, or raises an exception. A call with extra words has been
checked before, except for the arrays of a collective_permute. Calls with counts have a form of their own: see
`entry_counts.py`. For a message, `argument` is the peer, `argument 2` the tag, and `reduction` the phase of its
routine.

The other way. If `cpython.offsets_hold` finds the fields elsewhere, `PlainEntry` reads them through numpy, writes the
call into memory of its own, and passes that to the plain form of the routine through ctypes. Handlers may run while it
reads. The plain form checks and copies as the fast form does.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll.engine import context as c
from shmcoll.engine.atomics import copy, peek, poke
from shmcoll.engine.collective import IN_PHASES, JITTED, PEER, Collective
from shmcoll.engine.layout import WORD
from shmcoll.engine.native import cpython as py
from shmcoll.engine.native.arguments import ARGUMENT_COUNT, FIXED, argument_word, read_call, written_call
from shmcoll.engine.native.entering import goes_on, run_routine, waits_for_turn, what_hinders
from shmcoll.engine.native.fitting import suits
from shmcoll.engine.native.tables import INTEGER
from shmcoll.engine.system.text import to_bytes

FILLED = -1  # in place of the address of a call in memory
FAST = py.offsets_hold()


def make_entry(
    routine: Callable[[int], int], record: Collective, run: Callable[..., int] | None = None
) -> Callable[[int, int, int], int]:
    """Return the METH_FASTCALL form of a routine. `run` calls it; by default `run_routine`."""
    place, operation, kind = phase_argument(record.form), record.code, record.form
    run = run or run_routine

    def entry(self, args, nargs):
        ctx = peek(self + py.ARRAY_DATA)
        hindrance = what_hinders(ctx, kind)
        if hindrance != c.OK and not goes_on(ctx, phase_given(ctx, args, nargs, place)):
            return py.new_integer(hindrance)
        if not read_call(ctx, args, nargs) or not suits(ctx, kind, nargs):
            return py.new_integer(c.NEEDS_PYTHON)
        if kind & PEER and waits_for_turn(ctx, kind):
            return py.new_integer(c.BUSY)
        poke(ctx + c.OPERATION, operation)
        return answer(run(ctx, routine, kind))

    return entry


def answer(status):
    """Return the result for CPython: a status as an int, or the pending exception of a signal handler."""
    return 0 if status == c.INTERRUPTED else py.new_integer(status)


def make_plain(routine: Callable[[int], int], record: Collective) -> Callable[[int, int], int]:
    """Return the form for the gate, for messages over nodes and for ctypes, which hold the GIL. Its argument `written`
    is the address of a call in memory. It is 0 for the gate, and FILLED for a caller that Python has called: both have
    checked that the call may enter, and have filled the context."""
    place, operation, kind = phase_argument(record.form), record.code, record.form

    def plain(ctx, written):
        if written > 0:
            nargs = peek(written + ARGUMENT_COUNT)
            phase = peek(written + argument_word(place)) if place else 0
            hindrance = what_hinders(ctx, kind)
            if hindrance != c.OK and not goes_on(ctx, phase):
                return hindrance
            copy(ctx + c.REDUCTION, written + c.REDUCTION, FIXED * WORD - 2 * WORD)
            copy(ctx + c.X, written + c.X, c.CONTEXT_WORDS * WORD - c.X)
            if not suits(ctx, kind, nargs):
                return c.NEEDS_PYTHON
            if kind & PEER and waits_for_turn(ctx, kind):
                return c.BUSY
            poke(ctx + c.OPERATION, operation)
        return run_routine(ctx, routine, kind | JITTED if written == 0 else kind)

    return plain


def phase_argument(kind: int) -> int:
    """Return which argument of a call is its phase; 0 for operations with a single phase."""
    if kind & PEER:
        return 2
    return FIXED if kind & IN_PHASES else 0


def phase_given(ctx, args, nargs, place):
    """Return the phase of a call; 0 if that argument is missing or not an exact int."""
    if place == 0 or nargs <= place or peek(peek(args + place * WORD) + py.OBJECT_TYPE) != peek(ctx + INTEGER):
        return 0
    phase = py.integer_value(peek(args + place * WORD))
    return 0 if phase == -1 and py.forget_error() else phase


# --- callables --------------------------------------------------------------------------------------------------------


class _MethodDefinition(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)
_kept: dict[int, _MethodDefinition] = {}  # CPython keeps a pointer to the definition


def make_callable(name: str, fast: int, plain: int, words: np.ndarray) -> Callable[..., int]:
    """Return the callable of the communicator for the routine at these addresses, on the context `words`."""
    if not FAST:
        return PlainEntry(plain, words)
    definition = _kept.setdefault(fast, _MethodDefinition(to_bytes(name), fast, py.METH_FASTCALL, None))
    return _make(ctypes.addressof(definition), words, None)


class PlainEntry:
    """The same calls through the public interfaces of numpy and ctypes: slower, for interpreters that are not known
    here."""

    def __init__(self, address: int, words: np.ndarray):
        self._routine = ctypes.PYFUNCTYPE(ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)(address)
        self._ctx = words.ctypes.data

    def __call__(self, *arguments: Any) -> int:
        found = written_call(*arguments)
        if found is None:
            return c.NEEDS_PYTHON
        written, _shapes = found  # alive until the call has ended
        return self._routine(self._ctx, written.ctypes.data)
