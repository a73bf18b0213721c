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

ACTIVE says which thread is inside. It is written only under the GIL, by the thread whose call is inside and by the
thread that ends the group:

    0          none. Any call that begins may enter, if OWNER allows it
    thread     the call of that thread runs. No call enters: the thread itself can only be in a signal handler or a
               finaliser
    -thread    the call of that thread has answered HALFWAY and goes on with another phase. Python runs in between, so a
               signal handler or a finaliser of the same thread may make any other call. The results of the first phase
               are in the context and in the mailbox, and another call would overwrite them. So only phases from LATER
               on enter, with which no call begins, and only those of that thread
    ENDED      the group has ended. This value stays

A receive that waits, and has read nothing, leaves with GIVES_WAY when another thread wants to call. It has had no
effect. Its caller posts it (`calls/recv.py`).

OWNER says which thread has the turn (`runtime/turns.py`). While receives are posted and no thread has it, the value is
RECEIVES_POSTED. Then all calls enter except two kinds. A receive waits for the receives that are posted before it. A
send that may have to wait for its receiver reads meanwhile for the posted receives, and only the thread that has the
turn may do so.

The check and the reading of the arguments, which follows it, are one piece of native code under the GIL: no handler and
no thread runs in between. The answer to a call that may not enter is BUSY, and nothing except its arguments has been
written. No call waits here. `Dispatcher` queues a call of another thread, and refuses a call of the same thread, which
would wait for itself.

Collectives of two threads at once are refused, because their order may differ between ranks. The answer is NOT_ALONE,
and MET says which thread makes a collective, and which one. Two words show it: ACTIVE and KIND, if the collective of
another thread is inside; and COLLECTIVE, if it is made of several calls or waits for its turn (`runtime/turns.py`
writes it). COLLECTIVE and MET hold a thread and the code of an operation, or 0. The worker refuses nobody, and is not
refused by a thread that waits behind it: an asynchronous call has had its place since it was issued. It calls in a
turn, so OWNER tells it from a thread that makes a blocking call: that has no turn, or has written COLLECTIVE.

