"""Blocks of a rank's memory for collectives: one for each rank that it exchanges data with."""

from collections.abc import Sequence

import numpy as np

from shmcoll.mpi.abi.memory import Numbers
from shmcoll.mpi.objects.buffers import Buffer, check_apart, checked
from shmcoll.mpi.objects.datatypes import Datatype
from shmcoll.mpi.objects.handles import DATATYPE
from shmcoll.mpi.objects.scratch import scratch


class Blocks:
    """Blocks of a rank's memory, one for each rank, of one datatype.

    counts: how many elements each has. displs: where each begins, in extents of the datatype; None if each begins
    behind the one before.
    """

    def __init__(self, address: int, counts: Sequence[int], datatype: Datatype, displs: Sequence[int] | None = None):
        self._datatype, self.counts = checked(datatype), list(counts)
        ends = np.cumsum([0, *self.counts]).tolist()
        starts = ends[:-1] if displs is None else displs
        self._is_dense = datatype.is_contiguous and (displs is None or list(displs) == ends[:-1])
        self._whole = Buffer(address, ends[-1] if self._is_dense else 0, datatype)
        self.blocks = [
            Buffer(address + start * datatype.extent, count, datatype)
            for start, count in zip(starts, self.counts, strict=True)
        ]

    def check_apart(self, other: "Blocks | Buffer") -> None:
        """Raise if blocks share bytes with those of another buffer of the call."""
        if self._is_dense and (isinstance(other, Buffer) or other._is_dense):
            check_apart(other if isinstance(other, Buffer) else other._whole, self._whole)

    @property
    def lengths(self) -> list[int]:
        """The bytes of each block."""
        return [count * self._datatype.size for count in self.counts]

    def packed(self) -> np.ndarray:
        """Return the bytes of all blocks: the program's own, if they are dense."""
        if self._is_dense:
            return self._whole.whole()
        return packed(self.blocks)

    def target(self) -> np.ndarray:
        """Return bytes to receive all blocks into, to be given to `fill`."""
        return self._whole.whole() if self._is_dense else scratch(sum(self.lengths))

    def fill(self, data: np.ndarray, *, but: int = -1) -> None:
        """Put the bytes of `target` where the blocks belong. but: a block that stays as it is."""
        if self._is_dense:
            return
        start = 0
        for rank, (block, length) in enumerate(zip(self.blocks, self.lengths, strict=True)):
            if rank != but:
                block.fill_from(data[start : start + length])
            start += length


def packed(blocks: Sequence[Buffer]) -> np.ndarray:
    """Return the bytes of blocks, one behind the other."""
    data, start = scratch(sum(block.bytes for block in blocks)), 0
    for block in blocks:
        block.pack_into(data[start : start + block.bytes])
        start += block.bytes
    return data


class Pieces(Blocks):
    """Blocks of which each has a datatype of its own. displs: in bytes."""

    def __init__(self, address: int, counts: Numbers, displs: Numbers, types: Numbers, size: int):
        self._is_dense = False
        self.blocks = [
            Buffer(address + displ, count, DATATYPE.find(handle))
            for count, displ, handle in zip(counts.read(size), displs.read(size), types.read(size), strict=True)
        ]

    @property
    def lengths(self) -> list[int]:
        return [block.bytes for block in self.blocks]
