"""How the native entry reads the arguments of a call into the context: exact ndarrays, exact ints, and None."""

from typing import Any

import numpy as np

from shmcoll.engine import context as c
from shmcoll.engine.atomics import peek, poke
from shmcoll.engine.kernels.dtypes import BY_NUMPY
from shmcoll.engine.layout import WORD
from shmcoll.engine.native import cpython as py
from shmcoll.engine.native import tables as t

PLAIN_EXTRA = 3  # extra words that a routine may read in a call that gives none
FIXED = 6  # arguments before the extra words

ARGUMENT_WORD = c.REDUCTION - 2 * WORD  # so that argument i of a call goes to ARGUMENT_WORD + i words
EXTRA_WORD = c.EXTRA - FIXED * WORD

ARGUMENT_COUNT = 0  # of a call in memory: the number of its arguments, which have their places in the context

BIG_ENDIAN = ord(">")


def read_call(ctx, args, nargs):
    """Fill the context from `nargs` arguments. Returns 0 if one of them cannot be read here."""
    if nargs == 0:  # pointers that the last call has left, above all to its dimensions, may be invalid
        set_view(ctx + c.X, 0, 0, 0, 0)
        for word in (c.REDUCTION, c.ARGUMENT, c.ARGUMENT_2, c.ALGORITHM):
            poke(ctx + word, 0)
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


def read_array(ctx, array, view, writeable):
    """Fill a view of the context from an ndarray. Returns 0 for an object that routines cannot work on as it is."""
    if array == peek(ctx + t.NONE):
        set_view(view, 0, 0, 0, 0)
        return 1
    known = type_of_plain(ctx, array, writeable)
    if known == 0:
        return 0
    dimensions = peek(array + py.ARRAY_DIMENSIONS) & 0xFFFFFFFF
    set_view(view, known, peek(array + py.ARRAY_DATA), dimensions, peek(array + py.ARRAY_DIMS))
    return 1


def set_view(view, known, data, dimensions, dims):
    """Fill a view of the context. known: the type word; 0 for no array."""
    count = 1 if known else 0
    for i in range(dimensions):
        count *= peek(dims + i * WORD)
    poke(view + c.DATA, data)
    poke(view + c.COUNT, count)
    poke(view + c.ITEM, t.item_in(known))
    poke(view + c.BYTES, count * t.item_in(known))
    poke(view + c.DIMENSIONS, dimensions)
    poke(view + c.DIMS, dims)
    poke(view + c.DTYPE, t.dtype_in(known))


def type_of_plain(ctx, array, writeable):
    """Return the type word of an exact ndarray that native code can use as it is; 0 for any other object."""
    if peek(array + py.OBJECT_TYPE) != peek(ctx + t.NDARRAY):
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
    if 0 <= number < t.TYPE_NUMBERS:
        return peek(ctx + t.TYPE_CODES + number * WORD)
    return peek(ctx + t.BFLOAT16_CODE) if number == peek(ctx + t.BFLOAT16_NUMBER) else 0


def find_pair(ctx, descriptor):
    """Return the type word of a dtype of pairs, found by the identity of the dtype; 0 for any other structured
    dtype."""
    for i in range(t.PAIR_COUNT):
        if peek(ctx + t.PAIR_DTYPES + 2 * i * WORD) == descriptor:
            return peek(ctx + t.PAIR_DTYPES + (2 * i + 1) * WORD)
    return 0


def read_integer(ctx, number, word):
    """Fill a word from an exact int. Returns 0 for any other object, and for an int of more than 64 bits."""
    if peek(number + py.OBJECT_TYPE) != peek(ctx + t.INTEGER):
        return 0
    value = py.integer_value(number)
    if value == -1 and py.forget_error():
        return 0
    poke(word, value)
    return 1


def forget_extra(ctx):
    for i in range(PLAIN_EXTRA):
        poke(ctx + c.EXTRA + i * WORD, 0)


# --- by the public interface of numpy ---------------------------------------------------------------------------------


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
