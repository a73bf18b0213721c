"""What `shmbench start` has measured as tables in Markdown."""

from collections.abc import Sequence
from statistics import median
from typing import Any

from shmbench.report.ratios import TITLES

Row = dict[str, Any]


def markdown(rows: Sequence[Row]) -> str:
    """Return two tables: programs of one process, and jobs by their number of ranks."""
    rows = [row for row in rows if row["seconds"]]
    programs = [
        f"| {row['what']} | {_milliseconds(row['seconds'])} | {_milliseconds(row['processor'])} |"
        for row in rows
        if not row["ranks"]
    ]
    head = ["| program of one process | ms | ms of processor time |", "|---|---|---|"]
    return "\n".join([*head, *programs, "", *_jobs([row for row in rows if row["ranks"]])])


def _jobs(rows: Sequence[Row]) -> list[str]:
    lines = [
        "| job | ranks | s | s of processor time | MiB a rank | time over that of the fastest peer |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        name = TITLES[row["library"]] + (" and numpy" if "numpy" in row["what"] else "")
        memory = f"{row['memory'] / 1024:.1f}" if row["memory"] else "-"
        times = f"{median(row['seconds']):.2f} | {median(row['processor']):.2f}"
        lines.append(f"| {name} | {row['ranks']} | {times} | {memory} | {_ratio(row, rows)} |")
    return lines


def _ratio(row: Row, rows: Sequence[Row]) -> str:
    """Return the time of shmcoll over that of the fastest peer, and over that of the fastest that imports numpy."""
    if row["library"] != "shmcoll":
        return ""
    found = []
    for with_numpy in (False, True):
        peers = [
            median(other["seconds"])
            for other in rows
            if other["ranks"] == row["ranks"]
            and other["library"] != "shmcoll"
            and ("numpy" in other["what"]) == with_numpy
        ]
        if peers:
            found.append(f"{median(row['seconds']) / min(peers):.2f}{' with numpy' if with_numpy else ''}")
    return ", ".join(found)


def _milliseconds(seconds: Sequence[float]) -> str:
    return f"{1e3 * median(seconds):.0f}"
