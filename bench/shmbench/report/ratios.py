"""The table of `shmbench compare`: one line for each collective, size and placement, with medians over the rounds."""

from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

from shmbench.cli.conditions import Conditions, conditions_of
from shmbench.cli.options import LIMIT
from shmbench.cli.sizes import microseconds, short_size
from shmbench.timing.other_load import BUSY, in_words
from shmbench.timing.peers import PEERS

Result = dict[
    str, Any
]  # {library, collective, ranks, error, table}: a run; table as `report.document` makes it, or None
TITLES = {"shmcoll": "shmcoll", **{name: peer.title for name, peer in PEERS.items()}, LIMIT: LIMIT}
PLACEMENTS = {"out_of_place": "out of place", "in_place": "in place"}


def head(ranks: int, rounds: int, conditions: Conditions, libraries: Sequence[str]) -> str:
    """Return the lines above the table."""
    titles = "".join(f"{TITLES[name]:>11}" for name in [*libraries, LIMIT])
    return (
        f"# ranks: {ranks}, rounds: {rounds}. Microseconds a call, medians; ratio: shmcoll over the fastest peer.\n"
        f"# {conditions}\n"
        f"# limit: the copies and sums that the ranks cannot avoid, each once, without a wait; from 64K on.\n"
        f"#\n"
        f"# {'collective':<17}{'size':>9}  {'placement':<12}{titles}{'ratio':>8}"
    )


def lines(results: Sequence[Result], name: str, libraries: Sequence[str]) -> Iterator[str]:
    """Return the lines of the collective `name`, from its results. A library without a figure is shown as "-"."""
    columns = {column: times(results, name, column) for column in (*libraries, LIMIT)}
    peers = [columns[library] for library in libraries if library != "shmcoll"]
    for size, placement in dict.fromkeys(cell for library in libraries for cell in columns[library]):
        cells = [found.get((size, placement)) for found in columns.values()]
        ours, best = cells[0], min((p[size, placement] for p in peers if (size, placement) in p), default=None)
        ratio = f"{ours / best:.2f}" if ours and best else "-"
        yield (
            f"  {name:<17}{short_size(size) if size else '-':>9}  {PLACEMENTS[placement]:<12}"
            + "".join(f"{'-' if time is None else microseconds(time):>11}" for time in cells)
            + f"{ratio:>8}"
        )


def busy(documents: Sequence[dict[str, Any]]) -> str:
    """Return how much of the cores others used meanwhile, in words; empty if that was little, or meant (`--beside`)."""
    loads = [document["load"] for document in documents if document.get("load") and not conditions_of(document).beside]
    most = max(loads, key=lambda load: load["others"], default=None)
    return in_words(most["others"], most.get("stolen", 0.0)) if most and most["others"] > BUSY else ""


def foot(results: Sequence[Result]) -> str:
    """Return the lines below the table: the libraries and the machine, and which libraries were left out and why."""
    tables = [result["table"] for result in results if result["table"] and result["library"] != LIMIT]
    versions = dict.fromkeys(f"{table['library']} {table['library_version']}" for table in tables)
    machines = dict.fromkeys(f"{t['machine']['processor']}, {t['machine']['cores']} cores" for t in tables)
    failures = dict.fromkeys((r["collective"], TITLES[r["library"]], r["error"]) for r in results if r["error"])
    share = busy(tables)
    return "\n".join(
        [
            *([f"# busy: others used up to {share}; these times are too long"] if share else []),
            f"# {'; '.join(versions)}",
            f"# {'; '.join(machines)}",
            *(f"# left out of {name}: {library}: {error}" for name, library, error in failures),
        ]
    )


def succeeded(results: Sequence[Result], library: str) -> list[dict[str, Any]]:
    """Return the tables of a library; an empty list if one of its rounds has failed."""
    runs = [result for result in results if result["library"] == library]
    return [] if any(run["error"] for run in runs) else [run["table"] for run in runs]


def times(
    results: Sequence[Result],
    name: str,
    library: str,
    time_of: Callable[[dict[str, Any]], float | None] = lambda timing: timing["time"],
) -> dict[tuple[int, str], float]:
    """Return the median microseconds of a library for each size and placement. time_of: which of the figures counts."""
    cells: dict[tuple[int, str], list[float]] = {}
    for table in succeeded([result for result in results if result["collective"] == name], library):
        for row in table["rows"]:
            for placement in PLACEMENTS:
                if row[placement] and (time := time_of(row[placement])) is not None:
                    cells.setdefault((row["size"], placement), []).append(time)
    return {cell: median(times) for cell, times in cells.items()}
