"""The state of the calls of one group over nodes, and its use from Python."""

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from shmcoll.collectives import RECORDS
from shmcoll.engine.compiler.user_operators import of_kernel
from shmcoll.engine.kernels.dtypes import BY_CODE
from shmcoll.engine.layout import HEADER_BYTES, HEADER_SEQUENCE, WORD, table_words
from shmcoll.engine.memory.node_words import UNNAMED
from shmcoll.engine.native import entry
from shmcoll.engine.native.arguments import written_call
from shmcoll.engine.native.tables import ROUTINES
from shmcoll.engine.protocol.count_tables import BOTH
from shmcoll.engine.protocol.sync import mix
from shmcoll.engine.system import log
from shmcoll.nodes.algorithms import long_moves, memory
from shmcoll.nodes.algorithms.collectives import MOVES, load
from shmcoll.nodes.algorithms.rooted_calls import MOST_FOLLOWING
from shmcoll.nodes.mpi.wire import DATA, OPENING, at_address, awaited, table_at
from shmcoll.nodes.opening import layout as o
from shmcoll.nodes.opening.fingerprint import positive
from shmcoll.nodes.opening.opening import stride_of
from shmcoll.nodes.opening.requests import PIECES_WORDS

if TYPE_CHECKING:
    from shmcoll.nodes.interfaces import NodesDispatcher

ROOM_FOR_PARTS = 256  # requests of a lane beside those that each rank needs: an array may be sent in parts of 1 GiB
LONGEST_ROWS = 256 << 10  # bytes that an opening sends from one node to another in rows
MOST_PUBLISHED = 1 << 20  # bytes of all ranks that all get in an opening

#: the routines of the node that calls use: the word of the state that has their plain form, and arguments of the call
IN_NODE = {
    o.GATHER_SLOTS: ("all_gather", ()),
    o.COLLECT: ("gather", ()),
    o.PUBLISH: ("broadcast", ()),
    o.GATHER_BLOCKS: ("all_gather_v", (BOTH, 0)),
    o.SWAP_BLOCKS: ("all_to_all_v", (BOTH, 0)),
    o.REDUCE_BLOCKS: ("reduce_scatter", (0, 0, 0)),
    o.SCAN: ("scan", (0, 0, 0)),
    o.EXSCAN: ("exscan", (0, 0, 0)),
}


