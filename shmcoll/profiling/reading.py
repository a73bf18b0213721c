"""Read the profiles of all ranks from an arena, also those of ranks that have been killed.

Any process that maps the arena may read, at any time. `engine/protocol/profile.py` says in which order words are
written, and which spans of a rank that still records are whole. No word is trusted: another process may have written
over it. What makes no sense is left out, and no number that is read leads to an address outside of the region.
"""

import hashlib
import struct
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from shmcoll.collectives import RECORDS, record_of
from shmcoll.diagnostics.describe_call import call_in_words
from shmcoll.engine import layout
from shmcoll.engine.collective import ANY_SOURCE, OPERATION_CODES, PEER
from shmcoll.engine.kernels.dtypes import BY_CODE
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory import heap
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.node_words import read_facts, read_numbers
from shmcoll.engine.messages.ring_buffers import FOREIGN_TYPE, OBJECT
from shmcoll.engine.native.profile_calls import part_of_thread
from shmcoll.engine.protocol import profile as p
from shmcoll.engine.system.text import to_bytes, to_text
from shmcoll.profiling.recorder import (
    GROUP,
    IN_COMPOSITE,
    IN_FRONT_END,
    IN_RANGE,
    NAME,
    NODES_GROUP,
    NOTE,
    SLOT,
    THREAD,
    WAIT,
    WAIT_ROW,
)
from shmcoll.profiling.spans import CALL, FRONT_END, MAIN, MESSAGE, PART, RANGE, WORKER, RankProfile, Span, Total

_SPAN = struct.Struct("=8q")
_DIGITS = 20  # most of a number
_KINDS = {IN_RANGE: RANGE, IN_FRONT_END: FRONT_END, IN_COMPOSITE: CALL}


def profiles(arena: Arena) -> list[RankProfile]:
    """Return the profile of each rank that has recorded one, in order of ranks. It may be called at any time."""
    found = []
    for rank in range(arena.ranks):
        if (region := _region(arena, rank)) and (one := read(arena, rank)):
            found.append(shifted(one, region.word(p.HEAD_OFFSET), 0.0, region.word(p.HEAD_ACCURACY)))
    return joined(found)


def read(arena: Arena, rank: int) -> RankProfile | None:
    """Return the profile of one rank, by the clock of its node, to be `joined` with others. None if it has recorded
    none."""
    region = _region(arena, rank)
    return _profile(region, rank) if region else None


def _profile(region: "_Region", rank: int) -> RankProfile:
    arena = region.arena
    facts = read_facts(arena)
    numbers = (facts and read_numbers(arena, facts)) or range(arena.ranks)
    size = facts.ranks if facts else arena.ranks
    return _Reader(region, rank, tuple(numbers), facts.node if facts else 0, size).profile()


def shifted(one: RankProfile, difference: int, drift: float, accuracy: int) -> RankProfile:
    """Return a profile by the clock of node 0. difference: what to add to a time when recording began; it grows by
    `drift` each ns."""
    if accuracy <= 0:  # this is node 0, or the only one
        return one

    def there(when: int) -> int:
        return when + difference + int(drift * (when - one.begun))

    spans = []
    for span in one.spans:
        begin, end = there(span.begin), there(span.end)
        spans.append(replace(span, begin=begin, end=end, waited=min(span.waited, end - begin)))
    return replace(one, spans=spans, begun=there(one.begun), ended=there(one.ended), accuracy=accuracy)


def read_totals(arena: Arena, rank: int) -> RankProfile | None:
    """Return the profile of one rank without its spans, which takes so little that it may be repeated often."""
    region = _region(arena, rank)
    return _profile(region._replace(trace=0, capacity=0), rank) if region else None