The other way. If `cpython.offsets_hold` finds the fields elsewhere, `PlainEntry` reads them through numpy, writes the
call into memory of its own, and passes that to the plain form of the routine through ctypes. Handlers may run while it
reads. The plain form checks and copies as the fast form does.
"""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.atomics import copy, peek, poke
from shmcoll.engine.collective import (
    ANY_SOURCE,
    CUTS,
    EXTRA,
    FITTING,
    GATHERS,
    IN_PHASES,
    JITTED,
    NO_ARRAYS,
    NO_OUT_AT_0,
    OPERATION_CODES,
    OUT_AT_ROOT,
    OWN_PART,
    PEER,
    REDUCING,
    ROOTED,
    SCATTERS,
    X_AT_ROOT,
    Collective,
)
from shmcoll.engine.kernels.dtypes import BY_NAME, BY_NUMPY, DTYPE_CODES, DTYPES, PAIRS, REDUCTION_CODES, DType
from shmcoll.engine.layout import ANY, LARGEST_TAG, WORD
from shmcoll.engine.messages.ring_buffers import PART_BYTES
from shmcoll.engine.native import cpython as py
from shmcoll.engine.protocol.flight_recorder import forget_message, note_end
from shmcoll.engine.protocol.reduction import KERNEL_GIVEN
from shmcoll.engine.system.text import to_bytes

# tables behind the words that routines see
TYPE_CODES = c.CONTEXT_WORDS * WORD  # numpy type number -> dtype code | item size << 8, 0 for other dtypes
TYPE_NUMBERS = 32
BFLOAT16_NUMBER = TYPE_CODES + TYPE_NUMBERS * WORD
BFLOAT16_CODE = BFLOAT16_NUMBER + WORD
NDARRAY = BFLOAT16_CODE + WORD
NONE = NDARRAY + WORD
INTEGER = NONE + WORD
LIST = INTEGER + WORD
TUPLE = LIST + WORD
PAIR_DTYPES = TUPLE + WORD  # address of the numpy dtype, and its type word, of each dtype of pairs
PAIR_COUNT = len(PAIRS)
KERNELS = PAIR_DTYPES + 2 * PAIR_COUNT * WORD  # dtype code * REDUCTION_CODES + reduction code -> address of the kernel
ROUTINES = KERNELS + DTYPE_CODES * REDUCTION_CODES * WORD  # operation -> address of the plain form, 0 while not loaded
KINDS = ROUTINES + OPERATION_CODES * WORD  # operation -> its form
GATE = KINDS + OPERATION_CODES * WORD  # address of the gate for jitted code, see `jit_gate.py`
CALLBACK = GATE + WORD  # address of the Python function that it calls
HANDLE = CALLBACK + WORD  # address of the context itself, once jitted code may use it
OWN_TABLE = HANDLE + WORD  # a table of counts, see `entry_counts.py`

CALL_BITS = 8  # of COLLECTIVE and MET, below the thread: the code of the call (`diagnostics/other_threads.py`)

RUN_WORDS = 5  # block, and run and stride at either end: see `all_to_all.py`
LIST_WORDS = 3  # behind them: what an all_to_all of lists has
PLAIN_EXTRA = 3  # extra words that a routine may read in a call that gives none
FIXED = 6  # arguments before the extra words

ARGUMENT_WORD = c.REDUCTION - 2 * WORD  # so that argument i of a call goes to ARGUMENT_WORD + i words
EXTRA_WORD = c.EXTRA - FIXED * WORD

FILLED = -1  # in place of the address of a call in memory
ARGUMENT_COUNT = 0  # of a call in memory: the number of its arguments, which have their places in the context

BIG_ENDIAN = ord(">")

FAST = py.offsets_hold()


def new_context(ranks: int) -> np.ndarray:
    """Return a context for a group of this size. Its tables are filled, and the words of the communicator are zero."""
    words = np.zeros(OWN_TABLE // WORD + layout.table_words(ranks), np.int64)
    for known in DTYPES:
        if known.numpy.num < TYPE_NUMBERS:
            words[TYPE_CODES // WORD + known.numpy.num] = type_word(known)
    # int64 and uint64 have two type numbers each: C's long and long long
    words[TYPE_CODES // WORD + np.dtype(np.longlong).num] = type_word(BY_NAME["int64"])
    words[TYPE_CODES // WORD + np.dtype(np.ulonglong).num] = type_word(BY_NAME["uint64"])
    words[BFLOAT16_NUMBER // WORD] = BY_NAME["bfloat16"].numpy.num
    words[BFLOAT16_CODE // WORD] = type_word(BY_NAME["bfloat16"])
    words[NDARRAY // WORD] = id(np.ndarray)
    words[NONE // WORD] = id(None)
    words[INTEGER // WORD] = id(int)
    words[LIST // WORD] = id(list)
    words[TUPLE // WORD] = id(tuple)
    for i, pair in enumerate(PAIRS):
        words[PAIR_DTYPES // WORD + 2 * i :][:2] = id(pair.numpy), type_word(pair)
    return words


def type_word(dtype: DType) -> int:
    """Return a dtype as one word for native code: its code, and above it the bytes of an element."""
    return dtype.code | dtype.numpy.itemsize << 8


def dtype_in(word):
    """Return the dtype code in a type word."""
    return word & 0xFF


def item_in(word):
    """Return the bytes of an element in a type word."""
    return word >> 8


def kernel_slot(dtype_code: int, reduction: int) -> int:
    """Return the index of a kernel's address in the context array."""
    return KERNELS // WORD + dtype_code * REDUCTION_CODES + reduction


# --- compiled ---------------------------------------------------------------------------------------------------------


def make_entry(
    routine: Callable[[int], int], record: Collective, run: Callable[..., int] | None = None
) -> Callable[[int, int, int], int]:
    """Return the METH_FASTCALL form of a routine. `run` calls it; by default `run_routine`."""
    judge, place, operation, kind = make_judge(record.form), phase_argument(record.form), record.code, record.form
    run = run or run_routine

    def entry(self, args, nargs):
        ctx = peek(self + py.ARRAY_DATA)
        hindrance = what_hinders(ctx, kind)
        if hindrance != c.OK and not goes_on(ctx, phase_given(ctx, args, nargs, place)):
            return py.new_integer(hindrance)
        if not read_call(ctx, args, nargs) or not judge(ctx, nargs):
            return py.new_integer(c.NEEDS_PYTHON)
        if kind & PEER and waits_for_turn(ctx, kind):
            return py.new_integer(c.BUSY)
        poke(ctx + c.OPERATION, operation)
        return answer(run(ctx, routine, kind))

    return entry


