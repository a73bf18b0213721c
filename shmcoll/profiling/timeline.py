"""Timelines: profiles in the Trace Event format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

process  a rank
track    the calls of a communicator on a thread of the rank: the main one, that of asynchronous calls, or another.
         The track "program" has the ranges of the user and the calls of front ends by their users' names
slice    a call or a range. Within a call, a slice "waiting" is as long as the call has waited for others: it stands
         first, although a call may wait at several moments. A call that others are part of has theirs
arrow    from the rank that came last into a collective to each rank that it held up; from a send to its receive

An arrow joins two slices of different ranks, and needs both: none begins or ends at a call that was dropped. Over
nodes, clocks may differ by more than a message takes. An arrow that would go back in time is left out.

The file is written event by event. Times are in microseconds since the first recording began.
"""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from shmcoll import __version__
from shmcoll.engine.system.text import to_bytes
from shmcoll.profiling.files import replacing
from shmcoll.profiling.spans import FRONT_END, MAIN, MESSAGE, RANGE, WORKER, RankProfile, Span

HELD_UP = 10_000  # ns: ranks that waited for less for the last one were not held up; ranks never arrive together

_SHOWN = 8  # most ranks that the name of a track lists


class _Track(NamedTuple):
    """The order of the fields is the order of tracks: the program first, then the larger groups."""

    has_calls: bool
    missing: int  # negative number of ranks
    group: tuple[int, ...]
    communicator: int
    thread: int


def write(path: str, profiles: Sequence[RankProfile]) -> None:
    """Write the timeline of all ranks to a file, which replaces an older one as a whole.

    Args:
        path: the file. Its contents are compressed if its name ends in .gz.
        profiles: of the ranks.

    Raises:
        OSError: The file cannot be written.
    """
    with replacing(path) as file:
        for piece in text(profiles):
            file.write(to_bytes(piece))


def text(profiles: Sequence[RankProfile]) -> Iterator[str]:
    """Yield the contents of the file, an event at a time."""
    zero = min((one.begun for one in profiles), default=0)
    for one in profiles:
        zero = min([zero, *(span.begin for span in one.spans)])
    about = {
        "shmcoll": __version__,
        "zero_ns": zero,
        "dropped": {str(one.rank): one.dropped for one in profiles if one.dropped},
        "clocks_differ_by_at_most_ns": max((one.accuracy for one in profiles), default=0),
    }
    yield f'{{"displayTimeUnit": "ns", "otherData": {json.dumps(about)},\n"traceEvents": [\n'
    between = ""
    for event in _events(profiles, zero):
        yield between + event
        between = ",\n"
    yield "\n]}\n"


def _events(profiles: Sequence[RankProfile], zero: int) -> Iterator[str]:
    several = any(one.node for one in profiles)
    groups = {span.group for one in profiles for span in one.spans}
    everyone = tuple(sorted({one.rank for one in profiles}.union(*groups)))  # also those of other nodes
    numbers: dict[int, dict[_Track, int]] = {}
    for one in profiles:
        tracks: dict[_Track, list[Span]] = defaultdict(list)
        for span in one.spans:
            tracks[_track(span)].append(span)
        numbers[one.rank] = {track: number for number, track in enumerate(sorted(tracks), 1)}
        yield from _names(one, numbers[one.rank], several, everyone)
        for track, number in numbers[one.rank].items():
            for begin, end, span, waits in _nested(tracks[track]):
                yield _slice(span, waits, begin - zero, end - begin, number)
    for number, (name, sender, at, receiver, to) in enumerate(_arrows(profiles), 1):
        for phase, span, when in (("s", sender, at), ("f", receiver, to)):
            tid = numbers[span.rank][_track(span)]
            # An arrow that ends binds to the slice around it with bp only; a beginning one does so anyway
            yield _event(phase, name, when - zero, "", span.rank, tid, f'"cat": "arrow", "id": {number}, "bp": "e"')


def _track(span: Span) -> _Track:
    if span.kind in (RANGE, FRONT_END):
        return _Track(False, 0, (), 0, span.thread)
    return _Track(True, -len(span.group), span.group, span.communicator, span.thread)


def _names(one: RankProfile, tracks: dict[_Track, int], several: bool, everyone: tuple[int, ...]) -> Iterator[str]:
    """Yield the events that name a rank and its tracks. several: whether the job has several nodes."""
    about: list[tuple[int, str, dict[str, Any]]] = [
        (0, "process_name", {"name": f"rank {one.rank}" + (f" (node {one.node})" if several else "")}),
        (0, "process_sort_index", {"sort_index": one.rank}),
    ]
    if one.dropped:
        about.append((0, "process_labels", {"labels": f"{one.dropped:,} earlier calls are not here"}))
    first = {track.group: track.communicator for track in reversed(tracks)}
    for track, number in tracks.items():
        other = "" if track.communicator == first[track.group] else f" (communicator {track.communicator})"
        about.append((number, "thread_name", {"name": _title(track, everyone, other)}))
        about.append((number, "thread_sort_index", {"sort_index": number}))
    for tid, name, args in about:
        yield json.dumps({"ph": "M", "name": name, "pid": one.rank, "tid": tid, "args": args})


