"""Rows of bytes, one for each object, by which a call for objects begins.

    row    {size, pickle, zeros} of an object that the row holds whole
           {-1 - number of buffers, size, operator, size of each buffer, pickle} of one whose buffers follow
           {-1 - number of buffers, size, operator} of one whose pickle follows, too

The size is that of the pickle. A pickle follows if the row has no room for it: all ranks see that from the first two
words. The size of a whole object has 16 bits. The bits above it, or the word behind it, are a number that the rank has
passed to a reduction (`object_reductions.py`), or 0.

If the upper half of the first word of a row is not 0, the call goes on (`engine/native/object_rows.py`): other parts
follow, or the number of a reduction has the bit GOES_ON.

In an all_to_all that number is ALIKE if all objects of the sender have the same pickle and sizes. If all rows that a
rank gets are equal, and say so, all rows of the call are.

In a broadcast and a scatter the root chooses how long rows are. Those that hold objects whole have up to ROOM bytes:
EAGER_BYTES together, if they suffice, so that the root waits for nobody (`engine/protocol/sync.py`). All others have
BYTES.

Rows that are written together (`put_all`) are of one kind, and have the largest number of buffers: those that an object
does not have are of 0 bytes. If the pickles follow, all rows have the largest size. A pickle says itself where it ends.
The rows of a call are used again by later ones.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from shmcoll.calls.pickling import BYTES_OF_BUFFER, Packed
from shmcoll.collectives.scatter import BOTH
from shmcoll.engine.context import ROWS
from shmcoll.engine.layout import EAGER_BYTES, WORD, align
from shmcoll.engine.native.object_rows import BYTES, SIZE_BITS

LONGEST = BYTES - WORD  # bytes of a pickle in a row
ROOM = 64 << 10  # bytes of the longest row that a root sends
LONGEST_SENT = ROOM - WORD  # bytes of a pickle in such a row

MOST_EQUAL = 256 << 10  # bytes of all pickles together, if they do not have one length

_OPERATOR_SHIFT = 16
_SIZES = (1 << _OPERATOR_SHIFT) - 1
ALIKE = 1
GOES_ON = 1 << (SIZE_BITS - _OPERATOR_SHIFT)  # in the number of a reduction

_FORMAT = f"q{LONGEST}s"
_ROW, _HEAD = struct.Struct("=" + _FORMAT), struct.Struct("=qqq")
_put_whole = _ROW.pack_into
_ROOM = BYTES - _HEAD.size  # for the sizes of buffers and a pickle

#: rows by the number of buffers whose sizes they hold
_WITH_SIZES = [struct.Struct(f"=qqq{count}q{_ROOM - WORD * count}s") for count in range(_ROOM // WORD + 1)]


Row: TypeAlias = tuple[int, int, int, bytes | None, tuple[int, ...]]  # what `More` is made of


class More:
    """What the rows say of other parts.

    counts, lengths: of the buffers, and of the pickle, of each object. buffers, longest: the largest of these.
    operators: what the ranks have passed. pickles, sizes: the pickle of each object, and the sizes of its buffers; None
    if pickles follow. are_alike: all rows are equal.
    """

    __slots__ = ("are_alike", "buffers", "counts", "lengths", "longest", "operators", "pickles", "sizes")

    pickles: tuple[bytes | None, ...] | None
    sizes: tuple[tuple[int, ...], ...] | None

    def __init__(
        self,
        counts: tuple[int, ...],
        lengths: tuple[int, ...],
        operators: tuple[int, ...],
        pickles: tuple[bytes | None, ...],
        sizes: tuple[tuple[int, ...], ...],
        *,
        are_alike: bool = False,
    ):
        self.counts, self.lengths, self.operators = counts, lengths, operators
        self.buffers, self.longest = (counts[0], lengths[0]) if are_alike else (max(counts), max(lengths))
        self.are_alike = are_alike
        are_here = None not in pickles
        self.pickles, self.sizes = (pickles, sizes) if are_here else (None, None)

    @classmethod
    def of_equal(cls, row: Row, size: int) -> More:
        """Return what so many rows say that are equal."""
        count, length, operator, data, sizes = row
        every = (count,) * size, (length,) * size, (operator,) * size, (data,) * size, (sizes,) * size
        return cls(*every, are_alike=True)

    def are_equal_bytes(self) -> bool:
        """Return whether the objects are long `bytes` of one length."""
        return self.are_alike and self.pickles is not None and self.pickles[0] == BYTES_OF_BUFFER

    def are_equal(self, size: int) -> bool:
        """Return whether the pickles move in blocks of equal lengths, one for each of so many ranks."""
        return self.buffers == 0 and size * self.longest <= MOST_EQUAL


class Rows:
    """The rows of one call. The row of this rank by itself is number 0. If this rank writes or reads a row for each
    rank, these are number 1 and so on. arguments: those of the native entry that exchanges them. pickle, pickles: the
    memory of row 0, and of each other row, behind the first word; a pickle says itself where it ends.

    collective, root: how they are exchanged. mark: of the composite call, for native code.
    """

    __slots__ = (
        "_all",
        "_bytes",
        "_eager",
        "_is_sent",
        "_rank",
        "_reads_all",
        "_short",
        "_usual",
        "_words",
        "arguments",
        "pickle",
        "pickles",
    )

    def __init__(self, size: int, collective: str, root: int, rank: int, mark: int):
        self._reads_all, self._rank = collective in ("all_gather", "all_to_all"), rank
        self._is_sent = collective in ("broadcast", "scatter")  # by the root
        puts_all = collective == "all_to_all" or (collective == "scatter" and rank == root)
        is_read_alone = self._is_sent and rank != root
        count = 1 + size if self._reads_all or puts_all else 1
        self._bytes = bytearray(ROOM if is_read_alone else count * BYTES)
        self._words = memoryview(self._bytes).cast("q")
        memory = np.frombuffer(self._bytes, np.uint8).reshape(count, -1)
        mine, others = memory[:1], memory[1:]
        self._all = struct.Struct("=" + _FORMAT * (count - 1))
        x, out = others if puts_all else mine, others if self._reads_all else mine
        self._usual: tuple[Any, ...] = (x, out, ROWS, root if self._is_sent else 0, 0, mark)
        if is_read_alone:
            self._usual = (None, *self._usual[1:], BOTH, 0, 0)
        self.arguments = self._usual
        room = memoryview(self._bytes)
        self.pickle = room[WORD:] if is_read_alone else room[WORD:BYTES]
        self.pickles = [room[i * BYTES :][WORD:BYTES] for i in range(1, count)]
        self._short = 0  # longest pickle with which nobody is waited for, and rows for it
        if self._is_sent and rank == root:
            length = EAGER_BYTES // max(size - 1, 1) // WORD * WORD if puts_all else EAGER_BYTES
            self._short = length - WORD
            self._eager = self._sent(bytearray(length * max(count - 1, 1)), length)

    def _sent(self, memory: bytearray, length: int) -> tuple[Callable[..., None], bytearray, tuple[Any, ...]]:
        """Return how a row of this length is written, the memory of all of them, and the arguments that send them."""
        rows = np.frombuffer(memory, np.uint8).reshape(-1, length)
        own = rows if len(rows) == 1 else rows[self._rank : self._rank + 1]
        return struct.Struct(f"=q{length - WORD}s").pack_into, memory, (rows, own, *self._usual[2:])

    def put(self, data: bytes, buffers: Sequence[np.ndarray], operator: int = 0) -> None:
        """Write an object into row 0."""
        if self._is_sent:
            if buffers or len(data) > self._short:
                self._put_longer(((data, buffers),), operator)
            else:
                put, memory, self.arguments = self._eager
                put(memory, 0, len(data) | operator << _OPERATOR_SHIFT, data)
        elif buffers or len(data) > LONGEST:
            self._put_head(0, data, len(data), [buffer.size for buffer in buffers], operator)
        else:
            _put_whole(self._bytes, 0, len(data) | operator << _OPERATOR_SHIFT, data)

    def put_all(self, objects: Sequence[Packed]) -> None:
        """Write an object for each rank."""
        if self._is_sent:
            longest, place = self._short, 0
            put, memory, self.arguments = self._eager
        else:
            longest, place, put, memory = LONGEST, BYTES, _put_whole, self._bytes
        for data, buffers in objects:
            if buffers or len(data) > longest:
                self._put_longer(objects) if self._is_sent else self._put_heads(objects)
                return
            put(memory, place, len(data), data)
            place += WORD + longest

    def _put_longer(self, objects: Sequence[Packed], operator: int = 0) -> None:
        """Write the rows of a root that the others wait for."""
        longest = max([len(data) for data, _ in objects])
        if longest <= LONGEST_SENT and not any(buffers for _, buffers in objects):
            length = align(WORD + longest, WORD)
            put, memory, self.arguments = self._sent(bytearray(length * len(objects)), length)
            for i, (data, _) in enumerate(objects):
                put(memory, i * length, len(data) | operator << _OPERATOR_SHIFT, data)
            return
        self.arguments = self._usual
        if self.pickles:
            self._put_heads(objects)
        else:
            data, buffers = objects[0]
            self._put_head(0, data, len(data), [buffer.size for buffer in buffers], operator)

    def _put_heads(self, objects: Sequence[Packed]) -> None:
        data, buffers = objects[0]
        sizes = [buffer.size for buffer in buffers]
        are_alike = [one is data and [buffer.size for buffer in others] == sizes for one, others in objects]
        if all(are_alike):
            self._put_head(1, data, len(data), sizes, ALIKE)
            self._bytes[BYTES:] = self._bytes[BYTES : 2 * BYTES] * len(objects)
            return
        most, longest = (max([len(one[k]) for one in objects]) for k in (1, 0))
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

    def say_more(self) -> bool:
        """Return whether the call goes on, as native code finds out."""
        if not self._reads_all:
            return bool(self.arguments[1].reshape(-1)[:WORD].view(np.int64)[0] >> SIZE_BITS)
        return any(size >> SIZE_BITS for size in self._all.unpack_from(self._bytes, BYTES)[::2])

    def told(self) -> bytes | tuple[bytes, ...] | More:
        """Return the object of row 0, or those of all ranks; or what the rows say of other parts."""
        return self._get_all() if self._reads_all else self._get()

    def _get(self) -> bytes | More:
        size, data = _ROW.unpack_from(self._bytes)
        return More.of_equal(self._of_row(0, size, data), 1) if size < 0 else data

    def _get_all(self) -> tuple[bytes, ...] | More:
        size, rows = self._words[BYTES // WORD], self._bytes[BYTES:]
        if size < 0 and rows == rows[:BYTES] * len(self.pickles):
            return More.of_equal(self._of_row(1, size), len(self.pickles))
        found = self._all.unpack_from(rows)
        if min(found[::2]) >= 0:
            return found[1::2]
        pairs = zip(found[::2], found[1::2], strict=True)
        return More(*zip(*[self._of_row(i, size, data) for i, (size, data) in enumerate(pairs, 1)], strict=True))

    def _of_row(self, i: int, size: int, data: bytes = b"") -> Row:
        """Return what a row says. size, data: its first word, and the others if it holds an object whole."""
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
        return self._words[(1 + rank) * BYTES // WORD] >> _OPERATOR_SHIFT


def _fits(count: int, length: int) -> bool:
    """Return whether a row has room for the sizes of so many buffers and a pickle of this length."""
    return count * WORD + length <= _ROOM
