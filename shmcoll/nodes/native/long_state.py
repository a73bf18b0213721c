"""The part of a group's state that long calls need, and its use from Python."""

from typing import TYPE_CHECKING

import numpy as np

from shmcoll.engine.kernels.dtypes import BY_NUMPY
from shmcoll.engine.layout import LINE, WORD, table_words
from shmcoll.engine.protocol.count_tables import BOTH
from shmcoll.nodes.native import layout as o
from shmcoll.nodes.native.partials import OWN_PLACES, SEGMENT_BYTES
from shmcoll.nodes.native.rails import WHOLE_BYTES

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher

SPARE = 16 << 10  # bytes behind each part of the memory of reductions, whose shares are not always equal
LONGEST_ELEMENT = 64  # bytes

#: the routines of the node that long calls use: the word of the state that has their call, and arguments of that
IN_NODE = {
    "all_gather_v": (o.GATHER_BLOCKS, (BOTH, 0)),
    "all_to_all_v": (o.SWAP_BLOCKS, (BOTH, 0)),
    "reduce_scatter": (o.REDUCE_BLOCKS, (0, 0, 0)),
}


class LongCalls:
    """What `state.OpeningState` has of long calls."""

    words: np.ndarray
    most_row: int
    slot: np.ndarray
    _dispatcher: "NodesDispatcher"
    _memory: dict[int, np.ndarray]

    def _write_call(self, name: str, offset: int, x: np.ndarray, out: np.ndarray | None, *extra: int) -> None:
        raise NotImplementedError

    def prepare(self, *routines: str) -> None:
        """Prepare for moves that call these routines of the node's group."""
        for name in routines if len(self._dispatcher.topology.local) > 1 else ():
            offset, extra = IN_NODE[name]
            if not self.words[offset // WORD]:
                self._write_call(name, offset, self.slot.reshape(-1), self.slot.reshape(-1), *extra)

    def prepare_for_counts(self) -> bool:
        """Prepare for calls with counts. Return whether the opening of one carries the tables of so many ranks."""
        self.prepare("all_to_all_v")
        size = self._dispatcher.size
        carries = WORD * (1 + table_words(size)) <= self.most_row
        if carries and o.ROW not in self._memory:
            self._memory |= {
                o.ROW: np.zeros(self.most_row, np.uint8),
                o.TABLES: np.zeros((size, table_words(size)), np.int64),
                o.SOURCES: np.zeros((size, 2), np.int64),
            }
            for offset in (o.ROW, o.TABLES, o.SOURCES):
                self.words[offset // WORD] = self._memory[offset].ctypes.data
        return carries

    @property
    def tables(self) -> np.ndarray:
        """The tables of counts that all ranks have brought, by rank."""
        return self._memory[o.TABLES]

    def prepare_for_reduction(self) -> None:
        """Prepare for reductions of long arrays: their memory is the same each time, so that its pages are there."""
        topology = self._dispatcher.topology
        self.prepare("reduce_scatter", "all_gather_v")
        if o.OWN in self._memory:
            return
        nodes, most, least = len(topology.nodes), max(map(len, topology.nodes)), topology.smallest
        places = nodes * -(-most // least)
        own = max(SEGMENT_BYTES, places * LONGEST_ELEMENT) + SPARE
        part = max(SEGMENT_BYTES // nodes, WHOLE_BYTES if nodes == 2 else 0) + SPARE
        for offset, length, count in ((o.OWN, own, OWN_PLACES), (o.PARTS, part, 2 * nodes)):
            self._memory[offset] = memory = np.empty(length * count + LINE, np.uint8)
            address = memory.ctypes.data
            self.words[offset // WORD] = address + -address % LINE
        self.words[o.OWN_BYTES // WORD], self.words[o.PART_BYTES // WORD] = own, part

    def describe_reduction(self, source: np.ndarray, result: np.ndarray, *what: int) -> None:
        """Write which reduction is made. what: operator, its identity, kernel, whether it is ordered."""
        words = (source.ctypes.data, result.ctypes.data, result.size, *what)
        offsets = (o.SOURCE, o.RESULT, o.ELEMENTS, o.KIND, o.IDENTITY, o.KERNEL, o.ORDERED)
        for offset, word in zip(offsets, words, strict=True):
            self.words[offset // WORD] = word
        self.words[o.DTYPE // WORD], self.words[o.ITEM // WORD] = BY_NUMPY[source.dtype].code, source.itemsize

    def describe_blocks(self, counts: np.ndarray, places: np.ndarray) -> None:
        """Write which blocks a reduce_scatter has, by rank. Both arrays must live as long as the call."""
        self.words[o.COUNTS_OF_BLOCKS // WORD] = counts.ctypes.data
        self.words[o.PLACES_OF_BLOCKS // WORD] = places.ctypes.data
        self.words[o.ELEMENTS // WORD] = counts.max(initial=0)

    @property
    def values_that_raised(self) -> tuple[int, int]:
        """The addresses of the values for which a user's function has raised, after RAISED."""
        return self.words.item(o.FIRST_VALUE // WORD), self.words.item(o.SECOND_VALUE // WORD)
