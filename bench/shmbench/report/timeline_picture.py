"""The drawing of a timeline that `shmrun --trace` has written: a part of what a viewer shows, for a page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from shmbench.report.picture import FAINT, SMALL, STYLE, metadata

Event = dict[str, Any]

COLOURS = {"call": "#0072B2", "message": "#009E73", "waiting": "#E69F00", "range": "#DDDDDD", "front end": "#CC79A7"}
ARROW = "#D55E00"

_NARROW = 0.009  # of the width: a slice needs so much for each letter of its name


def draw(events: Sequence[Event], path: Path, begin: float, end: float) -> None:
    """Write the picture of what lies between two times, in ms since the beginning."""
    names = {(one["name"], one["pid"], one["tid"]): one["args"].get("name") for one in events if one["ph"] == "M"}
    slices = [one for one in events if one["ph"] == "X" and _meets(one, begin, end)]
    tracks = sorted({(one["pid"], one["tid"]) for one in slices})
    rows = {track: row for row, track in enumerate(tracks)}
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11, 1.3 + 0.42 * max(len(rows), 1)))
        axes = figure.subplots()
        axes.grid(visible=False, axis="y")
        for one in slices:
            _draw_slice(axes, one, rows[one["pid"], one["tid"]], begin, end)
        _draw_arrows(axes, events, rows, begin, end)
        labels = [f"{names['process_name', pid, 0]}   {names['thread_name', pid, tid]}" for pid, tid in tracks]
        axes.set_yticks(range(len(tracks)), labels)
        axes.set(xlim=(begin, end), ylim=(len(tracks) - 0.4, -0.6))
        axes.set_xlabel("ms", color=FAINT)
        drawn = [kind for kind in COLOURS if any(one["cat"] == kind for one in slices)]
        patches = [Patch(color=COLOURS[kind], label=kind) for kind in drawn]
        place: Any = {"loc": "lower right", "bbox_to_anchor": (1, 1)}
        axes.legend(handles=patches, ncols=max(len(patches), 1), frameon=False, fontsize=9, **place)
        figure.savefig(path, dpi=150, metadata=metadata(path), bbox_inches="tight")


def _meets(one: Event, begin: float, end: float) -> bool:
    return one["ts"] / 1e3 < end and (one["ts"] + one["dur"]) / 1e3 > begin


def _draw_slice(axes: Axes, one: Event, row: int, begin: float, end: float) -> None:
    left, right = max(one["ts"] / 1e3, begin), min((one["ts"] + one["dur"]) / 1e3, end)
    axes.barh(row, right - left, 0.7, left, color=COLOURS[one["cat"]], edgecolor="white", linewidth=0.5)
    left = max(left, (one["ts"] + one["args"].get("waited_us", 0)) / 1e3)  # the name stands behind the waiting part
    if right - left > _NARROW * len(one["name"]) * (end - begin):
        colour = "white" if one["cat"] == "call" else "black"
        axes.text((left + right) / 2, row, one["name"], ha="center", va="center", fontsize=8, color=colour)


def _draw_arrows(
    axes: Axes, events: Sequence[Event], rows: dict[tuple[int, int], int], begin: float, end: float
) -> None:
    starts = {one["id"]: one for one in events if one["ph"] == "s"}
    for one in events:
        if one["ph"] != "f":
            continue
        ends = [(each["ts"] / 1e3, rows.get((each["pid"], each["tid"]))) for each in (starts[one["id"]], one)]
        if all(row is not None and begin <= at <= end for at, row in ends):
            style = {"arrowstyle": "-|>", "color": ARROW, "linewidth": 1, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", xy=ends[1], xytext=ends[0], arrowprops=style, **SMALL)
