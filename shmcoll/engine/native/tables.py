"""The tables behind the words of a context that routines see: what the native entry looks up."""

import numpy as np

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.collective import OPERATION_CODES
from shmcoll.engine.kernels.dtypes import BY_NAME, DTYPE_CODES, DTYPES, PAIRS, REDUCTION_CODES, DType
from shmcoll.engine.layout import WORD

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
COMPOSITE = 128  # codes of composite calls are from here on; below, they are those of operations


def context_words(ranks: int) -> int:
    """Return the length of a context for a group of this size."""
    return OWN_TABLE // WORD + layout.table_words(ranks)


def new_context(ranks: int) -> np.ndarray:
    """Return a context for a group of this size. Its tables are filled, and the words of the communicator are zero."""
    words = np.zeros(context_words(ranks), np.int64)
    for known in DTYPES:
        if known.numpy.num < TYPE_NUMBERS:
            words[TYPE_CODES // WORD + known.numpy.num] = type_word(known)
    # int64 and uint64 have two type numbers each: C's long and long long
    words[TYPE_CODES // WORD + np.dtype(np.longlong).num] = type_word(BY_NAME["int64"])
    words[TYPE_CODES // WORD + np.dtype(np.ulonglong).num] = type_word(BY_NAME["uint64"])
    words[c.TEAM_BYTES // WORD] = c.OUT_OF_REACH
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
