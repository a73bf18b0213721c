"""What a message says of an array whose dtype routines do not know: in the place of a shape, its shape and its dtype in
words.

The bytes of the array travel as they are. The first word is the number of dimensions and, above it, the length of the
text; then come the dimensions and the text, compressed (`engine/kernels/element_marks.spelled`).
"""

import math
import zlib
from functools import lru_cache

import numpy as np

from shmcoll.engine.kernels.element_marks import dtype_in_words, spelled
from shmcoll.engine.layout import WORD
from shmcoll.engine.messages.ring_buffers import MOST_WORDS
from shmcoll.engine.system.text import to_bytes, to_text

_LENGTH_SHIFT = 8


def description(array: np.ndarray) -> list[int] | None:
    """Return the words that describe an array; None if they are more than a message has room for."""
    text = _compressed(array.dtype)
    words = np.frombuffer(text.ljust(-(-len(text) // WORD) * WORD), np.int64)
    found = [array.ndim | len(text) << _LENGTH_SHIFT, *array.shape, *words.tolist()]
    return found if len(found) <= MOST_WORDS else None


@lru_cache(maxsize=256)
def described(words: tuple[int, ...]) -> tuple[np.dtype, tuple[int, ...]]:
    """Return the dtype and the shape that words describe."""
    ndim, length = words[0] & ((1 << _LENGTH_SHIFT) - 1), words[0] >> _LENGTH_SHIFT
    text = np.array(words[1 + ndim :], np.int64).tobytes()[:length]
    return dtype_in_words(to_text(zlib.decompress(text))), words[1 : 1 + ndim]


def table_of(array: np.ndarray) -> np.ndarray:
    """Return the table that the routine takes in place of an array: see `send.py`. Keep the array."""
    words = description(array)
    assert words is not None
    return np.array([array.ctypes.data, math.prod(array.shape) * array.itemsize, len(words), *words], np.int64)


def _compressed(dtype: np.dtype) -> bytes:
    return zlib.compress(to_bytes(spelled(dtype)), 9)
