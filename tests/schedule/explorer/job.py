"""A job to explore: an arena of a few small cells at addresses that do not exist, its ranks, and the launcher.

Each rank runs `body`: its calls one after the other, each with arguments that depend on rank and number, each result
compared.
"""

import copy
import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from shmcoll.collectives import RECORDS
from shmcoll.collectives.barrier import barrier
from shmcoll.engine import atomics, layout
from shmcoll.engine import context as c
from shmcoll.engine.collective import PEER, REDUCING, Collective
from shmcoll.engine.memory import records
from shmcoll.engine.memory.group import Group
from shmcoll.engine.messages import ring_buffers
from shmcoll.engine.native import entry
from shmcoll.engine.native.arguments import ARGUMENT_COUNT, FIXED
from shmcoll.engine.protocol.peer_memory import NO
from shmcoll.engine.protocol.reduction import KERNEL_GIVEN
from tests.schedule.explorer.events import Event, Events, Interrupted
from tests.schedule.explorer.machine import Machine
from tests.schedule.explorer.program import Program, Violation
from tests.schedule.explorer.stand_ins import FIRST_PID, KERNEL, OWNERS, SHARED, WORD, read, write

RING_DISTANCE = 1 << 16

#: from which length on arrays are read where they are
THRESHOLDS = c.SHARED_BYTES, c.DIRECT_BYTES, c.EXCHANGE_BYTES, c.TO_ALL_BYTES, c.EXPOSING_BYTES, c.PACED_BYTES


@cache
def plain(
    make: Callable[..., Callable[[int, int], int]], routine: Callable[[int], int], record: Collective
) -> Callable[[int, int], int]:
    """One function a routine: what a frame closes over belongs to its local state."""
    return make(routine, record)


class Rank:
    """One rank's private memory, and its calls."""

    def __init__(self, job: "Job", number: int, calls: list[Any], event: Event | None):
        self.job = job
        self.number = number
        self.calls = calls
        mail = ring_buffers.mail_words(job.ranks) if job.has_messages else 0
        words = 3 * c.CONTEXT_WORDS + 5 * job.words + 100 + job.ranks + mail + job.more_words
        self.memory = (ctypes.c_int64 * words)()
        self._free = self.first = ctypes.addressof(self.memory)
        self.ctx = self.take(c.CONTEXT_WORDS)
        self.written = self.take(c.CONTEXT_WORDS)  # a call written down, see `engine/native/arguments.py`
        self.counters = self.take(2)  # operations entered, operations done
        self.dims = self.take(2)
        self.table = self.take(layout.table_words(job.ranks))
        self.world = self.take(job.ranks)
        for r in range(job.ranks):
            atomics.poke(self.world + r * WORD, r)
        self.mail = self.take(mail)
        self.rings = self.take(1)  # how many it has made
        self.helpers = self.take(1)
        self.x, self.out, self.scratch = (self.take(job.words) for _ in range(3))
        self.events = Events(self, event)
        self.aside = self._with_other_arguments()
        for offset, value in job.context(self).items():
            self.set(offset, value)

    def _with_other_arguments(self) -> "Rank":
        """The same rank as a signal handler sees it that makes a call of its own."""
        other = copy.copy(self)
        other.written, other.dims = self.take(c.CONTEXT_WORDS), self.take(2)
        other.x, other.out = self.take(self.job.words), self.take(self.job.words)
        self._free = other._free = max(self._free, other._free)
        return other

    def take(self, words: int) -> int:
        address, self._free = self._free, self._free + words * WORD
        assert self._free <= ctypes.addressof(self.memory) + ctypes.sizeof(self.memory)
        return address

    def set(self, offset: int, value: int) -> None:
        """A word of the next call, or of the context."""
        is_argument = c.REDUCTION <= offset <= c.ALGORITHM or offset >= c.X
        atomics.poke((self.written if is_argument else self.ctx) + offset, value)

    def enter(self, routine: Callable[[int], int]) -> int:
        """Make the call that has been written down, by the plain form of its routine, and look what happens then."""
        record = RECORDS[routine.__name__]
        if record.form & REDUCING:
            self.set(KERNEL_GIVEN, KERNEL)
        arguments = FIXED if record.form & PEER else FIXED + 1
        atomics.poke(self.written + ARGUMENT_COUNT, arguments)
        had_left = self.events.has_left
        status = plain(entry.make_plain, routine, record)(self.ctx, self.written)
        if had_left and status != c.BUSY:
            raise Violation("a rank that has left the group was let in again")
        self.events.after_call(status)
        return status

    def view(self, view: int, address: int, words: int) -> None:
        """Fill the X or OUT view with a one-dimensional int64 array."""
        atomics.poke(self.dims, words)
        for field, value in (
            (c.DATA, address),
            (c.COUNT, words),
            (c.ITEM, WORD),
            (c.BYTES, words * WORD),
            (c.DIMENSIONS, 1),
            (c.DIMS, self.dims),
            (c.DTYPE, 5),
        ):
            self.set(view + field, value)

    def body(self) -> int:
        try:
            status = self._call_all()
        except Interrupted:
            status = c.INTERRUPTED
        if status == c.INTERRUPTED:
            self.events.leave()
            self.enter(barrier)
        has_ended = atomics.peek(self.ctx + c.ACTIVE) == c.ENDED
        return c.ABORTED if status == c.BUSY and has_ended else status

    def _publish_witness(self) -> None:
        """As `Dispatcher._publish_witness` does."""
        box, value = self.job.mailbox(self.number), 4711 + self.number
        atomics.poke(self.ctx + c.OWN_WITNESS, value)
        atomics.store_release(box + layout.WITNESS_VALUE, value)
        atomics.store_release(box + layout.WITNESS, self.ctx + c.OWN_WITNESS)

    def _call_all(self) -> int:
        if not atomics.peek(self.ctx + c.READABLE):
            self._publish_witness()
        for number, call in enumerate(self.calls, start=1):
            atomics.hooks.mark()
            atomics.poke(self.counters, number)
            status = call.run(self, number)
            if status != c.OK:
                return status
            call.check(self, number)
            if call.together:
                atomics.poke(self.counters + WORD, number)
        return self.events.catch_up()

    def progress(self) -> tuple[int, int]:
        return atomics.peek(self.counters), atomics.peek(self.counters + WORD)


