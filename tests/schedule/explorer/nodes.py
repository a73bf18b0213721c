"""A job over nodes: leaders that send messages to each other through `channels.py`, and ranks that share a node.

Each rank has what `nodes/algorithms/state.py` makes, in explored memory, and makes the calls of
`nodes/algorithms/collectives.py` on it. If calls differ, it goes on as `nodes/agreement.py` says, and ends with TOLD
and the number of the call that it tells. The first node may have several ranks, which share the machine's memory.
"""

import ctypes
from collections.abc import Callable
from typing import Any

from shmcoll.collectives import RECORDS
from shmcoll.engine import atomics, layout
from shmcoll.engine import context as c
from shmcoll.engine.layout import WORD
from shmcoll.engine.native.arguments import ARGUMENT_COUNT, FIXED
from shmcoll.nodes.algorithms.state import IN_NODE
from shmcoll.nodes.opening import layout as o
from shmcoll.nodes.opening.node_calls import UINT8
from shmcoll.nodes.opening.requests import PIECES_WORDS
from tests.schedule.explorer import channels
from tests.schedule.explorer.disagreement import Disagreement, Told
from tests.schedule.explorer.job import Job, Rank
from tests.schedule.explorer.machine import Machine
from tests.schedule.explorer.program import Program
from tests.schedule.explorer.stand_ins_over_nodes import ENDED, PAST_CALLS, SLOT_BYTES

TOLD = 1000  # and the number of a call: the status of a rank that is told that calls differ

MESSAGE_BYTES = channels.MOST_WORDS * WORD
PUBLISHED_WORDS = 64
MORE_WORDS = 2000  # of private memory
IN_NODE_USED = {place: IN_NODE[place][0] for place in (o.GATHER_SLOTS, o.COLLECT, o.PUBLISH)}


