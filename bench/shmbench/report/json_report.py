"""The results for programs: one JSON document with the figures, the machine and the options."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import shmcoll
from shmbench.cli.options import Options
from shmbench.report.table import Row, average_bus_bandwidth, wrong
from shmbench.timing.library import Library
from shmbench.timing.measure import Timing

FORMAT = 1
_NOT_KEPT = ("json", "neighbour_pid")


def document(library: Library, options: Options, rows: Sequence[Row], load: dict[str, float]) -> dict[str, Any]:
    """Return everything about a run, ready for `json.dump`. Times are in microseconds, bandwidths in 1e9 bytes per
    second.

    load: the result of `RunLoad.end`.
    """
    return {
        "format": FORMAT,
        "library": library.name,
        "library_version": library.version,
        "machine": machine(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "load": load,
        "options": {name: value for name, value in asdict(options).items() if name not in _NOT_KEPT},
        "collective": options.collective,
        "ranks": library.size,
        "rows": [_row(row) for row in rows],
        "average_busbw": average_bus_bandwidth(rows),
        "wrong": wrong(rows),
    }


def write_calls(path: Path, **parts: Any) -> None:
    """Write a document about shmcoll alone: what was asked, and what was found."""
    head = {"format": FORMAT, "library": "shmcoll", "library_version": shmcoll.__version__, "machine": machine()}
    write(path, head | parts)


def origin() -> str:
    """Return the version and the machine, for people."""
    here = machine()
    return f"shmcoll {shmcoll.__version__}; {here['processor']}, {here['cores']} cores"


def verdict(wrong: int) -> str:
    """Return the line about the checks of all results."""
    return f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}"


def write(path: Path, document: dict[str, Any]) -> None:
    """Write the document with one record per line, so that `git diff` shows which ones a new run has changed."""
    path.write_text(_text(document) + "\n", encoding="utf-8")


def _text(value: Any) -> str:
    """Return `value` as JSON in which each element of a list of objects begins a line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {_text(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list) and value and all(isinstance(part, dict) for part in value):
        return "[\n" + ",\n".join(_text(part) for part in value) + "\n]"
    return json.dumps(value)


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),  # of the machine: launchers may bind each rank to one
        "kernel": platform.release(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        names = [line.split(":", 1)[1].strip() for line in f if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _row(row: Row) -> dict[str, Any]:
    return {
        "size": row.size,
        "count": row.count,
        "type": row.dtype,
        "redop": row.op,
        "root": row.root,
        "out_of_place": _timing(row, row.out_of_place) if row.out_of_place else None,
        "in_place": _timing(row, row.in_place) if row.in_place else None,
    }


def _timing(row: Row, timing: Timing) -> dict[str, Any]:
    return {
        "time": timing.seconds * 1e6,
        "algbw": row.algorithm_bandwidth(timing),
        "busbw": row.bus_bandwidth(timing),
        "wrong": timing.wrong,
        "iterations": timing.iterations,
        "pairs": timing.pairs,
        "rounds": [seconds * 1e6 for seconds in timing.rounds],
        **({"ways": _ways(timing)} if timing.ways else {}),
    }


def _ways(timing: Timing) -> list[dict[str, Any]]:
    return [{"way": way, "time": seconds * 1e6} for way, seconds in timing.ways.items()]