class Job:
    """`ranks` ranks that make the calls `calls(rank)`. `words` is the length of their longest array. They have made
    `sequence` collectives without steps before. A window is one cell, unless `window_bytes` says otherwise. Arrays of
    which a peer reads `exposing` bytes are exposed. `readable`: what each rank knows of its peers
    (`engine/protocol/peer_memory.py`). `more_words`: of private memory, for what is made of a rank (`nodes.py`)."""

    def __init__(
        self,
        ranks: int,
        calls: Callable[[int], list[Any]],
        events: tuple[Event | None, ...] = (),
        *,
        words: int = 16,
        cell_bytes: int = 256,
        window_bytes: int = 0,
        flat_bytes: int = 256,
        slice_bytes: int = 16,
        polls: int = 0,
        yields: int = 0,
        sequence: int = 0,
        exposing: int = 1 << 40,
        readable: int = NO,
        more_words: int = 0,
    ):
        self.ranks = ranks
        self.more_words = more_words
        self.calls_of = calls
        self.words = words
        self.settings = {
            c.CELL_BYTES: cell_bytes,
            c.WINDOW_BYTES: window_bytes or cell_bytes,
            c.FLAT_BYTES: flat_bytes,
            c.SLICE_BYTES: slice_bytes,
            c.POLLS: polls,
            c.YIELDS: yields,
            **dict.fromkeys((c.SEQUENCE, c.TURN, c.CREDIT), sequence),
            **dict.fromkeys(THRESHOLDS, exposing),
            c.READABLE: readable,
        }
        self.arena = SharedArena(ranks)
        self.has_messages = any(call.is_message for rank in range(ranks) for call in calls(rank))
        met_by = [events[rank] if events else None for rank in range(ranks)]
        self._met = frozenset(rank for rank in range(ranks) if met_by[rank])
        self._interrupts = any(event and event.ends for event in met_by)
        self._ends = self._interrupts or any(call.ends for rank in range(ranks) for call in calls(rank))
        self._ranks = [Rank(self, rank, calls(rank), met_by[rank]) for rank in range(ranks)]

    def machine(self, **options: Any) -> Machine:
        """The job as a machine; its programs start at once, so call it while `exploring`."""
        bells = {self.mailbox(rank) + layout.SEMAPHORE: rank for rank in range(self.ranks)}
        pids = {self.record(rank) + layout.RECORD_PID: FIRST_PID + rank for rank in range(self.ranks)}
        for rank in self._ranks:
            for call in rank.calls:
                pids |= call.shared_words(self)
                bells |= call.doorbells(self)
        programs = [Program(rank.body, rank.memory, rank.progress) for rank in self._ranks]
        programs += [
            Program(body, (ctypes.c_int64 * 1)(), lambda: (1 << 62, 0))
            for body in map(self._other_thread, self._ranks)
            if body
        ]
        return Machine(programs, self._launcher, pids, bells, self._allowed, self.name, met=self._met, **options)

    def _other_thread(self, rank: Rank) -> Callable[[], int] | None:
        """Return what another thread of a rank does, if a call has one: see `calls_of_threads.py`."""
        body = next((call.other_thread(rank) for call in rank.calls if call.is_threaded), None)
        if body:
            atomics.hooks.owners[rank.ctx + c.OWNER] = OWNERS + rank.number * WORD
        return body

    def _launcher(self, killed: int) -> Program:
        def body() -> int:
            records.write(self.arena, killed, layout.BY_LAUNCHER, records.FAILED, records.KILLED, 9)  # type: ignore[arg-type]
            Group.world(self.arena).abort()  # type: ignore[arg-type]
            return c.OK

        return Program(body, (ctypes.c_int64 * 1)(), lambda: (0, 0))

    def _allowed(self, status: int, killed: int) -> bool:
        """What a rank may return: anything but OK needs a reason."""
        if status == c.INTERRUPTED:
            return self._interrupts
        return status == c.OK or (status in (c.ABORTED, c.PEER_LOST) and (self._ends or killed >= 0))

    def context(self, rank: Rank) -> dict[int, int]:
        """As `Communicator._fill_context` fills it."""
        group = SHARED + self.arena.world
        return {
            c.GROUP: group,
            c.RANKS: rank.world,
            c.MAILBOXES: group + layout.mailboxes_offset(self.ranks),
            c.STRIDE: layout.mailbox_bytes(self.ranks),
            c.CELLS: group + layout.cells_offset(self.ranks),
            c.RECORDS: SHARED + layout.record_offset(self.ranks, 0, layout.BY_RANK),
            c.RECORDS_LAUNCHER: SHARED + layout.record_offset(self.ranks, 0, layout.BY_LAUNCHER),
            c.FLIGHTS: group + layout.flight_offset(self.ranks, rank.number),
            c.MAIL: rank.mail,
            c.RINGS: layout.rings_offset(self.ranks),
            **dict.fromkeys((c.STREAM_BYTES, c.TEAM_BYTES), 1 << 40),
            c.RANK: rank.number,
            c.SIZE: self.ranks,
            c.SLEEP: 1,
            c.TIMEOUT: 1,
            c.SCRATCH: rank.scratch,
            c.ARENA: SHARED,
            c.ARENA_BYTES: 1 << 40,
            c.KERNEL: KERNEL,
            c.HELPERS: rank.helpers,
            **self.settings,
        }

    def ring(self, rank: int, number: int) -> int:
        """Offset of the memory for a ring of a rank."""
        return self.world_end + (number * self.ranks + rank) * RING_DISTANCE

    @property
    def world_end(self) -> int:
        return layout.arena_bytes(self.ranks, self.settings[c.WINDOW_BYTES])

    def mailbox(self, rank: int) -> int:
        return SHARED + self.arena.world + layout.mailbox_offset(self.ranks, rank)

    def record(self, rank: int) -> int:
        return SHARED + layout.record_offset(self.ranks, rank, layout.BY_RANK)

    def name(self, address: int) -> str:
        """What lies at a shared address."""
        if address >= OWNERS:
            return f"OWNER of rank {(address - OWNERS) // WORD}"
        offset = address - SHARED
        world = self.arena.world
        if offset < world:
            number, within = divmod(offset - layout.RECORDS, layout.RECORD_BYTES)
            return f"RECORD[{number % self.ranks}] by {number // self.ranks} +{within}"
        if offset >= self.world_end:
            number, within = divmod(offset - self.world_end, RING_DISTANCE)
            return f"ring {number // self.ranks} of rank {number % self.ranks} +{within}"
        offset -= world
        if offset < layout.mailboxes_offset(self.ranks):
            return "ABORT"
        if offset >= layout.cells_offset(self.ranks):
            number, within = divmod(offset - layout.cells_offset(self.ranks), self.settings[c.WINDOW_BYTES])
            return f"CELL {number % 2} of rank {number // 2} +{within}"
        rank, within = divmod(offset - layout.mailboxes_offset(self.ranks), layout.mailbox_bytes(self.ranks))
        names = ("PROGRESS", "PARKED", "SEMAPHORE", "CLOSED")
        words = {getattr(layout, word): word for word in names}
        for half in range(layout.HEADERS):
            base = layout.header_offset(half)
            words[base + layout.HEADER_SEQUENCE] = f"SEQUENCE {half}"
            words[base + layout.HEADER_FINGERPRINT] = f"FINGERPRINT {half}"
            words[base + layout.HEADER_INLINE] = f"INLINE {half}"
        return f"{words.get(within, f'mailbox +{within}')} of rank {rank}"


class SharedArena:
    """What `memory/records.py` needs of an arena, on the machine's memory: the launcher's own code is explored too."""

    def __init__(self, ranks: int):
        self.ranks = ranks
        self.address = SHARED
        self.world = layout.world_offset(ranks)

    def load(self, offset: int) -> int:
        return atomics.load(SHARED + offset)

    def store(self, offset: int, value: int) -> None:
        atomics.store_release(SHARED + offset, value)

    def load_each(self, first: int, stride: int, count: int) -> list[int]:
        return [self.load(first + i * stride) for i in range(count)]

    def fence(self) -> None:
        atomics.fence()

    def read(self, offset: int, length: int) -> bytes:
        words = read(SHARED + offset, -(-length // WORD))
        return b"".join(word.to_bytes(WORD, "little", signed=True) for word in words)[:length]

    def write(self, offset: int, data: bytes) -> None:
        padded = data + bytes(-len(data) % WORD)
        words = tuple(int.from_bytes(padded[i : i + WORD], "little", signed=True) for i in range(0, len(padded), WORD))
        write(SHARED + offset, words)
