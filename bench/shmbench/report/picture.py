"""The drawing of a chart: time on the left, bandwidth on the right.

matplotlib's objects are used directly: pyplot would look for a display.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from shmbench.cli.options import LIMIT
from shmbench.cli.sizes import short_size
from shmbench.report.curves import Chart, Curve

# Okabe and Ito's colours, which everybody can tell apart; yellow is too faint for a line. Each library has its own in
# every picture, a library that is not known one of the others.
COLOURS = {
    "shmcoll": "#0072B2",
    "Open MPI": "#D55E00",
    "MPICH": "#009E73",
    "Intel MPI": "#CC79A7",
    "gloo": "#E69F00",
    LIMIT: "#000000",
}
OTHERS = ("#56B4E9", "#999999")
INK, FAINT = "#333333", "#777777"
FONT = 11  # points, of everything but title and note
SMALL: dict[str, Any] = {"fontsize": 9, "color": FAINT}
STYLE: Any = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same picture everywhere
    "font.size": FONT,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "shmbench",
}


def draw(charts: Sequence[Chart], path: Path) -> None:
    """Write the picture, one chart below the other, in the format of the suffix. The same charts give the same
    bytes."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11, 4.8 * len(charts)))
        for part, chart in zip(figure.subfigures(len(charts), squeeze=False).flat, charts, strict=True):
            _draw(part, chart)
        figure.savefig(path, dpi=150, metadata=metadata(path))


def metadata(path: Path) -> dict[str, None] | None:
    """Return what a picture says about itself: no date, so that the same data give the same bytes."""
    return {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix)


def _draw(figure: SubFigure, chart: Chart) -> None:
    figure.subplots_adjust(left=0.075, right=0.98, top=0.82, bottom=0.17, wspace=0.2)
    left, right = figure.subplots(1, 2)
    times, bandwidths = [c.times for c in chart.curves], [c.bandwidths for c in chart.curves]
    _log_axis(left, times)
    right.set_ylim(0, 1.05 * max(map(max, bandwidths)) or 1)  # one rank alone moves nothing
    _panel(left, "Time of a call (µs)", chart.curves, times)
    _panel(right, "Bus bandwidth (GB/s)", chart.curves, bandwidths)
    figure.text(0.02, 0.925, chart.title, fontsize=15, weight="bold")
    figure.text(0.98, 0.925, _line_styles(chart.curves), horizontalalignment="right")
    measured = f"{chart.machine}. Medians; bus bandwidth as nccl-tests defines it.\n{chart.conditions}"
    figure.text(0.02, 0.015, measured, **SMALL)


def _panel(axes: Axes, title: str, curves: Sequence[Curve], values: Sequence[Sequence[float]]) -> None:
    """Draw values over sizes, a list for each curve. A curve is named by its library and label, once, or by its
    placement if there is one name only."""
    axes.set_title(title, loc="left", fontsize=FONT)
    _size_axis(axes, sorted({size for curve in curves for size in curve.sizes}))
    colours, named = colours_of(curves), _first_of_each(curves)
    for i, (curve, heights) in enumerate(zip(curves, values, strict=True)):
        colour, first = colours[curve.name], curve in named
        axes.plot(
            curve.sizes,
            heights,
            label=curve.placement.replace("_", " ") if len(colours) == 1 else curve.name if first else None,
            color=colour,
            linewidth=1.8,
            linestyle="-" if first else (0, (3, 2)),
            marker="o",
            markersize=4.5,
            markerfacecolor=colour if first else "white",
            clip_on=False,
            zorder=3 - i / len(curves),  # the first on top
        )
    axes.legend(frameon=False, fontsize=9, loc="upper left")


def colours_of(curves: Sequence[Curve]) -> dict[str, str]:
    """Return the colour of each curve by its name: that of its library, paler for earlier files."""
    unknown = list(dict.fromkeys(c.library for c in curves if c.library not in COLOURS))
    known = COLOURS | {library: OTHERS[i % len(OTHERS)] for i, library in enumerate(unknown)}
    return {c.name: _paler(known[c.library], c.age) for c in curves}


def _paler(colour: str, steps: int) -> str:
    """Return the colour, nearer to white with each step: by half of the way, then by less."""
    share = 0.5 + 0.3 * (1 - 1 / steps) if steps else 0.0
    parts = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * share):02X}" for part in parts)


def _size_axis(axes: Axes, sizes: Sequence[int]) -> None:
    first, last = math.log2(sizes[0]), math.log2(sizes[-1])
    step = max(1, math.ceil((last - first) / 8))
    axes.set_xscale("log", base=2)
    axes.set_xticks([2.0**power for power in range(math.ceil(first), math.floor(last) + 1, step)] or sizes)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: short_size(size)))
    axes.minorticks_off()
    room = 0.03 * (last - first) or 0.5
    axes.set_xlim(2 ** (first - room), 2 ** (last + room))
    axes.set_xlabel("size (bytes)")
    axes.tick_params(which="both", length=0)


def _log_axis(axes: Axes, values: Sequence[Sequence[float]]) -> None:
    """Make the axis go from power of ten to power of ten, so that it has all its labels."""
    lowest, highest = (math.floor(math.log10(extreme(map(extreme, values)))) for extreme in (min, max))
    axes.set_yscale("log")
    axes.set_ylim(10.0**lowest, 10.0 ** (highest + 1))
    axes.yaxis.set_major_locator(LogLocator(base=10))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.12g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _first_of_each(curves: Sequence[Curve]) -> list[Curve]:
    """Return the first curve of each library and label: out of place, where there is such a form."""
    return list({curve.name: curve for curve in reversed(curves)}.values())


def _line_styles(curves: Sequence[Curve]) -> str:
    """Return what the curves' names leave unsaid."""
    both = len(curves) > len(_first_of_each(curves)) > 1
    return "solid: out of place     dashed: in place" if both else ""
