"""Files of `shmbench compare --json` as tables in Markdown: a row for each collective, a column for each size.

docs/generate.py writes them into docs/performance.md, so every table there is what a file says.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log
from statistics import median
from typing import Any

from shmbench.cli.options import LIMITS, REDUCING
from shmbench.cli.sizes import short_size
from shmbench.report.ratios import PLACEMENTS, Result, times

BEHIND = 0.95  # of the time of the fastest peer
LEAST_LIMITED = 64 << 10  # bytes: below, a call takes longer than its copies

Cell = tuple[float, float | None]  # time over the fastest peer's, time over the limit's


def markdown(results: Sequence[Result]) -> str:
    """Return the table and a line about it.

    A cell is the time of shmcoll over that of the fastest peer. From 64 KiB on, the second number of a cell is the time
    over its limit: that of as many processes which copy such an array (memcpy), or add two (c = a + b), at once.
    """
    rows = {(name, placement): cells for name, placement, cells in _rows(results)}
    titles = {
        row: f"{row[0]}, in place" if row[1] == "in_place" and (row[0], "out_of_place") in rows else row[0]
        for row in rows
    }
    return _table(
        {titles[row]: {size: _words(cell) for size, cell in cells.items()} for row, cells in rows.items()},
        {titles[row]: {size: cell[0] for size, cell in cells.items()} for row, cells in rows.items()},
    )


def _rows(results: Sequence[Result]) -> Iterator[tuple[str, str, dict[int, Cell]]]:
    """Return the collective, the placement and the cell of each size."""
    libraries = dict.fromkeys(result["library"] for result in results)
    peers = [library for library in libraries if library not in ("shmcoll", *LIMITS)]
    for name in dict.fromkeys(result["collective"] for result in results):
        ours, theirs = times(results, name, "shmcoll"), [times(results, name, peer) for peer in peers]
        limits = times(results, name, LIMITS[name in REDUCING])
        for placement in PLACEMENTS:
            cells = {}
            for (size, where), time in ours.items():
                best = min((peer[size, where] for peer in theirs if (size, where) in peer), default=None)
                limit = limits.get((size, "out_of_place")) if size >= LEAST_LIMITED else None
                if where == placement and best:
                    cells[_column(size)] = (time / best, time / limit if limit else None)
            if cells:
                yield name, placement, cells


def _column(size: int) -> int:
    """Return the column of a size. Those of few bytes share one: some collectives need a block for each rank."""
    return 8 if 0 < size <= 64 else size


def _words(cell: Cell) -> str:
    ratio, limited = cell
    return f"{ratio:.2f}" if limited is None else f"{ratio:.2f}, {limited:.1f}"


def _table(words: Mapping[str, Mapping[int, str]], ratios: Mapping[str, Mapping[int, float]]) -> str:
    """Return rows of cells by size, and a line with the geometric mean and the cells that are not ahead."""
    sizes = sorted({size for cells in words.values() for size in cells})
    lines = [
        f"| | {' | '.join(short_size(size) if size else 'no bytes' for size in sizes)} |",
        "|---" * (1 + len(sizes)) + "|",
        *(f"| {title} | {' | '.join(cells.get(size, '') for size in sizes)} |" for title, cells in words.items()),
    ]
    found = [(title, size, ratio) for title, cells in ratios.items() for size, ratio in cells.items()]
    mean = exp(sum(log(ratio) for *_, ratio in found) / len(found))
    behind = [
        f"{title} {short_size(size) if size else ''}".strip() + f" {ratio:.2f}"
        for title, size, ratio in found
        if ratio > BEHIND
    ]
    above = f"Above {BEHIND}: {'; '.join(behind)}." if behind else f"No cell is above {BEHIND}."
    return "\n".join([*lines, "", f"Geometric mean of {len(found)} cells: {mean:.2f}. {above}"])


def nodes_markdown(found: Mapping[str, Any]) -> str:
    """Return the table of a file of `shmbench compare --nodes --json`. A cell is the time of shmcoll, and its ratio to
    flat MPI."""
    rows: dict[str, dict[int, tuple[float, float]]] = {}
    for line in found["lines"]:
        flat, ours = (median(line[name]) for name in ("flat", "shmcoll"))
        rows.setdefault(line["collective"], {})[_column(line["size"])] = (ours, ours / flat)
    return _table(
        {
            name: {size: f"{_time(time)}, {ratio:.2f}" for size, (time, ratio) in cells.items()}
            for name, cells in rows.items()
        },
        {name: {size: ratio for size, (_, ratio) in cells.items()} for name, cells in rows.items()},
    )


def beyond_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of rows of `shmbench beyond --json`, each beside its limit."""
    lines = ["| | measured | beside | ratio |", "|---|---|---|---|"]
    for row in rows:
        beside = f"{row['beside']}: {_time(row['beside_figure'])} | {row['ratio']:.2f}" if row["beside"] else " | "
        lines.append(f"| {row['what']} | {_time(row['figure'])} | {beside} |")
    return "\n".join(lines)


def _time(seconds: float) -> str:
    return f"{1e6 * seconds:.3g} us" if seconds < 999.5e-6 else f"{1e3 * seconds:.3g} ms"
