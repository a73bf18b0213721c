"""CPython and numpy as native code uses them: field offsets of an ndarray, and sixteen functions.

The offsets are those of an ordinary build of CPython 3.11 and later with numpy 1.26 and later. `offsets_hold` checks
them against living objects. If they do not hold (a free-threaded build, a future interpreter), `entry.py` uses
`PlainEntry`. The compiled twins of the functions are in `engine/compiler/intrinsics.py`. Most of them exist in compiled
code only.
"""

import ctypes
import sys
import threading

import numpy as np

OBJECT_TYPE = 8
ARRAY_DATA = 16
ARRAY_DIMENSIONS = 24
ARRAY_DIMS = 32
ARRAY_DESCRIPTOR = 56
ARRAY_FLAGS = 64
DESCRIPTOR_BYTE_ORDER = 26  # within the word at 24: kind, type, byteorder, flags, then the 32-bit type number
DESCRIPTOR_KINDS = 24

C_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400

VOID = 20  # numpy's type number of structured dtypes

METH_FASTCALL = 0x80


def new_integer(value):
    """Return a Python int from a machine word, as a new reference."""
    raise NotImplementedError("compiled only")


def integer_value(python_object):
    """Return the machine word of an exact int; -1 and a pending exception if it is too large."""
    raise NotImplementedError("compiled only")


def forget_error():
    """Clear the pending exception. Returns whether there was one."""
    raise NotImplementedError("compiled only")


def list_length(python_object):
    """Return the number of items of a list."""
    raise NotImplementedError("compiled only")


def list_item(python_object, i):
    """Return item i of a list that has it, as a borrowed reference."""
    raise NotImplementedError("compiled only")


def tuple_length(python_object):
    """Return the number of items of a tuple."""
    raise NotImplementedError("compiled only")


def tuple_item(python_object, i):
    """Return item i of a tuple that has it, as a borrowed reference."""
    raise NotImplementedError("compiled only")


def release_gil():
    """Release the GIL by PyEval_SaveThread. Returns the thread state. Routines that run as plain Python keep the
    GIL."""
    return 0


def take_gil(thread):
    pass


def ensure_gil():
    """Take the GIL by PyGILState_Ensure, whether it is held or not. Returns the argument for `leave_gil`."""
    raise NotImplementedError("compiled only")


def leave_gil(state):
    """Undo `ensure_gil`, by PyGILState_Release."""
    raise NotImplementedError("compiled only")


def call_back(function, word):
    """Call a Python function with an int. Returns whether it raised an exception, which is then pending."""
    raise NotImplementedError("compiled only")


def take_error(place):
    """Move the pending exception to three words; returns 1."""
    raise NotImplementedError("compiled only")


def put_error(place):
    """Make the exception in three words pending again."""
    raise NotImplementedError("compiled only")


def keep(place, python_object):
    """Write an object into a word that holds a reference, in place of the object that it has held."""
    raise NotImplementedError("compiled only")


def thread_id():
    """Return pthread_self, which is `threading.get_ident()`."""
    return threading.get_ident()


def offsets_hold() -> bool:
    """Return whether a living array has its fields where this file says."""
    if "t" in sys.abiflags:  # free threads
        return False
    array = np.zeros((3, 5, 7), np.float32)
    at = id(array)

    def word(address: int) -> int:
        return ctypes.c_int64.from_address(address).value

    dims = (ctypes.c_int64 * 3).from_address(word(at + ARRAY_DIMS)) if word(at + OBJECT_TYPE) == id(np.ndarray) else ()
    return (
        tuple(dims) == array.shape
        and word(at + ARRAY_DATA) == array.ctypes.data
        and ctypes.c_int32.from_address(at + ARRAY_DIMENSIONS).value == 3
        and word(at + ARRAY_DESCRIPTOR) == id(array.dtype)
        and ctypes.c_int32.from_address(at + ARRAY_FLAGS).value & 0x501 == 0x501
        and ctypes.c_char.from_address(id(array.dtype) + DESCRIPTOR_BYTE_ORDER).value == b"="
        and ctypes.c_int32.from_address(id(array.dtype) + DESCRIPTOR_KINDS + 4).value == array.dtype.num
    )