def joined(those: Iterable[RankProfile]) -> list[RankProfile]:
    """Return these profiles, whose spans it completes by what only all of them tell. `message` of each send and its
    receive: one number for both. `last` of each call of several ranks: the rank that came last. `communicator`: small
    numbers."""
    found = list(those)
    begun: dict[tuple[int, int], tuple[int, int]] = {}  # of a collective: the latest begin, and whose
    sent: dict[tuple[int, int, int], list[int]] = defaultdict(list)  # by sender, receiver, place: begins
    for one in found:
        for span in one.spans:
            if span.sequence:
                key = span.communicator, span.sequence
                begun[key] = max(begun.get(key, (0, -1)), (span.begin, span.rank))
            elif span.message and span.sends:
                sent[span.rank, span.peer, span.message].append(span.begin)
    messages: dict[tuple[int, int, int, int], int] = {}
    communicators = {0: 0}

    def complete(span: Span) -> None:
        communicator = communicators.setdefault(span.communicator, len(communicators))
        last, message = -1, 0
        if span.sequence:
            last = begun[span.communicator, span.sequence][1]
        elif span.message:
            last = span.peer
            ends = (span.rank, span.peer) if span.sends else (span.peer, span.rank)
            # A place in a ring is used again when its memory has been given back: the latest send before the receive
            fitting = [begin for begin in sent[(*ends, span.message)] if begin < span.end]
            begin = span.begin if span.sends else max(fitting, default=0)
            if begin:
                message = messages.setdefault((*ends, span.message, begin), len(messages) + 1)
        if last == span.rank or not span.waited:
            last = -1
        span.last, span.message, span.communicator = last, message, communicator

    for one in found:
        for span in one.spans:
            complete(span)
    return found


def since(before: RankProfile, after: RankProfile) -> RankProfile:
    """Return what a rank has recorded between two readings of its profile, both with their spans or both without."""
    earlier = {(row.operation, row.size): row for row in before.totals}
    nothing = Total("", 0, 0, 0, 0, 0)
    totals = []
    for row in after.totals:
        old = earlier.get((row.operation, row.size), nothing)
        if row.calls > old.calls:
            counts = row.calls - old.calls, row.bytes - old.bytes, row.ns - old.ns, row.waited - old.waited
            totals.append(Total(row.operation, row.size, *counts))
    recorded = len(after.spans) + after.dropped - len(before.spans) - before.dropped
    waited = {rank: ns - before.waited_for.get(rank, 0) for rank, ns in after.waited_for.items()}
    return replace(
        after,
        spans=[span for span in after.spans if span.begin >= before.ended],
        dropped=max(recorded - sum(span.end >= before.ended for span in after.spans), 0),
        totals=totals,
        waited_for={rank: ns for rank, ns in waited.items() if ns},
        begun=before.ended,
    )


# --- a rank -----------------------------------------------------------------------------------------------------------


class _Region(NamedTuple):
    """The region of a rank, as far as it makes sense: where it is, and how many entries its tables have. trace: where
    notes and spans are."""

    arena: Arena
    offset: int
    slots: int
    trace: int
    capacity: int

    def word(self, offset: int) -> int:
        return self.arena.load(self.offset + offset)

    def read(self, offset: int, length: int) -> bytes:
        return self.arena.read(self.offset + offset, length)


def _region(arena: Arena, rank: int) -> _Region | None:
    first, room = heap.span(arena, rank)

    def contains(offset: int, length: int) -> bool:
        return offset % layout.PAGE == 0 and first <= offset <= first + room - length

    offset = arena.load(layout.directory_offset(arena.ranks, rank) + layout.PROFILE)
    if not contains(offset, p.region_bytes(arena.ranks, 0)):
        return None
    if arena.load(offset + p.HEAD_MAGIC) != p.MAGIC or arena.load(offset + p.HEAD_RANKS) != arena.ranks:
        return None
    slots, trace, capacity = (arena.load(offset + at) for at in (p.HEAD_SLOTS, p.HEAD_TRACE, p.HEAD_CAPACITY))
    if not (0 < slots < 1 << 32 and contains(offset, p.region_bytes(arena.ranks, slots))):
        return None
    if not (0 < capacity < 1 << 32 and contains(trace, p.trace_bytes(capacity))):
        trace = capacity = 0
    return _Region(arena, offset, slots, trace, capacity)


class _Communicator(NamedTuple):
    number: int  # the same on all ranks
    ranks: tuple[int, ...]


_UNKNOWN = _Communicator(0, ())  # of a range; or of a communicator that was made when there were too many texts


