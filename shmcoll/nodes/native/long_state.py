"""The part of a group's state that only some calls need, and its use from Python."""

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.engine.compiler.user_operators import of_kernel
from shmcoll.engine.kernels.dtypes import BY_CODE
from shmcoll.engine.layout import LINE, WORD, table_words
from shmcoll.engine.protocol.count_tables import BOTH
from shmcoll.nodes.native import layout as o
from shmcoll.nodes.native.partials import OWN_PLACES, SEGMENT_BYTES
from shmcoll.nodes.native.rails import WHOLE_BYTES

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher
    from shmcoll.nodes.topology import Topology

SPARE = 16 << 10  # bytes behind each part of the memory of reductions, whose shares are not always equal
LONGEST_ELEMENT = 64  # bytes
LONGEST_OFFER = 64 << 10  # bytes of a message of `leaders.py`
FEW_RANKS = 16  # on other nodes: even short blocks go from rank to rank, because native code sends them

#: the routines of the node that calls use: the word of the state that has their call, and arguments of that
IN_NODE = {
    "all_gather_v": (o.GATHER_BLOCKS, (BOTH, 0)),
    "all_to_all_v": (o.SWAP_BLOCKS, (BOTH, 0)),
    "reduce_scatter": (o.REDUCE_BLOCKS, (0, 0, 0)),
    "scan": (o.SCAN, (0, 0, 0)),
    "exscan": (o.EXSCAN, (0, 0, 0)),
}

#: which of them a call uses; others only exchange blocks
_REDUCING = ("reduce_scatter", "all_gather_v", "all_to_all_v")
_USED = {
    "barrier": (),
    "all_gather": ("all_gather_v",),
    "broadcast": ("all_gather_v",),
    "scatter": ("all_to_all_v", "all_gather_v"),
    "all_reduce": _REDUCING,
    "reduce": _REDUCING,
    "reduce_scatter": _REDUCING,
    "scan": (*_REDUCING, "scan"),
    "exscan": (*_REDUCING, "exscan"),
}


class LongCalls:
    """What `state.OpeningState` has of these calls."""

    words: np.ndarray
    most_row: int
    messages: np.ndarray
    slot: np.ndarray
    _dispatcher: "NodesDispatcher"
    _memory: dict[int, np.ndarray]
    _preparing: threading.Lock

    def _write_call(self, name: str, offset: int, x: np.ndarray, out: np.ndarray | None, *extra: int) -> None:
        raise NotImplementedError

    def prepare(self, call: str) -> None:
        """Prepare for a call, before the first one. Two threads may make that at once."""
        with self._preparing:
            self._prepare(call)

    def _prepare(self, call: str) -> None:
        used = _USED.get(call, ("all_to_all_v",))
        for name in used if len(self._dispatcher.topology.local) > 1 else ():
            offset, extra = IN_NODE[name]
            if not self.words[offset // WORD]:
                x = self.slot.reshape(-1)
                out = None if name == "exscan" and self._dispatcher.topology.index == 0 else x
                self._write_call(name, offset, x, out, *extra)
        if used[:1] == ("reduce_scatter",) and o.OWN not in self._memory:
            self._prepare_for_reductions()
        if used == ("all_to_all_v",) and o.OFFERS not in self._memory:
            self._prepare_for_counts()
            self._prepare_for_leaders()

    def _keep(self, *memory: tuple[int, np.ndarray]) -> None:
        for offset, array in memory:
            self._memory[offset] = array
            self.words[offset // WORD] = array.ctypes.data

    def _prepare_for_counts(self) -> None:
        size = self._dispatcher.size
        self._keep(*((offset, np.zeros((size, o.OFFER_WORDS), np.int64)) for offset in (o.OFFERS, o.OFFERED)))
        if WORD * (1 + table_words(size)) <= self.most_row:  # the opening carries tables of so many ranks
            self._keep(
                (o.TABLES, np.zeros((size, table_words(size)), np.int64)),
                (o.SOURCES, np.zeros((size, 2), np.int64)),
            )

    def _prepare_for_leaders(self) -> None:
        topology = self._dispatcher.topology
        self.words[o.DIRECT_BYTES // WORD] = least = direct_bytes(topology)
        if least and topology.index == 0:
            own = len(topology.local) * topology.size * least
            self._keep(*((offset, np.empty(own, np.uint8)) for offset in (o.BY_SENDER, o.BY_RECEIVER)))
            self._keep((o.TO_NODES, np.empty_like(self.messages)))

    def _prepare_for_reductions(self) -> None:
        """Make the memory of reductions. It is the same each time, so that its pages are there."""
        topology = self._dispatcher.topology
        nodes, most, least = len(topology.nodes), max(map(len, topology.nodes)), topology.smallest
        places = nodes * -(-most // least)
        own = max(SEGMENT_BYTES, places * LONGEST_ELEMENT) + SPARE
        part = max(SEGMENT_BYTES // nodes, WHOLE_BYTES if nodes == 2 else 0) + SPARE
        wide = max(own, o.MOST_PARTIAL, self.most_row, own // places * len(topology.local))
        for offset, length, count in (
            (o.OWN, own, OWN_PLACES),
            (o.PARTS, part, 2 * nodes),
            (o.WIDE, wide, 1),
            (o.TOTAL, wide, 1),
        ):
            self._memory[offset] = memory = np.empty(length * count + LINE, np.uint8)
            address = memory.ctypes.data
            self.words[offset // WORD] = address + -address % LINE
        self.words[o.OWN_BYTES // WORD], self.words[o.PART_BYTES // WORD] = own, part

    @property
    def tables(self) -> np.ndarray | None:
        """The tables of counts that all ranks have brought, by rank; None if an opening has no room for them."""
        return self._memory.get(o.TABLES)

    @property
    def offered(self) -> np.ndarray:
        """What all ranks send to this one, in OFFER_WORDS words by rank, if an opening has no room for tables."""
        return self._memory[o.OFFERED]

    @property
    def fits(self) -> bool:
        """Whether what this rank sends and receives fits, in the same case."""
        return bool(self._memory[o.OFFERS][0, 0])

    def exception(self, at_address: Any) -> BaseException:
        """Return what a user's function has raised, after RAISED."""
        dtype, kernel = BY_CODE[self.words.item(o.DTYPE // WORD)].numpy, self.words.item(o.KERNEL // WORD)
        addresses = (self.words.item(word // WORD) for word in (o.FIRST_VALUE, o.SECOND_VALUE))
        values = [at_address(one, dtype.itemsize).view(dtype)[0].item() for one in addresses]
        return of_kernel(kernel).raised(*values)


def direct_bytes(topology: "Topology") -> int:
    """Return the length of the shortest block that goes from rank to rank. Shorter ones travel in the messages of the
    leaders."""
    if topology.size - topology.smallest <= FEW_RANKS:
        return 0
    return LONGEST_OFFER // max(map(len, topology.nodes)) ** 2 + 1
