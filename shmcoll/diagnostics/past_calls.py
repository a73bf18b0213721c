"""What the ranks of a group have called as an operation that some of them may have left long ago.

A rank may be ahead of another one (`engine/protocol/sync.py`), so its header for an operation may be another one's by
now. The flight recorder has more operations than there are headers.
"""

from shmcoll.diagnostics.describe_call import called
from shmcoll.diagnostics.flight_log import FlightRecord, flights
from shmcoll.engine import layout
from shmcoll.engine.layout import MOST_CODES
from shmcoll.engine.memory.group import Group

_VARYING = layout.pack_call(0, MOST_CODES - 1, 0, 0, MOST_CODES - 1)  # dtype and dimensions


def past_call(group: Group, rank: int, sequence: int) -> str:
    """Return what a rank called as operation `sequence`; '' if it has not, or too long ago. It has the shape of the
    array if the header still describes that call."""
    flown = _flown(group, rank)
    if sequence not in flown:
        return ""
    is_there = max(flown) < sequence + layout.HEADERS
    return called(group, rank, sequence) if is_there else flown[sequence].words()


def first_difference(group: Group, sequence: int) -> int:
    """Return the first operation before `sequence` that is not the same call on all ranks that have made it; else
    `sequence`. Arrays do not count, because in some operations they differ."""
    flown = [_flown(group, rank) for rank in range(group.size)]
    for number in range(sequence - layout.FLIGHT_ENTRIES + 1, sequence):
        calls = {(one[number].call & ~_VARYING, one[number].arguments[0]) for one in flown if number in one}
        if len(calls) > 1:
            return number
    return sequence


def has_left(group: Group, rank: int, sequence: int) -> bool:
    """Return whether a rank has made operation `sequence` and come back from it, or never made it."""
    flight = _flown(group, rank).get(sequence)
    return flight is None or not (flight.flying or flight.failed)


def _flown(group: Group, rank: int) -> dict[int, FlightRecord]:
    return {flight.sequence: flight for flight in flights(group, rank)}
