"""Rows of bytes, one for each object, by which a call for objects begins.

    row    {size, pickle, zeros}, or {-1 - number of buffers, bytes of the pickle} of an object that it does not hold

The upper half of a size says which operator the rank has passed to a reduction (`object_reductions.py`), or 0. Of rows
that are written together (`put_all`), all hold their pickles, or none does: then all have the largest numbers. A pickle
says itself where it ends. The rows of a call are used again by later ones.
"""

import struct
from collections.abc import Sequence

import numpy as np

from shmcoll.calls.pickling import Packed
from shmcoll.engine.layout import WORD

BYTES = 512  # of a row
LONGEST = BYTES - WORD  # bytes of a pickle in a row

MOST_EQUAL = 256 << 10  # bytes of all pickles together, if they have one length

_OPERATOR_SHIFT = 32
_SIZES = (1 << _OPERATOR_SHIFT) - 1

_FORMAT = f"q{LONGEST}s"
_ROW, _HEAD, _SIZE = struct.Struct("=" + _FORMAT), struct.Struct("=qq"), struct.Struct("=q")


class More:
    """What the rows say of other parts. counts, lengths: of the buffers, and of the pickle, of each object."""

    __slots__ = ("buffers", "counts", "lengths", "longest")

    def __init__(self, counts: tuple[int, ...], lengths: tuple[int, ...]):
        self.counts, self.lengths = counts, lengths
        self.buffers, self.longest = max(counts), max(lengths)

    def are_equal(self, size: int) -> bool:
        """Return whether the pickles move in blocks of equal lengths, one for each of so many ranks."""
        return self.buffers == 0 and size * self.longest <= MOST_EQUAL


class Rows:
    """The rows of one call. mine: that of this rank, by itself, which is number 0; all: one for each rank, from number
    1 on."""

    def __init__(self, size: int):
        self._bytes = bytearray((1 + size) * BYTES)
        memory = np.frombuffer(self._bytes, np.uint8).reshape(-1, BYTES)
        self.mine, self.all = memory[:1], memory[1:]
        self._all = struct.Struct("=" + _FORMAT * size)

    def put(self, i: int, data: bytes, buffers: Sequence[np.ndarray], operator: int = 0) -> bool:
        """Write an object into row i. Return whether it holds it, so that no other part is needed."""
        size = len(data)
        if size > LONGEST or buffers:
            _HEAD.pack_into(self._bytes, i * BYTES, -1 - len(buffers), size)
            return False
        _ROW.pack_into(self._bytes, i * BYTES, size | operator << _OPERATOR_SHIFT, data)
        return True

    def put_all(self, objects: Sequence[Packed]) -> None:
        """Write an object for each rank."""
        is_whole = True
        for i, one in enumerate(objects, 1):
            is_whole &= self.put(i, *one)
        if not is_whole:
            most, longest = (max(len(one[k]) for one in objects) for k in (1, 0))
            for i in range(1, len(objects) + 1):
                _HEAD.pack_into(self._bytes, i * BYTES, -1 - most, longest)

    def get(self) -> bytes | More:
        """Return the object of row 0, or what it says of other parts."""
        size, data = _ROW.unpack_from(self._bytes)
        return More((-1 - size,), _HEAD.unpack_from(self._bytes)[1:]) if size < 0 else data

    def get_all(self) -> tuple[bytes, ...] | More:
        """Return the objects of all ranks, or what their rows say of other parts."""
        found = self._all.unpack_from(self._bytes, BYTES)
        sizes = found[::2]
        if min(sizes) >= 0:
            return found[1::2]
        heads = [_HEAD.unpack_from(self._bytes, i * BYTES) for i in range(1, len(sizes) + 1)]
        lengths = [length if size < 0 else size & _SIZES for size, length in heads]
        return More(tuple([-1 - size if size < 0 else 0 for size in sizes]), tuple(lengths))

    def operator_of(self, rank: int) -> int:
        """Return which operator a rank has passed, whose object its row holds."""
        (size,) = _SIZE.unpack_from(self._bytes, (1 + rank) * BYTES)
        return int(size) >> _OPERATOR_SHIFT
