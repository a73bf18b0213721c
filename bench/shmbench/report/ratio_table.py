"""Files of `shmbench compare --json` as tables in Markdown: a row for each collective, a column for each size.

docs/generate.py writes them into docs/performance.md, so every table there is what a file says.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log
from statistics import median
from typing import Any, NamedTuple

from shmbench.cli.options import LIMIT, READS
from shmbench.cli.sizes import short_size
from shmbench.report.ratios import PLACEMENTS, Result, times
from shmbench.timing.peers import PEERS

BEHIND = 0.95  # of the time of the fastest peer


class Cell(NamedTuple):
    """The time over that of the fastest peer, over the limit, and over the limit of libraries whose arrays are private:
    reads by the kernel."""

    ratio: float
    limited: float | None = None
    read: float | None = None


def markdown(results: Sequence[Result]) -> str:
    """Return the table and a line about it.

    A cell is the time of shmcoll over that of the fastest peer. From 64 KiB on, the second number of a cell is the time
    over its limit: see `timing/limit.py`.
    """
    rows = {(name, placement): cells for name, placement, cells in _rows(results)}
    titles = {
        row: f"{row[0]}, in place" if row[1] == "in_place" and (row[0], "out_of_place") in rows else row[0]
        for row in rows
    }
    return _table(
        {titles[row]: {size: _words(cell) for size, cell in cells.items()} for row, cells in rows.items()},
        {titles[row]: cells for row, cells in rows.items()},
    )


def _rows(results: Sequence[Result]) -> Iterator[tuple[str, str, dict[int, Cell]]]:
    """Return the collective, the placement and the cell of each size."""
    libraries = dict.fromkeys(result["library"] for result in results)
    peers = [library for library in libraries if library in PEERS]
    for name in dict.fromkeys(result["collective"] for result in results):
        ours, theirs = times(results, name, "shmcoll"), [times(results, name, peer) for peer in peers]
        limits, reads = times(results, name, LIMIT), times(results, name, LIMIT, _by_reads)
        for placement in PLACEMENTS:
            cells = {}
            for (size, where), time in ours.items():
                best = min((peer[size, where] for peer in theirs if (size, where) in peer), default=None)
                if where == placement and best:
                    limit, read = limits.get((size, where)), reads.get((size, where))
                    cells[_column(size)] = Cell(
                        time / best, time / limit if limit else None, time / read if read else None
                    )
            if cells:
                yield name, placement, cells


def _column(size: int) -> int:
    """Return the column of a size. Those of few bytes share one: some collectives need a block for each rank."""
    return 8 if 0 < size <= 64 else size


def _by_reads(timing: Mapping[str, Any]) -> float | None:
    """Return the time of the limit if peers' memory is read by the kernel."""
    return min((one["time"] for one in timing.get("ways", ()) if one["way"].startswith(READS)), default=None)


def _words(cell: Cell) -> str:
    return f"{cell.ratio:.2f}" if cell.limited is None else f"{cell.ratio:.2f}, {cell.limited:.2f}"


def _table(words: Mapping[str, Mapping[int, str]], rows: Mapping[str, Mapping[int, Cell]]) -> str:
    """Return rows of cells by size, and a line with the geometric mean and the cells that are not ahead."""
    sizes = sorted({size for cells in words.values() for size in cells})
    lines = [
        f"| | {' | '.join(short_size(size) if size else 'no bytes' for size in sizes)} |",
        "|---" * (1 + len(sizes)) + "|",
        *(f"| {title} | {' | '.join(cells.get(size, '') for size in sizes)} |" for title, cells in words.items()),
    ]
    found = [(title, size, cell) for title, cells in rows.items() for size, cell in cells.items()]
    mean = exp(sum(log(cell.ratio) for *_, cell in found) / len(found))
    behind = [
        " ".join([title, *([short_size(size)] if size else []), f"{cell.ratio:.2f}", *_of_limits(cell)])
        for title, size, cell in found
        if cell.ratio > BEHIND
    ]
    above = f"Above {BEHIND}: {'; '.join(behind)}." if behind else f"No cell is above {BEHIND}."
    return "\n".join([*lines, "", f"Geometric mean of {len(found)} cells: {mean:.2f}. {above}"])


def _of_limits(cell: Cell) -> list[str]:
    if cell.limited is None:
        return []
    read = "" if cell.read is None else f", {cell.read:.2f} of reads"
    return [f"({cell.limited:.2f} of the limit{read})"]


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
        {name: {size: Cell(ratio) for size, (_, ratio) in cells.items()} for name, cells in rows.items()},
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