class RankOverNodes:
    """A rank, made of one of the group of its node: `inner`."""

    def __init__(self, job: "JobOverNodes", inner: Rank, number: int, calls: list[Any]):
        self.job, self.inner, self.number, self.calls = job, inner, number, calls
        self.node, self.index = job.places[number]
        take = inner.take
        self.ctx, self.state, self.x, self.out = (
            take(words) for words in (c.CONTEXT_WORDS, o.STATE_WORDS, job.words, job.words)
        )
        self.dims = take(2)
        self.set(c.RANK, number)
        self.set(c.SIZE, job.size)
        self.set(o.STATE, self.state)
        self._fill()
        self.disagreement = Disagreement(self)

    def set(self, offset: int, value: int) -> None:
        atomics.poke(self.ctx + offset, value)

    def get(self, offset: int) -> int:
        """Return a word of the state."""
        return atomics.peek(self.state + offset)

    def _fill(self) -> None:
        job, local, take = self.job, self.job.sizes[self.node], self.inner.take
        starts = [sum(job.sizes[:node]) for node in range(len(job.sizes) + 1)]
        slot, mpi = take(SLOT_BYTES // WORD), take(channels.words_of(len(job.sizes)))
        slots = take(local * SLOT_BYTES // WORD) if local > 1 else slot
        room = 4 * len(job.sizes)
        for offset, value in {
            o.INNER: self.inner.ctx,
            o.NODES: len(job.sizes),
            o.NODE: self.node,
            o.LOCAL: local,
            o.IS_LEADER: self.index == 0,
            o.SHARES: max(job.sizes) > 1,
            o.MEMBERS: self._words(list(range(job.size))),
            o.STARTS: self._words(starts),
            o.WORLD_RANKS: self._words([node for node, _ in job.places]),  # MPI has the leaders only
            o.HOMES: self._words([node for node, _ in job.places]),
            o.INDICES: self._words([index for _, index in job.places]),
            o.SLOT: slot,
            o.SLOTS: slots,
            o.PUBLISHED: take(PUBLISHED_WORDS),
            o.MESSAGES: take(len(job.sizes) * channels.MOST_WORDS),
            o.MESSAGE_BYTES: MESSAGE_BYTES,
            o.ISEND: channels.ISEND,
            o.IRECV: channels.IRECV,
            o.TEST: channels.TEST,
            o.TYPE_OF_PIECES: channels.TYPE_OF_PIECES,
            o.TYPE_COMMIT: channels.TYPE_COMMIT,
            o.TYPE_FREE: channels.TYPE_FREE,
            o.PIECES: take(PIECES_WORDS),
            o.COMM: mpi,
            o.REQUESTS: take(o.LANES * room),
            o.PENDING: take(o.LANES * room),
            o.ROOM: room,
            o.BEGUN: take(2 * o.LANES),
            o.FLAG: take(1),
            o.WATCH: self.state,
            o.CALLED: take(layout.HEADER_BYTES // WORD),
            o.PAST: take(PAST_CALLS * layout.HEADER_BYTES // WORD),
            o.SCRATCH: take(channels.MOST_WORDS),
            o.MOST_ROW: 160,
            o.HELD: take(len(job.sizes)),
            o.RANK: self.number,
            o.INDEX: self.index,
            o.IN_RANK_ORDER: 1,
        }.items():
            atomics.poke(self.state + offset, value)
        for offset, value in (
            (channels.NODE, self.node),
            (channels.NODES, len(job.sizes)),
            (channels.KEPT, job.kept),
        ):
            atomics.poke(mpi + offset, value)
        for offset, name in IN_NODE_USED.items() if local > 1 else ():
            self._write_call(offset, name, slot, slots, local)

    def _words(self, values: list[int]) -> int:
        place = self.inner.take(len(values))
        for i, value in enumerate(values):
            atomics.poke(place + i * WORD, value)
        return place

    def _write_call(self, offset: int, name: str, slot: int, slots: int, local: int) -> None:
        """As `OpeningState._write_call` does."""
        written, has_result = self.inner.take(c.CONTEXT_WORDS), name != "gather" or self.index == 0
        atomics.poke(written + ARGUMENT_COUNT, FIXED + 1)
        shapes = self._words([self._view(written + c.X, slot, SLOT_BYTES), self.inner.take(1)])
        if has_result:
            length = SLOT_BYTES * local if offset == o.GATHER_SLOTS else SLOT_BYTES
            atomics.poke(shapes + WORD, self._view(written + c.OUT, slots, length))
        routine = list(RECORDS).index(name)
        for i, word in enumerate((routine, written, shapes)):
            atomics.poke(self.state + offset + i * WORD, word)

    def _view(self, view: int, address: int, length: int) -> int:
        """Describe an array of bytes. Return the address of its dimensions."""
        dims = self._words([length])
        fill_view(view, address, length, 1, UINT8, dims)
        return dims

    def body(self) -> int:
        try:
            return self._call_all()
        except Told as told:
            return TOLD + told.number

    def _call_all(self) -> int:
        for number, call in enumerate(self.calls, start=1):
            atomics.poke(self.inner.counters, number)
            status = call.run(self, number)
            if status == c.MISMATCH and self.get(o.VERDICT) != o.UNLIKE_HERE:
                self.disagreement.tell(call.name)
            if status != call.wanted(self):
                return status
            call.check(self, number)
            if call.together:
                atomics.poke(self.inner.counters + WORD, number)
        return c.OK


class JobOverNodes:
    """Nodes of so many ranks, and the calls of each rank. allowed: whether a rank may return a status. kept: see
    `channels.py`."""

    def __init__(
        self,
        sizes: tuple[int, ...],
        calls: Callable[[int], list[Any]],
        allowed: Callable[[int], bool],
        *,
        kept: int,
        words: int = 27,
    ):
        self.sizes, self.kept, self.words = sizes, kept, words
        self.places = [(node, index) for node, size in enumerate(sizes) for index in range(size)]
        self.size = len(self.places)
        self._allowed = allowed
        assert max(sizes[1:]) == 1, "only the ranks of the first node share memory"
        self._groups = [Job(size, lambda _: [], more_words=MORE_WORDS) for size in sizes]
        self._ranks = [
            RankOverNodes(self, self._groups[node]._ranks[index], rank, calls(rank))
            for rank, (node, index) in enumerate(self.places)
        ]

    def machine(self, **options: Any) -> Machine:
        first = self._groups[0]
        bells = {first.mailbox(rank) + layout.SEMAPHORE: rank for rank in range(self.sizes[0])}
        programs = [Program(rank.body, rank.inner.memory, rank.inner.progress) for rank in self._ranks]
        return Machine(programs, _nobody, {}, bells, lambda status, _: self._allowed(status), self.name, **options)

    def name(self, address: int) -> str:
        """What lies at a shared address."""
        if address == ENDED:
            return "whether the job has ended"
        if address >= channels.CHANNELS:
            return channels.name(len(self.sizes), address)
        return self._groups[0].name(address)


def _nobody(_killed: int) -> Program:
    return Program(lambda: c.OK, (ctypes.c_int64 * 1)(), lambda: (0, 0))


def fill_view(view: int, address: int, count: int, item: int, dtype: int, dims: int) -> None:
    """Fill an X or OUT view with a one-dimensional array. dims: where its length is."""
    for field, value in (
        (c.DATA, address),
        (c.COUNT, count),
        (c.ITEM, item),
        (c.BYTES, count * item),
        (c.DIMENSIONS, 1),
        (c.DIMS, dims),
        (c.DTYPE, dtype),
    ):
        atomics.poke(view + field, value)