def make_judge(kind: int) -> Callable[[int, int], int]:
    """Return a function that returns whether a call of this form can go on as it is, and notes the kernel of a
    reduction. It takes the context and the number of arguments."""
    if kind & PEER:

        def judge(ctx, nargs):
            return nargs == FIXED and is_addressed(ctx, kind)

    elif kind & EXTRA:

        def judge(ctx, nargs):
            return nargs > FIXED and (kind & FITTING == 0 or ready(ctx, kind))

    elif kind & REDUCING:

        def judge(ctx, nargs):
            if nargs > FIXED:
                poke(ctx + c.KERNEL, peek(ctx + KERNEL_GIVEN))
                return 1
            forget_extra(ctx)
            return ready(ctx, kind) and find_kernel(ctx)

    else:

        def judge(ctx, nargs):
            if nargs != FIXED:
                return 1
            forget_extra(ctx)
            return ready(ctx, kind)

    return judge


def read_call(ctx, args, nargs):
    """Fill the context from `nargs` arguments. Returns 0 if one of them cannot be read here."""
    if nargs == 0:
        forget_arguments(ctx)
        return 1
    if not read_array(ctx, peek(args), ctx + c.X, 0) or not read_array(ctx, peek(args + WORD), ctx + c.OUT, 1):
        return 0
    for i in range(2, nargs):
        if not read_integer(ctx, peek(args + i * WORD), ctx + argument_word(i)):
            return 0
    return 1


def argument_word(i):
    """Return the offset in the context of argument i of a call, behind the arrays."""
    return (ARGUMENT_WORD if i < FIXED else EXTRA_WORD) + i * WORD


def answer(status):
    """Return the result for CPython: a status as an int, or the pending exception of a signal handler."""
    return 0 if status == c.INTERRUPTED else py.new_integer(status)


def forget_arguments(ctx):
    """Clear the arguments in the context, for a call without any. Pointers that the last call left there, above all to
    its dimensions, may be invalid."""
    for word in (c.DIMENSIONS, c.DTYPE, c.COUNT, c.BYTES):
        poke(ctx + c.X + word, 0)
    for word in (c.REDUCTION, c.ARGUMENT, c.ARGUMENT_2, c.ALGORITHM):
        poke(ctx + word, 0)


def forget_extra(ctx):
    for i in range(PLAIN_EXTRA):
        poke(ctx + c.EXTRA + i * WORD, 0)


def make_plain(routine: Callable[[int], int], record: Collective) -> Callable[[int, int], int]:
    """Return the form for the gate, for messages over nodes and for ctypes, which hold the GIL. Its argument `written`
    is the address of a call in memory. It is 0 for the gate, and FILLED for a caller that Python has called: both have
    checked that the call may enter, and have filled the context."""
    judge, place, operation, kind = make_judge(record.form), phase_argument(record.form), record.code, record.form

    def plain(ctx, written):
        if written > 0:
            nargs = peek(written + ARGUMENT_COUNT)
            phase = peek(written + argument_word(place)) if place else 0
            hindrance = what_hinders(ctx, kind)
            if hindrance != c.OK and not goes_on(ctx, phase):
                return hindrance
            copy(ctx + c.REDUCTION, written + c.REDUCTION, FIXED * WORD - 2 * WORD)
            copy(ctx + c.X, written + c.X, c.CONTEXT_WORDS * WORD - c.X)
            if not judge(ctx, nargs):
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


def what_hinders(ctx, kind):
    """Return OK if a call of this thread may begin now, else BUSY or NOT_ALONE. Call it under the GIL, and use the
    answer before it is released."""
    if kind & PEER == 0 and is_not_alone(ctx):
        return c.NOT_ALONE
    return c.BUSY if taken(ctx) else c.OK


