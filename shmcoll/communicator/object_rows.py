"""Rows of bytes, one for each object, by which a call for objects begins.

    row    {size, pickle, zeros} of an object that the row holds whole
           {-1 - number of buffers, size, operator, size of each buffer, pickle} of one whose buffers follow
           {-1 - number of buffers, size, operator} of one whose pickle follows, too

The size is that of the pickle. A pickle follows if the row has no room for it: all ranks see that from the first two
words. The upper half of the size of a whole object, or the word behind it, is a number that the rank has passed to a
reduction (`object_reductions.py`), or 0.

Rows that are written together (`put_all`) are of one kind, and have the largest number of buffers: those that an object
does not have are of 0 bytes. If the pickles follow, all rows have the largest size. A pickle says itself where it ends.
The rows of a call are used again by later ones.
"""

import struct
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from shmcoll.calls.pickling import Packed
from shmcoll.engine.layout import WORD

BYTES = 512  # of a row
LONGEST = BYTES - WORD  # bytes of a pickle in a row

MOST_EQUAL = 256 << 10  # bytes of all pickles together, if they do not have one length

_OPERATOR_SHIFT = 32
_SIZES = (1 << _OPERATOR_SHIFT) - 1

_FORMAT = f"q{LONGEST}s"
_ROW, _HEAD, _SIZE = struct.Struct("=" + _FORMAT), struct.Struct("=qqq"), struct.Struct("=q")
_ROOM = BYTES - _HEAD.size  # for the sizes of buffers and a pickle

#: rows by the number of buffers whose sizes they hold
_WITH_SIZES = [struct.Struct(f"=qqq{count}q{_ROOM - WORD * count}s") for count in range(_ROOM // WORD + 1)]


Row: TypeAlias = tuple[int, int, int, bytes | None, tuple[int, ...]]  # what `More` is made of


class More:
    """What the rows say of other parts.

    counts, lengths: of the buffers, and of the pickle, of each object. buffers, longest: the largest of these.
    operators: what the ranks have passed. pickles, sizes: the pickle of each object, and the sizes of its buffers; None
    if pickles follow.
    """

    __slots__ = ("buffers", "counts", "lengths", "longest", "operators", "pickles", "sizes")

    pickles: tuple[bytes | None, ...] | None
    sizes: tuple[tuple[int, ...], ...] | None

    def __init__(
        self,
        counts: tuple[int, ...],
        lengths: tuple[int, ...],
        operators: tuple[int, ...],
        pickles: tuple[bytes | None, ...],
        sizes: tuple[tuple[int, ...], ...],
    ):
        self.counts, self.lengths, self.operators = counts, lengths, operators
        self.buffers, self.longest = max(counts), max(lengths)
        are_here = None not in pickles
        self.pickles, self.sizes = (pickles, sizes) if are_here else (None, None)

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

    def put(self, data: bytes, buffers: Sequence[np.ndarray], operator: int = 0) -> None:
        """Write an object into row 0."""
        if buffers or len(data) > LONGEST:
            self._put_head(0, data, len(data), [buffer.size for buffer in buffers], operator)
        else:
            _ROW.pack_into(self._bytes, 0, len(data) | operator << _OPERATOR_SHIFT, data)

    def put_all(self, objects: Sequence[Packed]) -> None:
        """Write an object for each rank."""
        most, longest = (max([len(one[k]) for one in objects]) for k in (1, 0))
        if most == 0 and longest <= LONGEST:
            for i, (data, _) in enumerate(objects, 1):
                _ROW.pack_into(self._bytes, i * BYTES, len(data), data)
            return
        fit = _fits(most, longest)
        for i, (data, buffers) in enumerate(objects, 1):
            sizes = [buffer.size for buffer in buffers] + [0] * (most - len(buffers))
            self._put_head(i, data, len(data) if fit else longest, sizes)

    def _put_head(self, i: int, data: bytes, length: int, sizes: Sequence[int], operator: int = 0) -> None:
        count = len(sizes)
        if _fits(count, length):  # zeros follow, so that equal rows have equal bytes
            _WITH_SIZES[count].pack_into(self._bytes, i * BYTES, -1 - count, length, operator, *sizes, data)
        else:
            _HEAD.pack_into(self._bytes, i * BYTES, -1 - count, length, operator)

    def get(self) -> bytes | More:
        """Return the object of row 0, or what it says of other parts."""
        size, data = _ROW.unpack_from(self._bytes)
        return _of_equal_rows(self._of_row(0, size, data), 1) if size < 0 else data

    def get_all(self) -> tuple[bytes, ...] | More:
        """Return the objects of all ranks, or what their rows say of other parts."""
        found = self._all.unpack_from(self._bytes, BYTES)
        sizes = found[::2]
        if min(sizes) >= 0:
            return found[1::2]
        if found.count(found[1]) == found.count(found[0]) == len(sizes):
            return _of_equal_rows(self._of_row(1, *found[:2]), len(sizes))
        rows = zip(sizes, found[1::2], strict=True)
        return More(*zip(*[self._of_row(i, size, data) for i, (size, data) in enumerate(rows, 1)], strict=True))

    def _of_row(self, i: int, size: int, data: bytes) -> Row:
        """Return what a row says. size, data: its first word, and the others."""
        if size >= 0:
            return 0, size & _SIZES, size >> _OPERATOR_SHIFT, data, ()
        count = -1 - size
        _, length, operator = _HEAD.unpack_from(self._bytes, i * BYTES)
        if not _fits(count, length):
            return count, length, operator, None, ()
        _, _, _, *sizes, data = _WITH_SIZES[count].unpack_from(self._bytes, i * BYTES)
        return count, length, operator, data[:length], tuple(sizes)

    def operator_of(self, rank: int) -> int:
        """Return which operator a rank has passed, whose object its row holds."""
        (size,) = _SIZE.unpack_from(self._bytes, (1 + rank) * BYTES)
        return int(size) >> _OPERATOR_SHIFT


def _of_equal_rows(row: Row, size: int) -> More:
    """Return what so many rows say that are equal."""
    count, length, operator, data, sizes = row
    return More((count,) * size, (length,) * size, (operator,) * size, (data,) * size, (sizes,) * size)


def _fits(count: int, length: int) -> bool:
    """Return whether a row has room for the sizes of so many buffers and a pickle of this length."""
    return count * WORD + length <= _ROOM
