"""Private memory of one rank for the calls of its group, by the word of the state that has its address (`layout.py`).

It is made with the group, and untouched pages cost nothing. All calls use the same, so its pages are there.
"""

from typing import TYPE_CHECKING

import numpy as np

from shmcoll.engine.layout import LINE, WORD, table_words
from shmcoll.nodes.algorithms.count_rows import MOST_BYTES
from shmcoll.nodes.algorithms.partials import OWN_PLACES, SEGMENT_BYTES
from shmcoll.nodes.algorithms.reduce_long import WHOLE_BYTES
from shmcoll.nodes.opening import layout as o

if TYPE_CHECKING:
    from shmcoll.nodes.mpi.topology import Topology

SPARE = 16 << 10  # bytes behind each part of the memory of reductions, whose shares are not always equal
LONGEST_ELEMENT = 64  # bytes
LONGEST_OFFER = 64 << 10  # bytes of a message of `leaders.py`
FEW_RANKS = 16  # on other nodes: even short blocks go from rank to rank, because native code sends them

Memory = dict[int, np.ndarray]


def for_counts(size: int, most_row: int) -> Memory:
    """Return the memory of calls with counts, with TABLES if an opening has room for tables of so many ranks."""
    memory: Memory = {offset: np.zeros((size, o.OFFER_WORDS), np.int64) for offset in (o.OFFERS, o.OFFERED)}
    if 2 * WORD + MOST_BYTES * table_words(size) <= most_row:
        memory[o.TABLES] = np.zeros((size, table_words(size)), np.int64)
        memory[o.SOURCES] = np.zeros((size, 2), np.int64)
    return memory


def direct_bytes(topology: "Topology") -> int:
    """Return the length of the shortest block that goes from rank to rank. Shorter ones travel in the messages of the
    leaders."""
    if topology.size - topology.smallest <= FEW_RANKS:
        return 0
    return LONGEST_OFFER // max(map(len, topology.nodes)) ** 2 + 1


def for_leaders(topology: "Topology", messages: np.ndarray) -> Memory:
    """Return the memory of `leaders.py`."""
    own = len(topology.local) * topology.size * direct_bytes(topology)
    return {
        o.BY_SENDER: np.empty(own, np.uint8),
        o.BY_RECEIVER: np.empty(own, np.uint8),
        o.TO_NODES: np.empty_like(messages),
    }


def for_reductions(topology: "Topology", most_row: int) -> tuple[Memory, dict[int, int]]:
    """Return the memory of reductions, which begins at a cache line, and the words of the state that have its sizes."""
    nodes, most, least = len(topology.nodes), max(map(len, topology.nodes)), topology.smallest
    places = nodes * -(-most // least)
    own = max(SEGMENT_BYTES, places * LONGEST_ELEMENT) + SPARE
    part = max(SEGMENT_BYTES // nodes, WHOLE_BYTES if nodes == 2 else 0) + SPARE
    wide = max(own, o.MOST_PARTIAL, most_row, own // places * len(topology.local))
    memory = {
        offset: _aligned(length)
        for offset, length in (
            (o.OWN, own * OWN_PLACES),
            (o.PARTS, part * 2 * nodes),
            (o.WIDE, wide),
            (o.TOTAL, wide),
        )
    }
    return memory, {o.OWN_BYTES: own, o.PART_BYTES: part}


def _aligned(length: int) -> np.ndarray:
    memory = np.empty(length + LINE, np.uint8)
    return memory[-memory.ctypes.data % LINE :][:length]