def is_not_alone(ctx):
    """Return whether another thread makes a blocking collective, and note it in MET."""
    active, collective = peek(ctx + c.ACTIVE), peek(ctx + c.COLLECTIVE)
    if (active == 0 and collective == 0) or active == c.ENDED:
        return 0
    me, inside, owner = py.thread_id(), abs(active), peek(ctx + c.OWNER)
    if collective != 0 and collective >> CALL_BITS != me and owner != me:
        poke(ctx + c.MET, collective)
        return 1
    if inside == 0 or inside in (me, owner) or peek(ctx + c.KIND) & PEER:
        return 0
    poke(ctx + c.MET, inside << CALL_BITS | peek(ctx + c.OPERATION))
    return 1


def taken(ctx):
    """Return whether a call of this thread may not begin now."""
    active, owner = peek(ctx + c.ACTIVE), peek(ctx + c.OWNER)
    return active != 0 or (owner != 0 and owner != c.RECEIVES_POSTED and owner != py.thread_id())


def waits_for_turn(ctx, kind):
    """Return whether this call, which begins a message, must wait for posted receives, or may read for them."""
    if peek(ctx + c.OWNER) != c.RECEIVES_POSTED:
        return 0
    if kind & ANY_SOURCE:
        return peek(ctx + c.RECV_PHASE) < c.LATER
    return peek(ctx + c.SEND_MEMORY) < c.LATER and peek(ctx + c.X + c.BYTES) > PART_BYTES


def goes_on(ctx, phase):
    """Return whether a call is the next phase of the one that this thread has begun."""
    return phase >= c.LATER and peek(ctx + c.ACTIVE) == -py.thread_id()


def run_routine(ctx, routine, kind):
    """Call a routine without the GIL, and return its status."""
    me = py.thread_id()
    poke(ctx + c.KIND, kind)
    poke(ctx + c.ACTIVE, me)
    poke(ctx + c.THREAD, py.release_gil())
    status = routine(ctx)
    if kind & PEER:
        forget_message(ctx, status)
    else:
        note_end(ctx, status)
    py.take_gil(peek(ctx + c.THREAD))
    poke(ctx + c.THREAD, 0)
    poke(ctx + c.ACTIVE, active_after(ctx, status, me))
    return status


def active_after(ctx, status, me):
    """Return the value of ACTIVE after a routine of this thread. It is ENDED forever once the group has ended: a peer
    that is still busy with the operation that failed could take a header that this rank published then for an answer.
    Another thread may have ended the group meanwhile."""
    if peek(ctx + c.ACTIVE) == c.ENDED:
        return c.ENDED
    if status <= c.GIVES_WAY or status == c.REFUSED:
        return -me if peek(ctx + c.SENDING) else 0
    return -me if status == c.HALFWAY else c.ENDED


def read_array(ctx, array, view, writeable):
    """Fill a view of the context from an ndarray. Returns 0 for an object that routines cannot work on as it is."""
    if array == peek(ctx + NONE):
        poke(view + c.DATA, 0)
        poke(view + c.COUNT, 0)
        poke(view + c.BYTES, 0)
        poke(view + c.DIMENSIONS, 0)
        poke(view + c.DTYPE, 0)
        return 1
    known = type_of_plain(ctx, array, writeable)
    if known == 0:
        return 0
    dims, dimensions = peek(array + py.ARRAY_DIMS), peek(array + py.ARRAY_DIMENSIONS) & 0xFFFFFFFF
    count = 1
    for i in range(dimensions):
        count *= peek(dims + i * WORD)
    poke(view + c.DATA, peek(array + py.ARRAY_DATA))
    poke(view + c.COUNT, count)
    poke(view + c.ITEM, item_in(known))
    poke(view + c.BYTES, count * item_in(known))
    poke(view + c.DIMENSIONS, dimensions)
    poke(view + c.DIMS, dims)
    poke(view + c.DTYPE, dtype_in(known))
    return 1


def type_of_plain(ctx, array, writeable):
    """Return the type word of an exact ndarray that native code can use as it is; 0 for any other object."""
    if peek(array + py.OBJECT_TYPE) != peek(ctx + NDARRAY):
        return 0
    needed = py.C_CONTIGUOUS | py.ALIGNED | (py.WRITEABLE if writeable else 0)
    if peek(array + py.ARRAY_FLAGS) & needed != needed:
        return 0
    descriptor = peek(peek(array + py.ARRAY_DESCRIPTOR) + py.DESCRIPTOR_KINDS)
    number = descriptor >> 32
    if (descriptor >> 16) & 0xFF == BIG_ENDIAN:
        return 0
    if number == py.VOID:
        return find_pair(ctx, peek(array + py.ARRAY_DESCRIPTOR))
    if 0 <= number < TYPE_NUMBERS:
        return peek(ctx + TYPE_CODES + number * WORD)
    return peek(ctx + BFLOAT16_CODE) if number == peek(ctx + BFLOAT16_NUMBER) else 0


