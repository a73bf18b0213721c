"""The picture of `shmbench compare --door`: a row of bars for each operation, on a logarithmic scale."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from shmbench.cli.sizes import microseconds
from shmbench.report.picture import COLOURS, OTHERS, SMALL, STYLE

_HEIGHT = 0.8  # of all bars of a row


def draw(rows: Sequence[tuple[str, Mapping[str, float]]], title: str, note: str, path: Path) -> None:
    """Write the picture, in the format of the suffix.

    Args:
        rows: the name of each operation, and the microseconds of a call by the name of the entry.
        title: what was measured.
        note: under which conditions.
        path: where to.
    """
    names = list(dict.fromkeys(name for _, times in rows for name in times))
    width = _HEIGHT / len(names)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11, 1.5 + 0.7 * len(rows)))
        inch = 1 / figure.get_figheight()
        axes = figure.subplots()
        figure.subplots_adjust(left=0.33, right=0.93, top=1 - 0.6 * inch, bottom=0.9 * inch)
        for i, name in enumerate(names):
            shown = {row: times[name] for row, (_, times) in enumerate(rows) if name in times}
            places = [row + (i - (len(names) - 1) / 2) * width for row in shown]
            bars = axes.barh(places, list(shown.values()), width, label=name, color=COLOURS.get(name, OTHERS[0]))
            axes.bar_label(bars, [microseconds(time) for time in shown.values()], padding=3, **SMALL)
        axes.set_xscale("log")
        axes.set_xlabel("Time of a call (µs)")
        axes.set_yticks(range(len(rows)), [name for name, _ in rows])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.legend(frameon=False, loc="upper right")
        figure.text(0.02, 1 - 0.4 * inch, title, fontsize=15, weight="bold")
        figure.text(0.02, 0.1 * inch, note, **SMALL)
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
