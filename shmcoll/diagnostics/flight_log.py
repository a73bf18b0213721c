"""Reading the flight recorder (`engine/protocol/flight_recorder.py`): the last operations of each rank of a group."""

import time
from dataclasses import dataclass

from shmcoll.diagnostics.describe_call import call_in_words, called
from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.kernels.dtypes import BY_CODE
from shmcoll.engine.memory.group import Group

_WORDS = (
    layout.FLIGHT_SEQUENCE,
    layout.FLIGHT_CALL,
    layout.FLIGHT_ARGUMENTS,
    layout.FLIGHT_ARGUMENTS + layout.WORD,
    layout.FLIGHT_COUNT,
    layout.FLIGHT_STARTED,
    layout.FLIGHT_WOKEN,
    layout.FLIGHT_STATE,
)
_STATES = {
    layout.RUNNING: "in it",
    c.OK: "done",
    c.ABORTED: "group ended",
    c.TIMEOUT_PASSED: "timed out",
    c.MISMATCH: "mismatch",
    c.PEER_LOST: "peer lost",
    c.REFUSED: "refused by all",
    c.INTERRUPTED: "interrupted",
    c.BROKEN: "broken",
    c.HALFWAY: "between its phases",
    c.RAISED: "function raised",
    c.UNREADABLE: "array not readable",
}


@dataclass(frozen=True)
class FlightRecord:
    """One operation of one rank. Times are CLOCK_MONOTONIC in ns, exact to some ms. woken: 0 if it has never slept."""

    sequence: int
    call: int
    arguments: tuple[int, int]
    count: int
    started: int
    woken: int
    state: int

    @property
    def flying(self) -> bool:
        """Whether the rank is still in it, or has left it without completing it."""
        return self.state in (layout.RUNNING, c.HALFWAY, c.TIMEOUT_PASSED)

    @property
    def failed(self) -> bool:
        """Whether the rank has left it without a result."""
        return not self.flying and self.state not in (c.OK, c.REFUSED)

    @property
    def since(self) -> float:
        """Seconds since it began, or since it ended."""
        last = self.started if self.flying else max(self.started, self.woken)
        return max(time.monotonic_ns() - last, 0) / 1e9

    @property
    def outcome(self) -> str:
        return _STATES.get(self.state, f"state {self.state}")

    def words(self) -> str:
        """Return the call as text: 'all_reduce(6 x float32, sum)'. The shape is not in the recorder."""
        dtype = layout.call_dtype(self.call)
        array = f"{self.count} x {BY_CODE[dtype].title}" if dtype in BY_CODE else "None"
        return call_in_words(self.call, *self.arguments, array)


def flights(group: Group, rank: int) -> list[FlightRecord]:
    """Return the last operations of a rank of the group, the latest last; at most FLIGHT_ENTRIES of them."""
    base = group.offset + layout.flight_offset(group.size, rank)
    found = [_read(group, base + i * layout.FLIGHT_BYTES) for i in range(layout.FLIGHT_ENTRIES)]
    return sorted((flight for flight in found if flight), key=lambda flight: flight.sequence)


def last_call(group: Group, rank: int, flight: FlightRecord) -> str:
    """Return the text of `FlightRecord.words`, but with the shape if the rank's header still has it."""
    half = group.header(rank, flight.sequence)
    if group.arena.load(half + layout.HEADER_SEQUENCE) == flight.sequence:
        return called(group, rank, flight.sequence)
    return flight.words()


def _read(group: Group, base: int) -> FlightRecord | None:
    """Read an entry. Returns None if it was never written, or if its rank writes too often to be read."""
    words: tuple[int, ...] = ()
    for _ in range(4):
        before, words = words, tuple(group.arena.load(base + word) for word in _WORDS)
        if words == before:
            sequence, call, first, second, count, started, woken, state = words
            return FlightRecord(sequence, call, (first, second), count, started, woken, state) if sequence > 0 else None
    return None
