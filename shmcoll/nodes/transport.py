"""Blocks of bytes between all ranks, for operations that have been agreed on: to ranks of this node through shared
memory, to others by one message for each pair.

`swap` is all_to_all_v with every count known on both sides. Messages to other nodes are begun before the node's part is
moved, and awaited after it. A rank waits only for sends that their ranks begin without waiting for anything, so there
is no circle.
"""

import ctypes
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.nodes.wire import Pending, as_bytes

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
    with an entry for each rank of the group."""
    pending, local = Pending(d.channel), list(d.topology.local)
    others = [(d.rank + i) % d.size for i in range(1, d.size)]
    others = [rank for rank in others if rank not in set(local)]
    for peer in reversed(others):
        pending.recv(target[recv_displs[peer] :][: recv_counts[peer]], peer)
    for peer in others:
        pending.send(source[send_displs[peer] :][: send_counts[peer]], peer)
    if len(local) == 1:
        begin, place, length = send_displs[d.rank], recv_displs[d.rank], send_counts[d.rank]
        target[place : place + length] = source[begin : begin + length]
    else:
        rows = (np.asarray(row, np.int64)[local] for row in (send_counts, send_displs, recv_counts, recv_displs))
        sent, begins, received, places = rows
        d.inner.all_to_all_v(source, sent, begins, recv_counts=received, recv_displs=places, out=target)
    d.wait(pending)


def gather_everywhere(d: "NodesDispatcher", block: np.ndarray, into: np.ndarray | None = None) -> np.ndarray:
    """Return the blocks of all ranks, of equal length in bytes, as rows by rank.

    into: memory for the rows. It may hold the block as this rank's row, and overlaps it nowhere else.

    Rails: rank j of a node sends its block once to each other node, to the rank j (modulo its ranks) there. Then the
    ranks of a node share what they have received, from one node after the other. Cost for N nodes: (N - 1) blocks per
    rank on the wire, and an all_gather_v in the node for each of them.
    """
    topology = d.topology
    length, mine, here = block.size, topology.index, len(topology.local)
    rows = np.empty((d.size, length), np.uint8) if into is None else into
    if length == 0:
        return rows
    pending = Pending(d.channel)
    remote = [ranks for node, ranks in enumerate(topology.nodes) if node != topology.node]
    received = []
    for ranks in remote:
        taken = ranks[mine::here]  # by this rank
        got = [rows[rank] for rank in taken] if here == 1 else np.empty((len(taken), length), np.uint8)
        received.append(got)
        for row, rank in zip(got, taken, strict=True):
            pending.recv(row, rank)
    for ranks in (*remote[topology.node :], *remote[: topology.node]):
        pending.send(block, ranks[mine % len(ranks)])
    _share(d, block, [1] * here, topology.local, rows)
    d.wait(pending)
    for ranks, got in zip(remote, received, strict=True):
        if isinstance(got, np.ndarray):
            _share(d, got, [len(ranks[i::here]) for i in range(here)], _by_taker(ranks, here), rows)
    return rows


def _share(
    d: "NodesDispatcher", own: np.ndarray, counts: Sequence[int], ranks: Sequence[int], rows: np.ndarray
) -> None:
    """Write the blocks that the ranks of this node have into the rows of `ranks`; each has so many, one after the
    other."""
    length = rows.shape[1]
    found = rows[ranks[0] : ranks[-1] + 1] if _are_neighbours(ranks) else np.empty((len(ranks), length), np.uint8)
    if len(counts) == 1:
        found[:] = own.reshape(-1, length)
    elif len(set(counts)) == 1:
        d.inner.all_gather(own.reshape(-1), out=found.reshape(-1))
    else:
        d.inner.all_gather_v(own.reshape(-1), recv_counts=[one * length for one in counts], out=found.reshape(-1))
    if not _are_neighbours(ranks):
        rows[list(ranks)] = found


def _by_taker(ranks: Sequence[int], takers: int) -> list[int]:
    """Return ranks in the order in which the takers 0, 1, ... have their blocks."""
    return [rank for taker in range(takers) for rank in ranks[taker::takers]]


def _are_neighbours(ranks: Sequence[int]) -> bool:
    """Return whether the rows of these ranks follow one another."""
    return all(after == rank + 1 for rank, after in pairwise(ranks))


def staging(d: "NodesDispatcher", key: Any, count: int, dtype: np.dtype) -> np.ndarray:
    """Return memory of the group for what is received, the same for a key each time, so that its pages are there."""
    kept = d.staging.get(key)
    if kept is None or kept.size < count * dtype.itemsize:
        kept = d.staging[key] = np.empty(count * dtype.itemsize, np.uint8)
    return kept[: count * dtype.itemsize].view(dtype)


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


__all__ = ["at_address", "gather_everywhere", "put", "staging", "swap", "table_at"]
