"""The state of native openings (`opening.py`) of one group, and its use from Python."""

import ctypes
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.collectives import RECORDS
from shmcoll.engine.kernels.dtypes import BY_NUMPY
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory.node_words import UNNAMED
from shmcoll.engine.native import entry
from shmcoll.nodes.short import layout as o
from shmcoll.nodes.short.collectives import FUNCTIONS, STATE, load
from shmcoll.nodes.short.marks import KEY_WORDS, MOST_DIMENSIONS, TABLE_WORDS, enter, write_key
from shmcoll.nodes.short.opening import numbered, stride
from shmcoll.nodes.wire import DATA, OPENING

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher

LONGEST_OFFER = 64 << 10  # bytes that `agreement.open` carries from node to node
LONGEST_ROWS = 256 << 10  # bytes that an opening carries from one node to another in rows
MOST_KEYS = 1024  # whose entries Python remembers
MOST_TOLD = 1 << 20  # bytes of all ranks that all get in an opening


class OpeningState:
    """The memory of the openings of one group. watch(turn): called while a leader waits for MPI."""

    def __init__(self, d: "NodesDispatcher", watch: Callable[[int], None]):
        topology, size = d.topology, d.size
        nodes, local = len(topology.nodes), len(topology.local)
        self._size = size
        self._dispatcher = d
        most = min(LONGEST_ROWS // max(map(len, topology.nodes)), MOST_TOLD // size)
        self.most_row = max(most, o.MOST_BROUGHT) // WORD * WORD
        self.words = np.zeros(o.STATE_WORDS, np.int64)
        self.slot = np.zeros((1, o.SLOT_BYTES), np.uint8)
        self.slots = np.zeros((local, o.SLOT_BYTES), np.uint8) if local > 1 else self.slot
        self.told = np.zeros(WORD + stride(self.most_row) * size, np.uint8)
        room = max(LONGEST_OFFER, self.most_row * max(map(len, topology.nodes)))
        self.messages = np.zeros((nodes, o.HEAD + room), np.uint8)
        self.pending = np.zeros((nodes, 2), np.int64)
        self.requests = np.zeros((nodes, 2), np.int64)
        self._watch = watch
        counts = np.array([len(ranks) for ranks in topology.nodes], np.int64)
        homes, indices = np.array(topology.places, np.int64).T.copy()
        self._places = (np.cumsum(counts) - counts)[homes] + indices
        peers = np.array([d.channel.ranks[ranks[0]] for ranks in topology.nodes], np.int64)
        self._entries: dict[tuple[Any, ...], int] = {}  # the entry of the table of a key
        self._entered: dict[int, tuple[Any, ...]] = {}  # the key that an entry has
        self._memory: dict[int, np.ndarray] = {  # by the word of the state that has its address
            o.COUNTS: counts,
            o.PLACES: self._places,
            o.HOMES: homes,
            o.INDICES: indices,
            o.SLOT: self.slot,
            o.SLOTS: self.slots,
            o.TOLD: self.told,
            o.MESSAGES: self.messages,
            o.PEERS: peers,
            o.REQUESTS: self.requests,
            o.PENDING: self.pending,
            o.FLAG: np.zeros(1, np.int64),
            o.STATUS: np.zeros(64, np.int64),
            o.SCRATCH: np.zeros(self.most_row, np.uint8),
            o.KEYS: np.zeros(TABLE_WORDS, np.int64),
            o.KEY: np.zeros(KEY_WORDS, np.int64),
        }
        self._kept: list[Any] = []
        self._fill(d)
        d.words[STATE // WORD] = self.words.ctypes.data
        with d.local_rank.compiling():
            self.functions = load(_tell)
        kind = ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)
        self._open_rows, self._spread = (kind(self.functions[name]) for name in ("open_rows", "spread"))

    def _fill(self, d: "NodesDispatcher") -> None:
        topology, wire = d.topology, d.channel.wire
        for offset, memory in self._memory.items():
            self.words[offset // WORD] = memory.ctypes.data
        for offset, value in (
            (o.INNER, d.inner._dispatcher.words.ctypes.data),
            (o.NODES, len(topology.nodes)),
            (o.NODE, topology.node),
            (o.LOCAL, len(topology.local)),
            (o.IS_LEADER, topology.index == 0),
            (o.MESSAGE_BYTES, self.messages.shape[1]),
            (o.ISEND, wire.function("MPI_Isend")),
            (o.IRECV, wire.function("MPI_Irecv")),
            (o.TEST, wire.function("MPI_Test")),
            (o.BYTE, ctypes.c_int64(wire.mpi.BYTE.handle).value),
            (o.COMM, ctypes.c_int64(wire.comm.handle).value),
            (o.OPENING_TAG, d.channel.tag(OPENING)),
            (o.DATA_TAG, d.channel.tag(DATA)),
            (o.POLLS, d.progress.polls),
            (o.WATCH, id(self._watch)),
            (o.MOST_ROW, self.most_row),
            (o.RECORD, d.recorder.address),
        ):
            self.words[offset // WORD] = value
        if len(topology.local) > 1:
            whole = self.slots.reshape(-1) if topology.index == 0 else None  # which `opening.collect` replaces
            self._write_call(d, "all_gather", o.GATHER_SLOTS, self.slot, self.slots)
            self._write_call(d, "gather", o.COLLECT, self.slot.reshape(-1), whole)
            self._write_call(d, "broadcast", o.PUBLISH, self.told, self.told)

    def _write_call(self, d: "NodesDispatcher", name: str, offset: int, x: np.ndarray, out: np.ndarray | None) -> None:
        """Write the plain form of a routine of the node's group, its call in memory, and the addresses of its shapes
        into the state, from a word on."""
        dispatcher = d.inner._dispatcher
        routine = dispatcher.routine(name)
        plain = int(dispatcher.words[entry.ROUTINES // WORD + RECORDS[name].code])
        if not plain:  # faults are injected: it runs as Python
            assert isinstance(routine, entry.PlainEntry)
            plain = ctypes.cast(routine._routine, ctypes.c_void_p).value or 0
        call = entry.written_call(x, out, 0, 0, 0, 0)
        assert call is not None
        written, shapes = call
        addresses = np.array([shape.ctypes.data for shape in shapes], np.int64)
        self._kept += [written, shapes, addresses]
        for i, word in enumerate((plain, written.ctypes.data, addresses.ctypes.data)):
            self.words[offset // WORD + i] = word

    # --- what it says -------------------------------------------------------------------------------------------------

    @property
    def sequence(self) -> int:
        """The number of the last opening."""
        return self.words.item(o.SEQUENCE // WORD)

    @property
    def verdict(self) -> int:
        """UNLIKE or PARTLY_UNLIKE, after MISMATCH."""
        return self.words.item(o.VERDICT // WORD)

    @property
    def failed(self) -> tuple[str, int]:
        """The routine of the node that has failed, or MPI, and its status or MPI's error, after UNREADABLE."""
        names = {o.GATHER_SLOTS: "all_gather", o.COLLECT: "gather", o.PUBLISH: "broadcast"}
        return names.get(self.words.item(o.FAILED // WORD), "MPI"), self.words.item(o.FAILED_STATUS // WORD)

    def missing(self) -> list[int]:
        """Return the nodes whose message has not come."""
        return [int(node) for node in np.flatnonzero(self.pending[:, 0])]

    def abandoned(self) -> list[int]:
        """Return the handles of the requests that are not complete."""
        return [int(one) for one in self.requests[self.pending != 0]]

    # --- from Python --------------------------------------------------------------------------------------------------

    def next_slot(self, first: int, second: int) -> None:
        """Write the marks of this rank's next call into its slot."""
        words = self.slot[0].view(np.int64)
        self.words[o.SEQUENCE // WORD] += 1
        words[0], words[1] = numbered(first, self.sequence), second
        d = self._dispatcher
        d.recorder.begin(RECORDS[d.operation].code if d.operation in RECORDS else UNNAMED, self.sequence)

    def open_rows(self, first: int, second: int, brought: np.ndarray, only: int) -> int:
        """Make an opening in which this rank brings some bytes. Returns its status; see `opening.open_rows`."""
        self.next_slot(first, second)
        if brought.size <= o.MOST_BROUGHT:
            self.slot[0, o.BROUGHT : o.BROUGHT + brought.size] = brought
        return int(self._open_rows(self.words.ctypes.data, brought.ctypes.data, brought.size, only))

    def spread(self, array: np.ndarray, root: int) -> int:
        """Copy the bytes of the root to all ranks. Returns a status; see `opening.spread`."""
        return int(self._spread(self.words.ctypes.data, array.ctypes.data, array.size, root))

    def rows(self, length: int) -> np.ndarray:
        """Return what all ranks have brought, as rows by rank."""
        if length == 0:
            return np.empty((self._size, 0), np.uint8)
        by_place = self.told[WORD:][: self._size * stride(length)].reshape(self._size, -1)[:, :length]
        return by_place[self._places]

    def row(self, length: int) -> np.ndarray:
        """Return what the one rank has brought; there until the next opening."""
        return self.told[WORD:][:length]

    def entry(self, name: str, words: np.ndarray) -> Callable[..., int] | None:
        """Return the native entry of a short call, if it has one, on the context of the group."""
        if name not in FUNCTIONS or not entry.FAST:
            return None
        return entry.make_callable(name, self.functions[name], 0, words)

    def remember(
        self, name: str, marks: tuple[int, int], operand: np.ndarray | None, reduction: int, root: int
    ) -> None:
        """Let native code make calls of this form by itself. marks: of the words that describe it."""
        shape = operand.shape if operand is not None else ()
        dtype = BY_NUMPY[operand.dtype].code if operand is not None else 0
        key = name, reduction, dtype, root, shape
        if len(shape) > MOST_DIMENSIONS or self._entered.get(self._entries.get(key, 0)) == key:
            return
        written, dims = np.zeros(KEY_WORDS, np.int64), np.array([*shape, 0], np.int64)
        place = written.ctypes.data
        write_key(place, RECORDS[name].code, reduction, dtype, root, len(shape), dims.ctypes.data)
        entry = enter(self.words.ctypes.data, place, *marks)
        if len(self._entries) >= MOST_KEYS:  # a program whose shapes change all the time
            self._entries.clear()
        self._entries[key], self._entered[entry] = entry, key


def _tell(progress: str) -> None:
    print(f"shmcoll: {progress}", file=sys.stderr)