def _title(track: _Track, everyone: tuple[int, ...], other: str) -> str:
    """Return the name of a track. other: what tells the communicator from the first one of the same ranks."""
    ranks = track.group
    if not track.has_calls:
        title = "program"
    elif not ranks:
        title = "other communicators"
    elif ranks == everyone:
        title = "all ranks"
    elif len(ranks) > _SHOWN:
        title = f"group of {len(ranks)} ranks, {ranks[0]} to {ranks[-1]}"
    else:
        title = f"ranks {', '.join(map(str, ranks))}"
    thread = {MAIN: "", WORKER: ": asynchronous"}.get(track.thread, f": thread {track.thread}")
    return f"{title}{other}{thread}"


def _nested(spans: Iterable[Span]) -> Iterator[tuple[int, int, Span, bool]]:
    """Yield the slices of a track in order, those that contain others first: begin, end, span, whether it is waiting.

    Slices of one thread contain one another or are apart. The ends of two that were read from the clock in turn may be
    equal or, after a conversion, the wrong way round: the inner one is cut.
    """
    pieces = [(span.begin, max(span.end, span.begin), False, span) for span in spans]
    begins = sorted(begin for begin, _, _, _ in pieces)
    for begin, end, _, span in list(pieces):
        has_parts = bisect_right(begins, end - 1) - bisect_right(begins, begin - 1) > 1
        if span.waited and (span.sequence or span.kind == MESSAGE or not has_parts):
            pieces.append((begin, min(begin + span.waited, end), True, span))
    pieces.sort(key=lambda piece: (piece[0], -piece[1], piece[2]))
    ends: list[int] = []
    for begin, end, waits, span in pieces:
        while ends and ends[-1] <= begin:
            ends.pop()
        end = min(end, ends[-1]) if ends else end
        ends.append(end)
        yield begin, end, span, waits


def _slice(span: Span, waits: bool, begin: int, length: int, track: int) -> str:
    duration = f'"dur": {_us(length)}, '
    if waits:
        last = f'"came_last": {span.last}' if span.last >= 0 else ""
        rest = f'"cat": "waiting", "cname": "thread_state_iowait", "args": {{{last}}}'
        return _event("X", "waiting", begin, duration, span.rank, track, rest)
    facts: dict[str, Any] = {
        "call": span.words if span.words != span.name else "",
        "bytes": span.bytes,
        "sequence": span.sequence,
        "waited_us": span.waited / 1000,
        "moving_us": (span.end - span.begin - span.waited) / 1000 if span.waited else 0,
    }
    args = {name: value for name, value in facts.items() if value}
    if span.peer >= 0:
        args |= {"to_rank" if span.sends else "from_rank": span.peer, "tag": span.tag}
    rest = f'"cat": "{span.kind}", "args": {json.dumps(args)}'
    return _event("X", span.name, begin, duration, span.rank, track, rest)


def _event(phase: str, name: str, at: int, duration: str, rank: int, track: int, rest: str) -> str:
    """Return an event. Times keep their nanoseconds: a float of so many microseconds has fewer digits."""
    place = f'"pid": {rank}, "tid": {track}'
    return f'{{"ph": "{phase}", "ts": {_us(at)}, {duration}"name": {_quoted(name)}, {place}, {rest}}}'


@lru_cache(1 << 10)
def _quoted(name: str) -> str:
    return json.dumps(name)


def _us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03}"


# --- arrows -----------------------------------------------------------------------------------------------------------


def _arrows(profiles: Sequence[RankProfile]) -> Iterator[tuple[str, Span, int, Span, int]]:
    """Yield name, first slice, a time in it, second slice, a time in it, for each arrow."""
    collectives: dict[tuple[int, int], list[Span]] = defaultdict(list)
    sends: dict[int, Span] = {}
    receives: list[Span] = []
    for one in profiles:
        for span in one.spans:
            if span.sequence:
                collectives[span.communicator, span.sequence].append(span)
            elif span.message and span.sends:
                sends[span.message] = span
            elif span.message:
                receives.append(span)
    for spans in collectives.values():
        yield from _held_up(spans)
    for span in receives:
        if (sent := sends.get(span.message)) and (at := max(sent.begin, span.begin)) < span.end:
            yield "message", sent, sent.begin, span, at


def _held_up(spans: list[Span]) -> Iterator[tuple[str, Span, int, Span, int]]:
    """Yield an arrow to each rank that the last one held up: the last that came before the call of that rank ended,
    since ranks may leave a broadcast before all others have come."""
    spans.sort(key=lambda span: span.begin)
    begins = [span.begin for span in spans]
    for span in spans:
        last = spans[bisect_right(begins, span.end - 1) - 1]
        if last.rank != span.rank and min(last.begin - span.begin, span.waited) >= HELD_UP:
            yield "came last", last, last.begin, span, last.begin
