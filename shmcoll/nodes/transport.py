"""Blocks of bytes between all ranks, for operations that have been agreed on. Native code moves them
(`native/long_moves.py`).
"""

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from shmcoll.nodes.wire import as_bytes

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher

Counts = Sequence[int] | np.ndarray


def swap(
    d: "NodesDispatcher",
    source: np.ndarray,
    send_counts: Counts,
    send_displs: Counts,
    target: np.ndarray,
    recv_counts: Counts,
    recv_displs: Counts,
) -> None:
    """Send a block to every rank, and receive one from every rank. All arrays, counts and displacements are in bytes,
    with an entry for each rank of the group. `swap` is all_to_all_v with every count known on both sides."""
    d.agreement.state.prepare("all_to_all_v")
    rows = [np.ascontiguousarray(row, np.int64) for row in (send_counts, send_displs, recv_counts, recv_displs)]
    sent, begins, received, places = (row.ctypes.data for row in rows)
    given = np.array([source.ctypes.data, sent, begins, target.ctypes.data, received, places], np.int64)
    d.agreement.move("swap", given.ctypes.data)


def gather_everywhere(d: "NodesDispatcher", block: np.ndarray, into: np.ndarray | None = None) -> np.ndarray:
    """Return the blocks of all ranks, of equal length in bytes, as rows by rank.

    into: memory for the rows. It may hold the block as this rank's row, and overlaps it nowhere else.
    """
    rows = np.empty((d.size, block.size), np.uint8) if into is None else into
    if block.size:
        d.agreement.state.prepare("all_gather_v")
        d.agreement.move("gather_everywhere", block.ctypes.data, block.size, rows.ctypes.data)
    return rows


def at_address(address: int, length: int) -> np.ndarray:
    """Return the bytes at an address, which the caller keeps alive."""
    if length == 0:
        return np.empty(0, np.uint8)
    memory = (ctypes.c_uint8 * length).from_address(address)
    return np.frombuffer(memoryview(memory), np.uint8)


def table_at(address: int, words: int) -> np.ndarray:
    """Return words at an address, which the caller keeps alive."""
    return at_address(address, 8 * words).view(np.int64)


def put(target: np.ndarray, found: np.ndarray) -> None:
    """Copy bytes into a C-contiguous array."""
    as_bytes(target)[:] = found


__all__ = ["at_address", "gather_everywhere", "put", "swap", "table_at"]
