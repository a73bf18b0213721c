"""How Python gets into a routine, and nothing else knows it.

The fast way: a routine is compiled with CPython's METH_FASTCALL signature and made callable by PyCFunction_NewEx, with
the rank's context array as `self`. It reads the fields of exact ndarrays itself, releases the GIL, runs, and returns a
status as a Python int; a pending exception of a signal handler comes out as that exception. About 0.2 us a call, where
numba's dispatcher takes 0.45 and `x.ctypes.data` alone 2.8.

Arguments of the callable: nothing, or (x, out, reduction, argument, argument 2, extra words...); arrays may be None.
It answers PREPARE, having done nothing, for what it does not read itself: no exact ndarray, not contiguous or aligned,
foreign byte order or dtype, read-only or partly overlapping `out`, no kernel loaded. The communicator then prepares
arrays that it does read, or raises. It answers BUSY while another thread, or a signal handler's interrupted caller, is
inside, while a worker owns the context, and when the group has ended.

The other way, where `cpython.offsets_hold` says that the fields are elsewhere: `PlainEntry` reads them through numpy
and calls the same routine through ctypes.
"""

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from shmcoll.dtypes import BY_NAME, BY_NUMPY, DType
from shmcoll.engine import context as c
from shmcoll.engine import cpython as py
from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.layout import ALL_REDUCE, OPERATION_NAMES, WORD

# tables behind the words that routines see
TYPE_CODES = c.CONTEXT_WORDS * WORD  # numpy type number -> dtype code | item size << 8, 0 for what we do not move
TYPE_NUMBERS = 32
BFLOAT16_NUMBER = TYPE_CODES + TYPE_NUMBERS * WORD
BFLOAT16_CODE = BFLOAT16_NUMBER + WORD
NDARRAY = BFLOAT16_CODE + WORD
NONE = NDARRAY + WORD
KERNELS = NONE + WORD  # dtype code * 8 + reduction code -> address of the kernel
WORDS = KERNELS // WORD + 16 * 8

BIG_ENDIAN = ord(">")

FAST = py.offsets_hold()


