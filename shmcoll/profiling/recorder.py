"""Record what this rank calls: make its region and switch native code on, and write what only Python knows.

`engine/protocol/profile.py` has the protocol and the tables of the region. This file writes the head, the slots and the
notes, and the totals of composite calls.

    slot     {the next slot of the same text, or 0; length here; bytes}. A text is known by the number of its first
             slot; slot 0 stays free. Its first letter says what it is: a name, a group (identity and members), or a
             thread. Nothing that has been written is changed. When no slot is left, texts have the number 0
    note     begin, end, waited, name, thread, group | kind << 32, bytes, 1 + its number

A note is written by one call of `struct`, which keeps the GIL; its number comes from `itertools.count`. So threads and
signal handlers may write notes at any time: each has a place of its own, until the ring comes round. A note that has
been written half has another number in its last word, and readers drop it. Notes are written with a lock, without which
the ring is not given back: its memory may be an array a moment later.
"""

import ctypes
import itertools
import os
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from shmcoll.engine import atomics, layout
from shmcoll.engine import context as c
from shmcoll.engine.collective import OPERATION_CODES
from shmcoll.engine.compiler import compile as code
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.engine.memory.heap import Heap
from shmcoll.engine.native import profile_calls
from shmcoll.engine.protocol import profile as p
from shmcoll.engine.system.cycle_counter import is_a_clock
from shmcoll.engine.system.text import to_bytes
from shmcoll.errors import ArenaError

SPANS = 1 << 16  # a power of two
FEWEST_SPANS = 1 << 10
SLOTS = 1 << 12

NAME, GROUP, NODES_GROUP, THREAD = "n", "g", "N", "t"  # the first letter of a text
IN_RANGE, IN_FRONT_END, IN_COMPOSITE = range(3)  # kinds of notes

SLOT = struct.Struct("=II120s")
NOTE = struct.Struct("=8q")
WAIT = "Work.wait"
WAIT_ROW = p.COMPOSITE_ROWS - 1  # that no composite call has

_LONGEST = 1000  # characters of a name


