"""Packing: the bytes of elements one behind the other."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from shmcoll.mpi.objects.buffers import Buffer


def pack(buffer: "Buffer") -> np.ndarray:
    """Return the bytes of the elements, packed."""
    return _memory(buffer)[_places(buffer)]


def unpack(buffer: "Buffer", data: np.ndarray) -> None:
    """Put packed bytes where the elements belong. There may be fewer than the elements have."""
    _memory(buffer)[_places(buffer)[: len(data)]] = data


def _memory(buffer: "Buffer") -> np.ndarray:
    from shmcoll.mpi.objects.buffers import memory_at

    low, high = buffer.datatype.span(buffer.count) if buffer.count else (0, 0)
    return memory_at(buffer.address + low, high - low)


def _places(buffer: "Buffer") -> np.ndarray:
    """Return the place in `_memory` of each byte."""
    datatype, runs = buffer.datatype, buffer.datatype.runs
    if not buffer.bytes:
        return np.zeros(0, np.int64)
    starts = np.repeat(runs.offsets - np.cumsum(runs.lengths) + runs.lengths, runs.lengths)
    one = starts + np.arange(datatype.size)
    return (np.arange(buffer.count)[:, None] * datatype.extent + one).ravel() - datatype.span(buffer.count)[0]