def find_pair(ctx, descriptor):
    """Return the type word of a dtype of pairs, found by the identity of the dtype; 0 for any other structured
    dtype."""
    for i in range(PAIR_COUNT):
        if peek(ctx + PAIR_DTYPES + 2 * i * WORD) == descriptor:
            return peek(ctx + PAIR_DTYPES + (2 * i + 1) * WORD)
    return 0


def read_integer(ctx, number, word):
    """Fill a word from an exact int. Returns 0 for any other object, and for an int of more than 64 bits."""
    if peek(number + py.OBJECT_TYPE) != peek(ctx + INTEGER):
        return 0
    value = py.integer_value(number)
    if value == -1 and py.forget_error():
        return 0
    poke(word, value)
    return 1


def ready(ctx, kind):
    """Return whether the arrays of a call suit the operation on this rank: both are there, of the same dtype, of
    fitting shapes, and without common memory. Both may be one array if the operation allows that."""
    if kind & NO_ARRAYS:
        return 1
    me, root = peek(ctx + c.RANK), peek(ctx + c.ARGUMENT)
    if kind & ROOTED and not 0 <= root < peek(ctx + c.SIZE):
        return 0
    x, out = ctx + c.X, ctx + c.OUT
    has_none = (kind & OUT_AT_ROOT and me != root) or (kind & NO_OUT_AT_0 and me == 0)
    if has_none:
        return peek(x + c.DATA) != 0 and peek(out + c.DATA) == 0
    if kind & X_AT_ROOT and me != root:
        return peek(out + c.DATA) != 0 and peek(x + c.DATA) == peek(out + c.DATA)
    if peek(x + c.DATA) == 0 or peek(out + c.DATA) == 0 or peek(x + c.DTYPE) != peek(out + c.DTYPE):
        return 0
    if kind & GATHERS:
        return is_shared_out(ctx, x, out) and ((kind & OWN_PART and is_own_part(ctx, x, out)) or are_apart(x, out))
    if kind & SCATTERS:
        return is_shared_out(ctx, out, x) and ((kind & OWN_PART and is_own_part(ctx, out, x)) or are_apart(x, out))
    if kind & CUTS and not is_cut_evenly(ctx, x, out):
        return 0
    return are_alike(x, out) and (peek(x + c.DATA) == peek(out + c.DATA) or are_apart(x, out))


def is_addressed(ctx, kind):
    """Return whether a message goes to a rank of this group, or may come from one, and has a valid tag."""
    lowest = ANY if kind & ANY_SOURCE else 0
    return lowest <= peek(ctx + c.ARGUMENT) < peek(ctx + c.SIZE) and has_tag(ctx, kind)


def has_tag(ctx, kind):
    """Return whether a message has a valid tag, and an array, if it is sent."""
    lowest = ANY if kind & ANY_SOURCE else 0
    if not lowest <= peek(ctx + c.ARGUMENT_2) <= LARGEST_TAG:
        return 0
    return kind & ANY_SOURCE or peek(ctx + c.X + c.DTYPE) != 0


def are_alike(x, out):
    """Return whether two arrays have the same shape."""
    dimensions = peek(x + c.DIMENSIONS)
    if dimensions != peek(out + c.DIMENSIONS):
        return 0
    for i in range(dimensions):
        if peek(peek(x + c.DIMS) + i * WORD) != peek(peek(out + c.DIMS) + i * WORD):
            return 0
    return 1


def is_shared_out(ctx, part, whole):
    """Return whether `whole` is n times as long as `part` along axis 0, and otherwise of the same shape."""
    dimensions = peek(part + c.DIMENSIONS)
    if dimensions == 0 or dimensions != peek(whole + c.DIMENSIONS):
        return 0
    for i in range(dimensions):
        extent = peek(peek(part + c.DIMS) + i * WORD)
        if i == 0:
            extent *= peek(ctx + c.SIZE)
        if extent != peek(peek(whole + c.DIMS) + i * WORD):
            return 0
    return 1


