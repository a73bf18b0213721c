"""Blocks of bytes between all ranks, for operations that have been agreed on: to ranks of this node through shared
memory, to others by one message for each pair.

`swap` is all_to_all_v with every count known on both sides. Messages to other nodes are begun before the node's part is
moved, and awaited after it. A rank waits only for sends that their ranks begin without waiting for anything, so there
is no circle.
"""

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

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


def gather_everywhere(d: "NodesDispatcher", block: np.ndarray) -> np.ndarray:
    """Return the blocks of all ranks, of equal length in bytes, as rows by rank.

    Rails: rank j of a node sends its block once to each other node, to the rank j (modulo its ranks) there. Then the
    ranks of a node share what they have received. Cost for N nodes: (N - 1) blocks per rank on the wire, and an
    all_gather_v in the node.
    """
    topology = d.topology
    length, mine = block.size, topology.index
    if length == 0:
        return np.empty((d.size, 0), np.uint8)
    pending = Pending(d.channel)
    remote = [node for node in range(len(topology.nodes)) if node != topology.node]
    order = [rank for node in remote for rank in topology.nodes[node]]  # of the ranks of other nodes
    takers = [i % len(topology.local) for node in remote for i in range(len(topology.nodes[node]))]
    received = np.empty((takers.count(mine), length), np.uint8)
    for row, rank in zip(received, (r for r, t in zip(order, takers, strict=True) if t == mine), strict=True):
        pending.recv(row, rank)
    for node in (*remote[topology.node :], *remote[: topology.node]):
        ranks = topology.nodes[node]
        pending.send(block, ranks[mine % len(ranks)])
    result = np.empty((d.size, length), np.uint8)
    result[list(topology.local)] = d.inner.all_gather(block).reshape(-1, length)
    d.wait(pending)
    if order:
        counts = [takers.count(i) * length for i in range(len(topology.local))]
        shared, _ = d.inner.all_gather_v(received.reshape(-1), recv_counts=counts)
        by_taker = sorted(range(len(order)), key=lambda k: takers[k])  # stable: as each taker has them
        result[[order[k] for k in by_taker]] = shared.reshape(-1, length)
    return result


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