def new_context() -> np.ndarray:
    """A context whose tables are filled; the words of the communicator are still zero."""
    words = np.zeros(WORDS, np.int64)
    for dtype, known in BY_NUMPY.items():
        if dtype.num < TYPE_NUMBERS:
            words[TYPE_CODES // WORD + dtype.num] = _type_word(known)
    # int64 and uint64 have two type numbers each: C's long and long long
    words[TYPE_CODES // WORD + np.dtype(np.longlong).num] = _type_word(BY_NAME["int64"])
    words[TYPE_CODES // WORD + np.dtype(np.ulonglong).num] = _type_word(BY_NAME["uint64"])
    words[BFLOAT16_NUMBER // WORD] = BY_NAME["bfloat16"].numpy.num
    words[BFLOAT16_CODE // WORD] = _type_word(BY_NAME["bfloat16"])
    words[NDARRAY // WORD] = id(np.ndarray)
    words[NONE // WORD] = id(None)
    return words


def _type_word(dtype: DType) -> int:
    return dtype.code | dtype.numpy.itemsize << 8


def kernel_slot(dtype_code: int, reduction: int) -> int:
    """Index of a kernel's address in the context array."""
    return KERNELS // WORD + dtype_code * 8 + reduction


# --- compiled ---------------------------------------------------------------------------------------------------------


def make_entry(routine: Callable[[int], int], operation: int) -> Callable[[int, int, int], int]:
    """The METH_FASTCALL form of a routine."""
    reduces = operation == ALL_REDUCE

    def entry(self, args, nargs):
        ctx = peek(self + py.ARRAY_DATA)
        if taken(ctx):
            return py.new_integer(c.BUSY)
        if nargs > 0:
            if not read_array(ctx, peek(args), ctx + c.X, 0):
                return py.new_integer(c.PREPARE)
            if not read_array(ctx, peek(args + WORD), ctx + c.OUT, 1):
                return py.new_integer(c.PREPARE)
            for i in range(2, nargs):
                word = c.REDUCTION + (i - 2) * WORD if i < 5 else c.EXTRA + (i - 5) * WORD
                poke(ctx + word, py.integer_value(peek(args + i * WORD)))
            if reduces and not ready_to_reduce(ctx):
                return py.new_integer(c.PREPARE)
        else:
            forget_arguments(ctx)
        poke(ctx + c.OPERATION, operation)
        status = run(ctx, routine)
        return 0 if status == c.INTERRUPTED else py.new_integer(status)

    return entry


def forget_arguments(ctx):
    """For a call without any: what the last call left, its dimensions above all, may be gone."""
    for word in (c.DIMENSIONS, c.DTYPE, c.COUNT, c.BYTES):
        poke(ctx + c.X + word, 0)
    for word in (c.REDUCTION, c.ARGUMENT, c.ARGUMENT_2):
        poke(ctx + word, 0)


def make_plain(routine: Callable[[int], int]) -> Callable[[int], int]:
    """The form for ctypes: the context is filled, the GIL held."""

    def plain(ctx):
        return run(ctx, routine)

    return plain


def taken(ctx):
    """Whether this thread may not enter now. Asked and answered under the GIL."""
    active, owner = peek(ctx + c.ACTIVE), peek(ctx + c.OWNER)
    if active != 0:
        return active != -py.thread_id()
    return owner != 0 and owner != py.thread_id()


def run(ctx, routine):
    me = py.thread_id()
    poke(ctx + c.ACTIVE, me)
    poke(ctx + c.THREAD, py.release_gil())
    status = routine(ctx)
    py.take_gil(peek(ctx + c.THREAD))
    poke(ctx + c.THREAD, 0)
    poke(ctx + c.ACTIVE, active_after(status, me))
    return status


def active_after(status, me):
    """Who is inside after a routine. Once the group has ended nobody ever: a header that this rank published then could
    be taken for an answer by a peer that is still busy with the operation that failed."""
    if status == c.OK or status == c.VERDICT:
        return 0
    return -me if status == c.HALFWAY else c.ENDED


def read_array(ctx, array, view, writeable):
    """Fill a view of the context from an ndarray; 0 when it is none that routines can work on as it is."""
    if array == peek(ctx + NONE):
        poke(view + c.DATA, 0)
        poke(view + c.COUNT, 0)
        poke(view + c.BYTES, 0)
        poke(view + c.DIMENSIONS, 0)
        return 1
    if peek(array + py.OBJECT_TYPE) != peek(ctx + NDARRAY):
        return 0
    needed = py.C_CONTIGUOUS | py.ALIGNED | (py.WRITEABLE if writeable else 0)
    if peek(array + py.ARRAY_FLAGS) & needed != needed:
        return 0
    descriptor = peek(peek(array + py.ARRAY_DESCRIPTOR) + py.DESCRIPTOR_KINDS)
    number = descriptor >> 32
    known = 0
    if 0 <= number < TYPE_NUMBERS:
        known = peek(ctx + TYPE_CODES + number * WORD)
    elif number == peek(ctx + BFLOAT16_NUMBER):
        known = peek(ctx + BFLOAT16_CODE)
    if known == 0 or (descriptor >> 16) & 0xFF == BIG_ENDIAN:
        return 0
    dims, dimensions = peek(array + py.ARRAY_DIMS), peek(array + py.ARRAY_DIMENSIONS) & 0xFFFFFFFF
    count = 1
    for i in range(dimensions):
        count *= peek(dims + i * WORD)
    poke(view + c.DATA, peek(array + py.ARRAY_DATA))
    poke(view + c.COUNT, count)
    poke(view + c.ITEM, known >> 8)
    poke(view + c.BYTES, count * (known >> 8))
    poke(view + c.DIMENSIONS, dimensions)
    poke(view + c.DIMS, dims)
    poke(view + c.DTYPE, known & 0xFF)
    return 1


def ready_to_reduce(ctx):
    """Whether `out` is like `x` and either x itself or apart from it, and the kernel is loaded; notes the kernel."""
    x, out = ctx + c.X, ctx + c.OUT
    dimensions = peek(x + c.DIMENSIONS)
    if peek(x + c.DATA) == 0 or peek(out + c.DATA) == 0:
        return 0
    if peek(x + c.DTYPE) != peek(out + c.DTYPE) or dimensions != peek(out + c.DIMENSIONS):
        return 0
    for i in range(dimensions):
        if peek(peek(x + c.DIMS) + i * WORD) != peek(peek(out + c.DIMS) + i * WORD):
            return 0
    distance = peek(out + c.DATA) - peek(x + c.DATA)
    length = peek(x + c.BYTES)
    if distance != 0 and -length < distance < length:
        return 0
    kernel = peek(ctx + KERNELS + (peek(x + c.DTYPE) * 8 + peek(ctx + c.REDUCTION)) * WORD)
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
    """What the communicator calls for a routine at the given addresses, on the context `words`."""
    if not FAST:
        return PlainEntry(plain, OPERATION_NAMES.index(name), words)
    definition = _kept.setdefault(fast, _MethodDefinition(name.encode(), fast, py.METH_FASTCALL, None))
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return make(ctypes.addressof(definition), words, None)


class PlainEntry:
    """The same calls by way of numpy's and ctypes' public interfaces: slower, for interpreters not known here."""

    def __init__(self, address: int, operation: int, words: np.ndarray):
        self._routine = ctypes.PYFUNCTYPE(ctypes.c_long, ctypes.c_void_p)(address)
        self._operation = operation
        self._words = words
        self._ctx = words.ctypes.data
        self._entering = threading.Lock()

    def __call__(self, *arguments: Any) -> int:
        words = self._words
        with self._entering:
            active, owner, me = words[c.ACTIVE // WORD], words[c.OWNER // WORD], threading.get_ident()
            if active not in (0, -me) or (active == 0 and owner not in (0, me)):
                return c.BUSY
            shapes = []
            if not arguments:
                forget_arguments(self._ctx)
            for array, view, writeable in zip(arguments[:2], (c.X, c.OUT), (False, True), strict=False):
                shape = self._read(array, view // WORD, writeable)
                if shape is None:
                    return c.PREPARE
                shapes.append(shape)
            for i, value in enumerate(arguments[2:], start=2):
                words[(c.REDUCTION // WORD + i - 2) if i < 5 else (c.EXTRA // WORD + i - 5)] = value
            if arguments and self._operation == ALL_REDUCE and not ready_to_reduce(self._ctx):
                return c.PREPARE
            words[c.OPERATION // WORD] = self._operation
            words[c.ACTIVE // WORD] = me
        return self._routine(self._ctx)

    def _read(self, array: np.ndarray | None, view: int, writeable: bool) -> np.ndarray | None:
        if array is None:
            self._words[view : view + 7] = 0
            return np.zeros(0, np.int64)
        if type(array) is not np.ndarray or array.dtype not in BY_NUMPY:
            return None
        if not (array.flags.c_contiguous and array.flags.aligned and (array.flags.writeable or not writeable)):
            return None
        shape = np.array(array.shape, np.int64)
        self._words[view : view + 7] = (
            array.ctypes.data,
            array.size,
            array.itemsize,
            array.nbytes,
            array.ndim,
            shape.ctypes.data,
            BY_NUMPY[array.dtype].code,
        )
        return shape
