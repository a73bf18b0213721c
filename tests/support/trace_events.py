"""Timelines as a viewer reads them: the rules of the Trace Event format, and what is in a file."""

import gzip
import json
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

Event = dict[str, Any]


@dataclass
class Timeline:
    """The contents of a file. ranks: names by pid. tracks: names by (pid, tid). slices: of each track, in the order of
    the file. arrows: pairs of the innermost slices that they join."""

    about: dict[str, Any]
    ranks: dict[int, str] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)
    tracks: dict[tuple[int, int], str] = field(default_factory=dict)
    slices: dict[tuple[int, int], list[Event]] = field(default_factory=lambda: defaultdict(list))
    arrows: list[tuple[str, Event, Event]] = field(default_factory=list)

    def on(self, rank: int, track: str = "all ranks") -> list[Event]:
        """Return the slices on a track of a rank."""
        return [
            s for key, slices in self.slices.items() if key[0] == rank and self.tracks[key] == track for s in slices
        ]

    def named(self, name: str, rank: int | None = None) -> list[Event]:
        """Return the slices of a name."""
        return [s for key, slices in self.slices.items() if rank in (None, key[0]) for s in slices if s["name"] == name]

    def joined(self, name: str) -> list[tuple[int, int]]:
        """Return from which rank to which the arrows of a name lead."""
        return [(a["pid"], b["pid"]) for other, a, b in self.arrows if other == name]


def load(path: Path) -> Timeline:
    """Read a file, and assert that it keeps the rules."""
    data = path.read_bytes()
    return read(gzip.decompress(data).decode() if path.suffix == ".gz" else data.decode())


def read(text: str) -> Timeline:
    document = json.loads(text, parse_float=Decimal)  # binary fractions would not add up
    timeline = Timeline(document["otherData"])
    flows: dict[int, dict[str, Event]] = defaultdict(dict)
    for event in document["traceEvents"]:
        place = event["pid"], event["tid"]
        assert isinstance(event["name"], str)
        if event["ph"] == "M":
            _name(timeline, event, place)
            continue
        assert event["ts"] >= 0
        if event["ph"] == "X":
            assert event["dur"] >= 0
            timeline.slices[place].append(event)
        else:
            assert event["ph"] in ("s", "f") and event["bp"] == "e"
            assert event["ph"] not in flows[event["id"]]
            flows[event["id"]][event["ph"]] = event
    assert timeline.slices.keys() <= timeline.tracks.keys()
    assert {pid for pid, _ in timeline.tracks} <= timeline.ranks.keys()
    for slices in timeline.slices.values():
        _check_nesting(slices)
    for ends in flows.values():
        assert ends["s"]["ts"] <= ends["f"]["ts"] and ends["s"]["name"] == ends["f"]["name"]
        timeline.arrows.append((ends["s"]["name"], _bound(timeline, ends["s"]), _bound(timeline, ends["f"])))
    return timeline


def _name(timeline: Timeline, event: Event, place: tuple[int, int]) -> None:
    if event["name"] == "process_name":
        timeline.ranks[place[0]] = event["args"]["name"]
    elif event["name"] == "process_labels":
        timeline.labels[place[0]] = event["args"]["labels"]
    elif event["name"] == "thread_name":
        timeline.tracks[place] = event["args"]["name"]
    else:
        assert event["name"] in ("process_sort_index", "thread_sort_index")


def _check_nesting(slices: list[Event]) -> None:
    """Assert that slices begin in order, and that each ends before that which it begins in."""
    around: list[Event] = []
    for one in slices:
        while around and end(around[-1]) <= one["ts"]:
            around.pop()
        if around:
            assert around[-1]["ts"] <= one["ts"] and end(one) <= end(around[-1])
        around.append(one)
    assert [s["ts"] for s in slices] == sorted(s["ts"] for s in slices)


def _bound(timeline: Timeline, event: Event) -> Event:
    """Return the innermost slice around an end of an arrow."""
    slices = timeline.slices[event["pid"], event["tid"]]
    return [s for s in slices if s["ts"] <= event["ts"] < end(s)][-1]


def end(one: Event) -> Any:
    return one["ts"] + one["dur"]