class _Reader:
    """Reads the region of a rank. numbers: the numbers in the job of the ranks of this node. job_size: its ranks."""

    def __init__(self, region: _Region, rank: int, numbers: tuple[int, ...], node: int, job_size: int):
        self._region, self._numbers, self._node, self._job_size = region, numbers, node, job_size
        self._local, self._rank = rank, numbers[rank]
        self._ranks = region.arena.ranks
        texts = region.read(p.slots_offset(self._ranks), region.slots * p.SLOT_BYTES)
        self._texts = dict(_chains(texts))
        self._communicators = {
            n: self._communicator(t) for n, t in self._texts.items() if t[:1] in (GROUP, NODES_GROUP)
        }
        self._threads = {part_of_thread(region.word(p.HEAD_MAIN)): MAIN}
        for text in self._texts.values():
            if text[:1] == THREAD and _is_number(text[1:]):
                self._threads.setdefault(part_of_thread(int(text[1:])), WORKER)

    def profile(self) -> RankProfile:
        spans, dropped = self._spans()
        notes, dropped_notes = self._notes()
        waited = struct.unpack(f"={self._ranks}q", self._region.read(p.HEAD_BYTES, self._ranks * WORD))
        begun, ended = self._region.word(p.HEAD_BEGAN), self._region.word(p.HEAD_ENDED) or time.monotonic_ns()
        spans = sorted([*spans, *notes], key=lambda span: span.end)
        return RankProfile(
            rank=self._rank,
            node=self._node,
            spans=spans,
            dropped=dropped + dropped_notes,
            totals=self._totals(),
            waited_for={self._numbers[rank]: ns for rank, ns in enumerate(waited) if ns > 0 and rank != self._local},
            begun=begun,
            ended=max(ended, begun),
        )

    def _communicator(self, text: str) -> _Communicator:
        listed = text.partition(":")[2]
        if text[:1] == NODES_GROUP:
            where, ranks = "", tuple(_parsed(listed, self._job_size))
        else:
            where, ranks = f"{self._node} ", tuple(self._numbers[rank] for rank in _parsed(listed, self._ranks))
        return _Communicator(int.from_bytes(hashlib.sha256(to_bytes(where + text)).digest()[:WORD], "little"), ranks)

    def _totals(self) -> list[Total]:
        table = np.frombuffer(self._region.read(p.totals_offset(self._ranks), p.TOTALS_BYTES), np.int64).reshape(-1, 4)
        found = []
        for i in np.flatnonzero(table[:, 0]).tolist():
            row, size = divmod(i, p.SIZES)
            calls, length, ns, waited = table[i].tolist()
            name = _name_of_row(row)
            if calls > 0 and name:
                ns = max(ns, 0)
                least = 1 << (size - 1) if size else 0
                found.append(Total(name, least, calls, max(length, 0), ns, min(max(waited, 0), ns)))
        return found

    # --- native spans -------------------------------------------------------------------------------------------------

    def _spans(self) -> tuple[list[Span], int]:
        """Return the spans that native code has written, and how many there are no more."""
        region, capacity = self._region, self._region.capacity
        if not capacity:
            return [], 0
        known = region.word(p.HEAD_COUNT)
        ring = region.arena.read(region.trace + p.spans_offset(capacity), capacity * p.SPAN_LENGTH)
        latest = region.word(p.HEAD_COUNT)
        if not 0 <= known <= latest:
            return [], 0
        first = first_whole(latest, capacity)
        raw = (_SPAN.unpack_from(ring, i % capacity * p.SPAN_LENGTH) for i in range(first, known))
        return [span for span in map(self._span, raw) if span], first

    def _span(self, words: tuple[int, ...]) -> Span | None:
        begin, lasted, call, first, second, length, number, what = words
        record = record_of(layout.call_operation(call))
        comm = self._communicators.get(what & (1 << p.PART_BIT) - 1, _UNKNOWN)
        if record is None or begin <= 0 or lasted < 0 or what < 0 or length < 0:
            return None
        passed, waited = times_in(lasted)
        end = begin + passed
        is_message = bool(record.form & PEER)
        peer = comm.ranks[first] if is_message and 0 <= first < len(comm.ranks) else -1
        is_part = what >> p.PART_BIT & 1
        itself = call & (1 << 24 + layout.COMPOSITE_SHIFT) - 1
        name, words_ = _described(record.name, itself, first, second, _array(layout.call_dtype(call), length))
        return Span(
            rank=self._rank,
            node=self._node,
            group=comm.ranks,
            communicator=comm.number,
            thread=self._thread(what >> p.THREAD_SHIFT),
            kind=MESSAGE if is_message else PART if is_part else CALL,
            name=name,
            words=words_,
            begin=begin,
            end=end,
            waited=min(waited, end - begin),
            bytes=length,
            sequence=0 if is_message or comm is _UNKNOWN else max(number, 0),
            peer=peer,
            tag=second if is_message else 0,
            message=number if peer >= 0 and not what >> p.STATUS_SHIFT & 0xFF else 0,
            sends=is_message and not record.form & ANY_SOURCE,
        )

    def _thread(self, identity: int) -> int:
        return self._threads.setdefault(identity, 2 + sum(number > WORKER for number in self._threads.values()))

    # --- notes --------------------------------------------------------------------------------------------------------

    def _notes(self) -> tuple[list[Span], int]:
        """Return what Python has written, and how many notes there are no more."""
        notes = self._region.capacity // p.NOTE_SHARE
        table = self._region.arena.read(self._region.trace, notes * p.NOTE_BYTES)
        found, highest = [], 0
        for i in np.flatnonzero(np.frombuffer(table, np.int64)[NOTE.size // WORD - 1 :: NOTE.size // WORD]).tolist():
            words = NOTE.unpack_from(table, i * NOTE.size)
            if words[-1] > 0 and (words[-1] - 1) % notes == i and (span := self._noted(words)):
                found.append(span)
                highest = max(highest, words[-1])
        return found, max(highest - notes, 0)

    def _noted(self, words: tuple[int, ...]) -> Span | None:
        begin, end, waited, name, thread, what, length, _ = words
        text, kind = self._texts.get(name, NAME + "(a name for which there was no room)"), _KINDS.get(what >> 32)
        if not 0 < begin <= end or text[:1] != NAME or kind is None:
            return None
        comm = self._communicators.get(what & 0xFFFFFFFF, _UNKNOWN)
        return Span(
            rank=self._rank,
            node=self._node,
            group=comm.ranks,
            communicator=comm.number,
            thread=self._thread(part_of_thread(thread)),
            kind=kind,
            name=text[1:],
            words=text[1:],
            begin=begin,
            end=end,
            waited=min(max(waited, 0), end - begin),
            bytes=max(length, 0),
        )


def first_whole(count: int, capacity: int) -> int:
    """Return the number of the first span that a reader keeps who finds `count` after it has read the ring: span number
    `count` may be half written, in the place of an older one."""
    return max(count - capacity + 1, 0)


# --- words ------------------------------------------------------------------------------------------------------------


def times_in(word: int) -> tuple[int, int]:
    """Return how long a call lasted and waited, in ns, from LASTED of its span."""
    most, unit = (1 << p.LASTED_BITS) - 1, p.COARSE if word >> 2 * p.LASTED_BITS else 0
    return (word & most) << unit, (word >> p.LASTED_BITS & most) << unit


def _chains(table: bytes) -> Iterator[tuple[int, str]]:
    """Yield number and text of the chains of slots."""
    last = np.flatnonzero(np.frombuffer(table, np.int64))[-1:].sum()
    slots = list(SLOT.iter_unpack(table[: (last * WORD // SLOT.size + 1) * SLOT.size]))
    followers = {following for following, _, _ in slots}
    for number, (following, length, data) in enumerate(slots):
        if number and length and number not in followers:
            text, seen = data[:length], {number}
            while 0 < following < len(slots) and following not in seen:
                seen.add(following)
                following, length, data = slots[following]
                text += data[:length]
            shown = "".join(letter if letter.isprintable() else "?" for letter in to_text(text))
            yield number, shown


def _parsed(listed: str, most: int) -> Iterator[int]:
    """Yield the ranks in '0-3,7', if they are ranks."""
    for piece in listed.split(","):
        first, _, last = piece.partition("-")
        if _is_number(first) and _is_number(last or first) and int(last or first) < most:
            yield from range(int(first), int(last or first) + 1)


def _is_number(text: str) -> bool:
    """Return whether it is one that `int` takes, which refuses thousands of digits."""
    return text.isdecimal() and len(text) <= _DIGITS


def _name_of_row(row: int) -> str:
    if row < OPERATION_CODES:
        record = record_of(row)
        return record.name if record else ""
    row -= OPERATION_CODES
    if row == WAIT_ROW:
        return WAIT
    return layout.COMPOSITE_NAMES[row] if row < len(layout.COMPOSITE_NAMES) else ""


def _array(dtype: int, length: int) -> str:
    if dtype == OBJECT:
        return f"{length} bytes of an object"
    if dtype == FOREIGN_TYPE or dtype not in BY_CODE:
        return f"{length} bytes" if dtype else "None"
    return f"{BY_CODE[dtype].title}[{length // BY_CODE[dtype].numpy.itemsize}]"


@lru_cache(1 << 14)
def _described(operation: str, call: int, first: int, second: int, array: str) -> tuple[str, str]:
    """Return the name of a call as its user knows it, and the call in words."""
    record = RECORDS[operation]
    if record.form & PEER:
        name = "from" if record.form & ANY_SOURCE else "to"
        return operation, f"{operation}({array}, {name} rank {first}, tag {second})"
    return record.title(first) if record.title else operation, call_in_words(call, first, second, array)
