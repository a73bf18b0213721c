"""A profile of a rank as Python sees it: spans, totals, and for which ranks it has waited.

Times are nanoseconds of CLOCK_MONOTONIC of the rank's node. Ranks and groups are numbers of the world.
"""

from dataclasses import dataclass, field

MAIN, WORKER = 0, 1  # threads of a span; others are numbered from 2 on

# kinds of spans
CALL, PART, MESSAGE, RANGE, FRONT_END = "call", "part", "message", "range", "front end"


@dataclass(slots=True)  # not frozen: that takes three times as long, and there may be half a million
class Span:
    """One call of a rank, or one range of the user, from begin to end.

    rank, node: where. group: the members' ranks in the world; empty for a range. communicator: a number, the same on
    all ranks of a communicator, and no other's; 0 for a range.
    thread: MAIN, WORKER, or the number of another thread of this rank.
    kind: CALL, PART (a collective that the CALL around it is made of, such as a `broadcast_object`), MESSAGE, RANGE or
    FRONT_END. name: the method, the range's name, or the front end's function.
    words: the call as messages describe it: "all_reduce of float32[8], op 'sum'".
    begin, end: ns. waited: ns of that during which the rank waited for others.
    last: the rank that this call waited for longest, and so held it up; -1 if it did not wait for a single rank.
    bytes: of this rank's array. sequence: the number of the collective in its group; 0 otherwise.
    peer: the other rank of a message, -1 otherwise. tag: of a message. message: a number that the span of the send
    and that of the receive share, and no others; 0 if there is none. sends: whether a message goes out.
    """

    rank: int
    node: int
    group: tuple[int, ...]
    thread: int
    kind: str
    name: str
    words: str
    begin: int
    end: int
    waited: int = 0
    last: int = -1
    bytes: int = 0
    sequence: int = 0
    peer: int = -1
    tag: int = 0
    message: int = 0
    sends: bool = False
    communicator: int = 0


@dataclass(frozen=True, slots=True)
class Total:
    """All calls of one operation and one class of size of a rank. size: the least bytes of the class: 0, 1, 2, 4 ..."""

    operation: str
    size: int
    calls: int
    bytes: int
    ns: int
    waited: int


@dataclass(frozen=True, slots=True)
class RankProfile:
    """What one rank has recorded.

    spans: in the order in which they ended. dropped: how many spans there was no room for.
    totals: by operation and class of size. waited_for: ns that this rank waited for each other one.
    begun, ended: when recording began and ended; the time of reading if it has not ended.
    accuracy: ns by which this rank's times may be off those of node 0; 0 on node 0.
    """

    rank: int
    node: int = 0
    spans: list[Span] = field(default_factory=list)
    dropped: int = 0
    totals: list[Total] = field(default_factory=list)
    waited_for: dict[int, int] = field(default_factory=dict)
    begun: int = 0
    ended: int = 0
    accuracy: int = 0