class Profile:
    """What a communicator records. words: for native code, see `engine/protocol/profile.py`. kind: GROUP, or
    NODES_GROUP, whose ranks are numbers in the job."""

    def __init__(self, recorder: "Recorder", kind: str, identity: str, ranks: tuple[int, ...]):
        self.recorder = recorder
        self.words = np.zeros(p.PROFILE_WORDS, np.int64)
        self.group = recorder.text(kind, f"{identity}:{_ranges(ranks)}")
        self.words[[p.RECORDER // WORD, p.GROUP // WORD]] = recorder.words.ctypes.data, self.group
        self.words[[p.BEGIN // WORD, p.END // WORD, p.WAIT // WORD]] = recorder.functions
        self.words[p.USES_CLOCK // WORD] = not is_a_clock() or bool(atomics.hooks)  # routines in Python read the clock

    @property
    def waited(self) -> int:
        """The ns that the calls of the communicator have waited so far."""
        return int(self.words[p.WAITED // WORD])

    @property
    def is_inside(self) -> bool:
        """Whether a composite call is recorded now, so that other calls are parts of it."""
        return bool(self.words[p.PARTS // WORD])

    @contextmanager
    def composite(self, name: str, words: np.ndarray) -> Iterator[None]:
        """Record the block as one call, whose parts native code records, unless it is a part itself. words: the
        context."""
        if self.is_inside:
            yield
            return
        waited, moved, begun = self.waited, int(words[c.MOVED // WORD]), time.monotonic_ns()
        self.words[p.PARTS // WORD] += 1
        try:
            yield
        finally:
            self.words[p.PARTS // WORD] -= 1
            waited, moved = self.waited - waited, int(words[c.MOVED // WORD]) - moved
            ended = self.recorder.note(IN_COMPOSITE, name, begun, waited, moved, self.group)
            self.recorder.count(layout.COMPOSITE_NAMES.index(name), moved, ended - begun, waited)


class Recorder:
    """The profile of this rank. Raises `ArenaError` if there is no memory for it."""

    def __init__(self, arena: Arena, heap: Heap, rank: int):
        self.arena, self.rank = arena, rank
        self._heap = heap
        self.functions = code.load_functions(profile_calls.NAME, profile_calls.functions)
        self.words = np.zeros(p.RECORDER_WORDS, np.int64)
        self._pid = os.getpid()
        self._numbers: dict[str, int] = {}
        self._is_full = False
        self._next_slot, self._next_note = itertools.count(1), itertools.count()
        self._writing = threading.RLock()  # of totals and notes; signal handlers write, too
        self._notes = 0  # how many there may be, and where
        self._ring = 0
        self._trace = 0  # offset of the block with notes and spans
        self._tracing = self._counted = 0  # how many want each call, and totals
        self.offset = heap.take(p.region_bytes(arena.ranks, SLOTS), "the profile")
        region = arena.address + self.offset
        self._texts = region + p.slots_offset(arena.ranks)
        for offset, value in (
            (p.REGION, region),
            (p.TOTALS, region + p.totals_offset(arena.ranks)),
            (p.WAITED_FOR, region + p.HEAD_BYTES),
        ):
            self.words[offset // WORD] = value
        for offset, value in (
            (p.HEAD_RANKS, arena.ranks),
            (p.HEAD_SLOTS, SLOTS),
            (p.HEAD_MAIN, threading.main_thread().ident or 0),
            (p.HEAD_BEGAN, time.monotonic_ns()),
            (p.HEAD_MAGIC, p.MAGIC),
        ):
            arena.store(self.offset + offset, value)
        for thread in threading.enumerate():
            if thread.name == "shmcoll-worker":
                self.know_thread(thread.ident or 0)
        arena.store(layout.directory_offset(arena.ranks, rank) + layout.PROFILE, self.offset)

    def attach(self, group: Group, words: np.ndarray, *, is_part: bool) -> Profile:
        """Record the calls of a communicator from now on. words: its context. is_part: they are parts of the calls of
        another one."""
        which = [group.arena.load(group.offset + layout.IDENTITY + i * WORD) & (1 << 64) - 1 for i in (0, 1)]
        profile = Profile(self, GROUP, f"{which[0]:x}.{which[1]:x}", group.ranks)
        profile.words[p.PARTS // WORD] = is_part
        return self._attached(profile, words)

    def attach_over_nodes(self, number: int, ranks: tuple[int, ...], words: np.ndarray) -> Profile:
        """Do the same for a group over nodes. number: with the first rank, what tells it from others of the job."""
        return self._attached(Profile(self, NODES_GROUP, f"{number}.{ranks[0]}", ranks), words)

    def _attached(self, profile: Profile, words: np.ndarray) -> Profile:
        words[c.PROFILE // WORD] = profile.words.ctypes.data
        self.arena.store(self.offset + p.HEAD_ENDED, 0)
        return profile

    def note_clock(self, difference: int, accuracy: int) -> None:
        """Note what to add to times for the clock of node 0, and by how many ns that may be wrong."""
        self.arena.store(self.offset + p.HEAD_OFFSET, difference)
        self.arena.store(self.offset + p.HEAD_ACCURACY, accuracy)

    def note_end(self) -> None:
        """Note that this rank leaves."""
        if os.getpid() == self._pid:
            self.arena.store(self.offset + p.HEAD_ENDED, time.monotonic_ns())

    def begin(self, *, traces: bool) -> None:
        """Note that somebody wants totals, or each call. Raises `ArenaError` if there is no memory for the calls."""
        if traces and not self._tracing:
            self._begin_trace()
        self._tracing += traces
        self._counted += not traces

    def end(self, *, traces: bool) -> bool:
        """Note that they do not want it any more. Returns whether somebody else does."""
        self._tracing -= traces
        self._counted -= not traces
        if traces and not self._tracing:
            self._end_trace()
        if not (self._tracing or self._counted):
            self.note_end()
        return bool(self._tracing or self._counted)

    def _begin_trace(self) -> None:
        """Record each call from now on: the last SPANS ones, or fewer if there is too little memory."""
        capacity = SPANS
        while True:
            try:
                trace = self._heap.take(p.trace_bytes(capacity), "a timeline of calls")
                break
            except ArenaError:
                if capacity <= FEWEST_SPANS:
                    raise
                capacity //= 2
        self._trace, self._ring, self._next_note = trace, self.arena.address + trace, itertools.count()
        self._notes = capacity // p.NOTE_SHARE  # last: another thread may end a range
        for offset, value in ((p.HEAD_COUNT, 0), (p.HEAD_TRACE, trace), (p.HEAD_CAPACITY, capacity)):
            self.arena.store(self.offset + offset, value)
        self.words[p.COUNT // WORD], self.words[p.MASK // WORD] = 0, capacity - 1
        self.words[p.SPANS // WORD] = self._ring + p.spans_offset(capacity)  # last: another thread may end a call

    def _end_trace(self) -> None:
        """Record only totals from now on, and forget the calls. Native code writes spans with the GIL only."""
        self.words[p.SPANS // WORD] = 0
        with self._writing:  # of another thread, which may be about to write a note
            self._notes = 0
        self.arena.store(self.offset + p.HEAD_CAPACITY, 0)
        self._heap.give(self._trace)

    # --- what only Python knows ---------------------------------------------------------------------------------------

    def note(self, kind: int, name: str, begun: int, waited: int = 0, length: int = 0, group: int = 0) -> int:
        """Write a note of what began at `begun` and ends now. Return the time."""
        ended = time.monotonic_ns()
        if self._notes and os.getpid() == self._pid:
            words = begun, ended, waited, self.text(NAME, name), threading.get_ident(), group | kind << 32, length
            with self._writing:
                if notes := self._notes:
                    number = next(self._next_note)
                    place = self._ring + number % notes * p.NOTE_BYTES
                    NOTE.pack_into((ctypes.c_char * p.NOTE_BYTES).from_address(place), 0, *words, number + 1)
        return ended

    def note_wait(self, begun: int) -> None:
        """Write, and count, the wait of a thread for a receive that has been posted. The receive itself is the call of
        the thread that finds its message there."""
        passed = self.note(IN_FRONT_END, WAIT, begun) - begun
        self.count(WAIT_ROW, 0, passed, passed)

    def text(self, kind: str, text: str) -> int:
        """Return the number of a text, which is written when it is first used. kind: its first letter."""
        text = kind + text[:_LONGEST] if kind == NAME else kind + text
        number = self._numbers.get(text, 0)
        if number == 0 and not self._is_full:
            number = self._numbers.setdefault(text, self._write(to_bytes(text)))
        return number

    def _write(self, data: bytes) -> int:
        pieces = [data[i : i + p.SLOT_BYTES - 8] for i in range(0, len(data), p.SLOT_BYTES - 8)]
        slots = [next(self._next_slot) for _ in pieces]
        if slots[-1] >= SLOTS:
            self._is_full = True
            return 0
        for slot, following, piece in zip(slots[::-1], [0, *slots[:0:-1]], pieces[::-1], strict=True):
            place = (ctypes.c_char * p.SLOT_BYTES).from_address(self._texts + slot * p.SLOT_BYTES)
            SLOT.pack_into(place, 0, following, len(piece), piece)
        return slots[0]

    def know_thread(self, thread: int) -> None:
        """Note that this thread is a worker of asynchronous calls."""
        self.text(THREAD, str(thread))

    def count(self, composite: int, length: int, passed: int, waited: int) -> None:
        """Count a composite call. composite: its code, or WAIT_ROW."""
        if os.getpid() == self._pid:
            row = (OPERATION_CODES + composite) * p.SIZES + length.bit_length()
            where = self.arena.address + self.offset + p.totals_offset(self.arena.ranks) + row * p.TOTAL_BYTES
            totals = (ctypes.c_int64 * 4).from_address(where)
            with self._writing:
                for i, value in enumerate((1, length, passed, min(waited, passed))):
                    totals[i] += value


def _ranges(ranks: tuple[int, ...]) -> str:
    """Return ranks as '0-3,7'."""
    pieces: list[list[int]] = []
    for rank in ranks:
        if pieces and pieces[-1][1] == rank - 1:
            pieces[-1][1] = rank
        else:
            pieces.append([rank, rank])
    return ",".join(f"{first}-{last}" if first < last else str(first) for first, last in pieces)


#: that of this process; `shmcoll.range` and front ends write there
current: Recorder | None = None


def forget() -> None:
    """Record nothing any more: this process is a fork of a rank."""
    global current
    current = None


os.register_at_fork(after_in_child=forget)
