"""What `shmbench growth` has measured as a table in Markdown: a row for each number of ranks."""

from collections.abc import Sequence

from shmbench.cli.sizes import short_size
from shmbench.report.ratios import Result, times
from shmbench.timing.peers import PEERS


def markdown(results: Sequence[Result]) -> str:
    """Return the table. A cell is the time of shmcoll out of place, in us, and its ratio to the fastest peer."""
    numbers = list(dict.fromkeys(result["ranks"] for result in results))
    cells: dict[int, dict[str, str]] = {ranks: {} for ranks in numbers}
    for ranks in numbers:
        of_ranks = [result for result in results if result["ranks"] == ranks]
        peers = [name for name in dict.fromkeys(r["library"] for r in of_ranks) if name in PEERS]
        for name in dict.fromkeys(result["collective"] for result in of_ranks):
            ours = times(of_ranks, name, "shmcoll")
            theirs = [times(of_ranks, name, peer) for peer in peers]
            shown: dict[str, tuple[float, float | None]] = {}
            for (size, placement), time in ours.items():
                title = f"{name} {short_size(_nominal(size))}" if size else name
                if title not in shown or placement == "out_of_place":
                    best = min((one[size, placement] for one in theirs if (size, placement) in one), default=None)
                    shown[title] = time, time / best if best else None
            cells[ranks] |= {title: _cell(*found) for title, found in shown.items()}
    titles = list(dict.fromkeys(title for row in cells.values() for title in row))
    lines = [f"| ranks | {' | '.join(titles)} |", "|---" * (1 + len(titles)) + "|"]
    lines += [f"| {ranks} | {' | '.join(row.get(title, '-') for title in titles)} |" for ranks, row in cells.items()]
    return "\n".join(lines)


def _nominal(size: int) -> int:
    """Return the size that was asked for: some collectives need a block for each rank."""
    return 8 if size <= 1024 else 64 << 10 if size < 128 << 10 and size % 4096 else size


def _cell(microseconds: float, ratio: float | None) -> str:
    time = f"{microseconds:.1f}" if microseconds < 100 else f"{microseconds:.0f}"
    return f"{time} ({ratio:.2f})" if ratio is not None else time