def is_cut_evenly(ctx, x, out):
    """Return whether an all_to_all cuts and concatenates along axis 0, so that each of the n parts is one run. Notes
    the length of a part."""
    if peek(ctx + c.ARGUMENT) != 0 or peek(ctx + c.ARGUMENT_2) != 0 or peek(x + c.DIMENSIONS) == 0:
        return 0
    if not are_alike(x, out) or peek(peek(x + c.DIMS)) % peek(ctx + c.SIZE) != 0:
        return 0
    for i in range(RUN_WORDS):
        poke(ctx + c.EXTRA + i * WORD, peek(x + c.BYTES) // peek(ctx + c.SIZE))
    for i in range(RUN_WORDS, RUN_WORDS + LIST_WORDS):
        poke(ctx + c.EXTRA + i * WORD, 0)
    return 1


def is_own_part(ctx, part, whole):
    """Return whether `part` is the memory of this rank's own part of `whole`."""
    return peek(part + c.DATA) == peek(whole + c.DATA) + peek(ctx + c.RANK) * peek(part + c.BYTES)


def are_apart(a, b):
    """Return whether two arrays share no memory."""
    distance = peek(b + c.DATA) - peek(a + c.DATA)
    return distance >= peek(a + c.BYTES) or -distance >= peek(b + c.BYTES)


def find_kernel(ctx):
    """Note the kernel for dtype and reduction. Returns 0 if it is not loaded."""
    reduction = peek(ctx + c.REDUCTION)
    if not 0 < reduction < REDUCTION_CODES:
        return 0
    kernel = peek(ctx + KERNELS + (peek(ctx + c.X + c.DTYPE) * REDUCTION_CODES + reduction) * WORD)
    poke(ctx + c.KERNEL, kernel)
    return kernel != 0


# --- callables --------------------------------------------------------------------------------------------------------


class _MethodDefinition(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_kept: dict[int, _MethodDefinition] = {}  # CPython keeps a pointer to the definition


def make_callable(name: str, fast: int, plain: int, words: np.ndarray) -> Callable[..., int]:
    """Return the callable of the communicator for the routine at these addresses, on the context `words`."""
    if not FAST:
        return PlainEntry(plain, words)
    definition = _kept.setdefault(fast, _MethodDefinition(to_bytes(name), fast, py.METH_FASTCALL, None))
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return make(ctypes.addressof(definition), words, None)


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


def written_call(*arguments: Any) -> tuple[np.ndarray, list[np.ndarray]] | None:
    """Return a call in memory, for the plain form of a routine, and the shapes of its arrays, which it refers to. None
    if native code cannot read an argument."""
    written = np.zeros(c.CONTEXT_WORDS, np.int64)
    written[ARGUMENT_COUNT // WORD] = len(arguments)
    shapes = []
    for array, view, writeable in zip(arguments[:2], (c.X, c.OUT), (False, True), strict=False):
        shape = _write_down(array, written[view // WORD :], writeable)
        if shape is None:
            return None
        shapes.append(shape)
    for i, value in enumerate(arguments[2:], start=2):
        if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
            return None
        written[argument_word(i) // WORD] = value
    return written, shapes


def _write_down(array: np.ndarray | None, view: np.ndarray, writeable: bool) -> np.ndarray | None:
    """Fill a view from an array. Returns its shape, or None for an object that routines cannot work on as it is."""
    if array is None:
        return np.zeros(0, np.int64)
    if type(array) is not np.ndarray or array.dtype not in BY_NUMPY:
        return None
    if not (array.flags.c_contiguous and array.flags.aligned and (array.flags.writeable or not writeable)):
        return None
    shape = np.array(array.shape, np.int64)
    for word, value in (
        (c.DATA, array.ctypes.data),
        (c.COUNT, array.size),
        (c.ITEM, array.itemsize),
        (c.BYTES, array.nbytes),
        (c.DIMENSIONS, array.ndim),
        (c.DIMS, shape.ctypes.data),
        (c.DTYPE, BY_NUMPY[array.dtype].code),
    ):
        view[word // WORD] = value
    return shape