class OpeningState:
    """The memory of the openings of one group. watch(turn): called while a leader waits for MPI."""

    def __init__(self, d: "NodesDispatcher", watch: Callable[[int], None]):
        topology, size = d.topology, d.size
        nodes, local, most_ranks = len(topology.nodes), len(topology.local), max(map(len, topology.nodes))
        self._size = size
        self._dispatcher = d
        most = min(LONGEST_ROWS // most_ranks, MOST_PUBLISHED // size)
        self.most_row = max(most, o.MOST_IN_SLOT) // WORD * WORD
        self.words = np.zeros(o.STATE_WORDS, np.int64)
        self.slot = np.zeros((1, o.SLOT_BYTES), np.uint8)
        slots = np.zeros((local, o.SLOT_BYTES), np.uint8) if local > 1 else self.slot
        of_root = o.MOST_IN_SLOT + MOST_FOLLOWING
        published = np.zeros((2 + nodes) * WORD + max(stride_of(self.most_row) * size, of_root), np.uint8)
        room = max(memory.LONGEST_OFFER, self.most_row * most_ranks, of_root)
        messages = np.zeros((nodes, o.HEAD + room), np.uint8)
        room = 4 * size + ROOM_FOR_PARTS
        self.pending = np.zeros(o.LANES * room, np.int64)
        self.requests = np.zeros(o.LANES * room, np.int64)
        self._begun = np.zeros((o.LANES, 2), np.int64)
        self._watch = watch
        counts = np.array([len(ranks) for ranks in topology.nodes], np.int64)
        homes, indices = np.array(topology.places, np.int64).T.copy()
        members = np.array([rank for ranks in topology.nodes for rank in ranks], np.int64)
        self.called = np.zeros(HEADER_BYTES // WORD, np.int64)
        self.past = np.zeros((o.PAST_CALLS, HEADER_BYTES // WORD), np.int64)
        of_reductions, sizes = memory.for_reductions(topology, self.most_row)
        self._memory: memory.Memory = {
            o.HOMES: homes,
            o.INDICES: indices,
            o.SLOT: self.slot,
            o.SLOTS: slots,
            o.PUBLISHED: published,
            o.MESSAGES: messages,
            o.MEMBERS: members,
            o.STARTS: np.array([0, *np.cumsum(counts)], np.int64),
            o.WORLD_RANKS: np.array(d.channel.ranks, np.int64),
            o.REQUESTS: self.requests,
            o.PENDING: self.pending,
            o.BEGUN: self._begun,
            o.PIECES: np.zeros(PIECES_WORDS, np.int64),
            o.FLAG: np.zeros(1, np.int64),
            o.STATUS: np.zeros(64, np.int64),
            o.SCRATCH: np.zeros(self.most_row, np.uint8),
            o.CALLED: self.called,
            o.TABLE: np.zeros(table_words(local), np.int64),
            o.BLOCKS: np.zeros((2, local), np.int64),
            o.BLOCK_ROWS: np.zeros((long_moves.BLOCK_ROWS_COUNT, size), np.int64),
            o.PART_PLACES: np.zeros(nodes, np.int64),
            o.ROW_PLACES: np.zeros(size, np.int64),
            o.SHAPE: np.zeros(o.SHAPE_WORDS, np.int64),
            o.HELD: np.zeros(nodes, np.int64),
            o.PAST: self.past,
            **memory.for_counts(size, self.most_row),
            **memory.for_leaders(topology, messages),
            **of_reductions,
        }
        self._kept: list[Any] = []
        self._fill(d, sizes | {o.ROOM: room, o.MESSAGE_BYTES: messages.shape[1]})
        for offset, (name, extra) in IN_NODE.items() if local > 1 else ():
            self._write_call(name, offset, extra)
        d.words[o.STATE // WORD] = self.words.ctypes.data
        with d.local_rank.compiling():
            self.functions = load(log.info)
        self._moves = {
            name: ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)(self.functions[name])
            for name, (_, arguments) in MOVES.items()
        }

    def _fill(self, d: "NodesDispatcher", sizes: dict[int, int]) -> None:
        topology, wire = d.topology, d.channel.wire
        for offset, array in self._memory.items():
            self.words[offset // WORD] = array.ctypes.data
        for offset, value in (
            (o.INNER, d.inner._dispatcher.words.ctypes.data),
            (o.NODES, len(topology.nodes)),
            (o.NODE, topology.node),
            (o.LOCAL, len(topology.local)),
            (o.IS_LEADER, topology.index == 0),
            (o.SHARES, topology.size > len(topology.nodes)),
            (o.RANK, topology.rank),
            (o.INDEX, topology.index),
            (o.RAILS, d.leaders),
            (o.DIRECT_BYTES, memory.direct_bytes(topology)),
            (o.ISEND, wire.function("MPI_Isend")),
            (o.IRECV, wire.function("MPI_Irecv")),
            (o.TEST, wire.function("MPI_Test")),
            (o.TYPE_OF_PIECES, wire.function("MPI_Type_create_hindexed")),
            (o.TYPE_COMMIT, wire.function("MPI_Type_commit")),
            (o.TYPE_FREE, wire.function("MPI_Type_free")),
            (o.BYTE, ctypes.c_int64(wire.mpi.BYTE.handle).value),
            (o.COMM, ctypes.c_int64(wire.comm.handle).value),
            (o.OPENING_TAG, d.channel.tag(OPENING)),
            (o.DATA_TAG, d.channel.tag(DATA)),
            (o.POLLS, d.progress.polls),
            (o.WATCH, id(self._watch)),
            (o.MOST_ROW, self.most_row),
            (o.RECORD, d.recorder.address),
            (o.IN_RANK_ORDER, topology.in_rank_order),
            *sizes.items(),
        ):
            self.words[offset // WORD] = value

    def _write_call(self, name: str, offset: int, extra: tuple[int, ...]) -> None:
        """Write the plain form of a routine of the node's group, its call in memory, and the addresses of its shapes
        into the state, from a word on. extra: arguments behind the usual ones. `node_calls.py` writes the arrays."""
        index = self._dispatcher.topology.index
        x, out = (self.slot, self._memory[o.SLOTS]) if offset == o.GATHER_SLOTS else (self.slot[0], self.slot[0])
        has_result = {"gather": index == 0, "exscan": index > 0}.get(name, True)
        dispatcher = self._dispatcher.inner._dispatcher
        routine = dispatcher.routine(name)
        plain = int(dispatcher.words[ROUTINES // WORD + RECORDS[name].code])
        if not plain:  # faults are injected: it runs as Python
            assert isinstance(routine, entry.PlainEntry)
            plain = ctypes.cast(routine._routine, ctypes.c_void_p).value or 0
        call = written_call(x, out if has_result else None, 0, 0, 0, 0, *extra)
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
    def number(self) -> int:
        """The number of the last call."""
        return self.called.item(HEADER_SEQUENCE // WORD)

    @property
    def verdict(self) -> int:
        """UNLIKE, PARTLY_UNLIKE or UNLIKE_HERE, after MISMATCH."""
        return self.words.item(o.VERDICT // WORD)

    @property
    def runs_ahead(self) -> bool:
        """Whether this rank has not waited for all others in its last call."""
        return bool(self.words.item(o.AHEAD // WORD))

    @property
    def is_suspect(self) -> bool:
        """Whether this leader waits for all others because it has found another call in a message."""
        return bool(self.words.item(o.IS_SUSPECT // WORD))

    def remember(self) -> None:
        """Note the call that is described in CALLED; see `running_ahead.remember`."""
        self.past[self.number % o.PAST_CALLS] = self.called

    def begin_again(self) -> None:
        """Forget what has been called, after ranks have disagreed."""
        self.words[o.HISTORY // WORD] = 0

    @property
    def theirs(self) -> tuple[int, tuple[int, ...]]:
        """The dtype, with its mark, and the dimensions of the root's array, after UNLIKE_HERE."""
        address = self.words.item(o.THEIRS // WORD)
        dtype, dimensions = table_at(address, 2).tolist()
        return dtype, tuple(table_at(address + 2 * WORD, dimensions).tolist())

    @property
    def failed(self) -> tuple[str, int]:
        """The routine of the node that has failed, or MPI, and its status or MPI's error, after UNREADABLE."""
        name, _ = IN_NODE.get(self.words.item(o.FAILED // WORD), ("MPI", ()))
        return name, self.words.item(o.FAILED_STATUS // WORD)

    def missing(self) -> list[int]:
        """Return the ranks whose messages have not come; if all have, those that have not taken theirs."""
        return awaited([(one % 2 == 0, (one - 1) // 2) for one in self.pending.tolist() if one > 0])

    @property
    def bytes_on_their_way(self) -> int:
        """The bytes of all messages that this rank waits for."""
        return int(self._begun[:, 1].sum())

    def sleeps(self, sleeps: bool) -> None:
        """Say whether the function that a waiting rank calls sleeps."""
        self.words[o.SLEEPS // WORD] = sleeps

    def abandoned(self) -> list[tuple[int, bool]]:
        """Return the handles of the requests that are not complete, and whether they receive."""
        left = self.pending != 0
        return [
            (int(handle), one % 2 == 0) for handle, one in zip(self.requests[left], self.pending[left], strict=True)
        ]

    @property
    def tables(self) -> np.ndarray | None:
        """The tables of counts that all ranks have contributed, by rank; None if an opening has no room for them."""
        return self._memory.get(o.TABLES)

    @property
    def offered(self) -> np.ndarray:
        """What all ranks send to this one, in OFFER_WORDS words by rank, if an opening has no room for tables."""
        return self._memory[o.OFFERED]

    @property
    def fits(self) -> bool:
        """Whether what this rank sends and receives fits, in the same case."""
        return bool(self._memory[o.OFFERS][0, 0])

    def exception(self) -> BaseException:
        """Return what a user's function has raised, after RAISED."""
        dtype, kernel = BY_CODE[self.words.item(o.DTYPE // WORD)].numpy, self.words.item(o.KERNEL // WORD)
        addresses = (self.words.item(word // WORD) for word in (o.FIRST_VALUE, o.SECOND_VALUE))
        values = [at_address(one, dtype.itemsize).view(dtype)[0].item() for one in addresses]
        return of_kernel(kernel).raised(*values)

    # --- from Python --------------------------------------------------------------------------------------------------

    def open_rows(self, fingerprint: int, contributed: np.ndarray) -> int:
        """Make an opening in which this rank contributes some bytes. Returns its status; see `opening.open_rows`."""
        words = self.slot[0].view(np.int64)
        self.words[o.SEQUENCE // WORD] += 1
        self.words[o.APART_BYTES // WORD] = self.words[o.APART_STEP // WORD] = 0
        history = mix(self.words.item(o.HISTORY // WORD), positive(fingerprint))
        self.words[o.HISTORY // WORD] = history
        words[0], words[1] = positive(history), 0
        d = self._dispatcher
        d.recorder.begin(RECORDS[d.operation].code if d.operation in RECORDS else UNNAMED, self.sequence)
        if contributed.size <= o.MOST_IN_SLOT:
            self.slot[0, o.SLOT_DATA : o.SLOT_DATA + contributed.size] = contributed
        return self._move("open_rows", contributed.ctypes.data, contributed.size)

    def _move(self, name: str, *arguments: int) -> int:
        """Call a function of MOVES. Returns its status."""
        return int(self._moves[name](self.words.ctypes.data, *arguments))

    def swap(self, source: np.ndarray, target: np.ndarray, counts: np.ndarray, displs: np.ndarray) -> int:
        """Exchange a block with every rank; see `Agreement.swap`. Returns the status."""
        rows = self._memory[o.BLOCK_ROWS]
        rows[[long_moves.SENT, long_moves.RECEIVED]] = counts
        rows[[long_moves.SENT_FROM, long_moves.RECEIVED_AT]] = displs
        return self._move("swap", source.ctypes.data, target.ctypes.data)

    def function(self, name: str) -> Callable[..., int]:
        """Return a function of MOVES that takes other memory than this."""
        return self._moves[name]

    def rows(self, length: int) -> np.ndarray:
        """Return what all ranks have contributed, as rows by rank."""
        rows = np.empty((self._size, length), np.uint8)
        self._move("copy_rows", rows.ctypes.data, length)
        return rows

    def entry(self, name: str, words: np.ndarray) -> Callable[..., int]:
        """Return the native entry of a call, on the context of the group."""
        return entry.make_callable(name, self.functions[name], self.functions[f"plain_{name}"], words)
