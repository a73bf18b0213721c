"""Rows of bytes, one for each object, by which a call for objects begins.

    row    {size, length, pickle, zeros}. size: the bytes of the pickle, if the row holds it, else -1 - how many buffers
           the longest list of buffers has that all ranks must move. length: the bytes of the object's frame

A pickle says itself where it ends. The rows of a call are used again by later ones.
"""

import struct
from collections.abc import Sequence
from itertools import repeat

import numpy as np

from shmcoll.calls.pickling import Packed, Received
from shmcoll.engine.layout import WORD

BYTES = 512  # of a row
LONGEST = BYTES - 2 * WORD  # bytes of a pickle in a row

_FORMAT = f"qq{LONGEST}s"
_ROW, _HEAD = struct.Struct("=" + _FORMAT), struct.Struct("=qq")


class Rows:
    """The rows of one call. mine: that of this rank, by itself, which is number 0; all: one for each rank, from number
    1 on."""

    def __init__(self, size: int):
        self._bytes = bytearray((1 + size) * BYTES)
        memory = np.frombuffer(self._bytes, np.uint8).reshape(-1, BYTES)
        self.mine, self.all = memory[:1], memory[1:]
        self._all = struct.Struct("=" + _FORMAT * size)

    def put(self, i: int, data: bytes, buffers: Sequence[np.ndarray]) -> bool:
        """Write an object into row i. Return whether it holds it, so that no other part is needed."""
        size = len(data)
        if size > LONGEST or buffers:
            _HEAD.pack_into(self._bytes, i * BYTES, -1 - len(buffers), (1 + len(buffers)) * WORD + size)
            return False
        _ROW.pack_into(self._bytes, i * BYTES, size, WORD + size, data)
        return True

    def put_all(self, objects: Sequence[Packed]) -> None:
        """Write an object for each rank. If one of them needs other parts, all rows say so."""
        is_whole = True
        for i, one in enumerate(objects, 1):
            is_whole &= self.put(i, *one)
        if not is_whole:
            _, most, lengths = self.get_all()
            for i, length in enumerate(lengths, 1):
                _HEAD.pack_into(self._bytes, i * BYTES, -1 - most, length)

    def get(self) -> tuple[bytes | None, int, int]:
        """Return the pickle of row 0. None if it is not there: then how many buffers are moved, and the length of its
        frame."""
        size, length, data = _ROW.unpack_from(self._bytes)
        return (None, -1 - size, length) if size < 0 else (data, -1, length)

    def get_all(self) -> tuple[list[Received], int, tuple[int, ...]]:
        """Return the objects of all ranks, -1, and the lengths of their frames. If one of them is not there, then
        nothing, how many buffers are moved, and these lengths."""
        found = self._all.unpack_from(self._bytes, BYTES)
        least, lengths = min(found[::3]), found[1::3]
        return ([], -1 - least, lengths) if least < 0 else ([*zip(found[2::3], repeat(()))], -1, lengths)
