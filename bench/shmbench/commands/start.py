"""The command `shmbench start`: how long a job takes that does nothing, of shmcoll and of the peers in turn.

A job imports its library, makes one barrier, and ends. Programs of one process are timed beside it: what a part of the
start takes alone, and what it cannot take less than.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from shmbench.cli.flags import Parser
from shmbench.commands.job_options import add_jobs
from shmbench.report.start_table import markdown
from shmbench.timing.other_load import WholeRun
from shmbench.timing.peers import OF_MPI, PEERS, SCRIPTS, Home, environment, installed
from shmcoll.engine.system.interpreter import interpreter_environment

#: programs of one process, by what the table calls them
PROGRAMS = {
    "an empty program": "",
    "import numpy": "import numpy",
    "import numpy, numba": "import numpy, numba",
    "import shmcoll": "import shmcoll",
    "shmcoll.init()": "import shmcoll; shmcoll.init()",
    "shmcoll.init(), a barrier": "import shmcoll; shmcoll.init().barrier()",
    "shmcoll.run of a barrier, 2 ranks": "import shmcoll; shmcoll.run(lambda: shmcoll.init().barrier(), 2)",
}
_MOST_OF_SLOW = 64  # ranks: peers take minutes for more, with fewer cores


class Start(NamedTuple):
    """What is timed. ranks: 0 for a program of one process that is no job."""

    what: str
    library: str
    ranks: int
    command: list[str]
    variables: Mapping[str, str]


def main(argv: list[str]) -> int:
    """Measure, print, write. Returns 0, or 1 if a job failed. Raises `SystemExit(2)` for mistakes."""
    parser = make_parser()
    given = parser.parse_args(argv)
    homes = installed(given.peers)
    libraries = given.libraries if given.libraries is not None else [name for name in homes if name in OF_MPI]
    if missing := [name for name in libraries if name not in homes]:
        parser.error(f"not installed in {given.peers}: {', '.join(missing)}; `make peers` does that")
    if given.json and not given.json.absolute().parent.is_dir():
        parser.error(f"--json {given.json}: there is no folder {given.json.parent}")
    whole = WholeRun()
    starts = [*_programs(), *_jobs(given.ranks, {name: homes[name] for name in libraries})]
    found = [_row(start) for start in starts]
    for number in range(given.rounds):
        print(f"round {number + 1} of {given.rounds}", file=sys.stderr, flush=True)
        for start, row in zip(starts, found, strict=True):
            if not row["error"]:
                _time(start, row, given.timeout)
    for start, row in zip(starts, found, strict=True):
        if start.ranks and not row["error"]:
            row["memory"] = _memory(start, given.timeout)
    print(markdown(found))
    if given.json:
        from shmbench.report.json_report import FORMAT, machine, write

        write(given.json, {"format": FORMAT, "machine": machine(), "load": whole.end(), "starts": found})
    return 1 if any(row["error"] for row in found if row["library"] == "shmcoll") else 0


def _programs() -> Iterator[Start]:
    for what, code in PROGRAMS.items():
        yield Start(what, "shmcoll", 0, [sys.executable, "-c", code], _ours())


def _jobs(numbers: tuple[int, ...], homes: Mapping[str, Home]) -> Iterator[Start]:
    script = str(SCRIPTS / "start.py")
    for ranks in numbers:
        shmrun = [sys.executable, "-m", "shmrun", "-n", str(ranks), script, "shmcoll", "alone"]
        yield Start("a job", "shmcoll", ranks, shmrun, _ours())
        for name, home in homes.items():
            mpiexec = [str(home.mpiexec), *(PEERS[name].mpiexec or []), "-n", str(ranks), str(home.python), script]
            if ranks <= _MOST_OF_SLOW:
                yield Start("a job", name, ranks, [*mpiexec, "mpi", "alone"], environment())
                yield Start("a job that imports numpy", name, ranks, [*mpiexec, "mpi", "numpy"], environment())


def _ours() -> Mapping[str, str]:
    return interpreter_environment(os.environ, sys.path)


def _row(start: Start) -> dict[str, Any]:
    named = {"what": start.what, "library": start.library, "ranks": start.ranks}
    return {**named, "seconds": [], "processor": [], "memory": None, "error": None}


def _time(start: Start, row: dict[str, Any], timeout: float) -> None:
    """Run it once, and add its time and the processor time of all its processes to the row, or why it failed."""
    used, began = _used(), time.monotonic()
    if error := _run(start, timeout):
        row["error"] = error
        what = f"{start.ranks} ranks" if start.ranks else start.what
        print(f"left out: {start.library}, {what}: {error}", file=sys.stderr, flush=True)
        return
    row["seconds"].append(round(time.monotonic() - began, 6))
    row["processor"].append(round(_used() - used, 6))


def _run(start: Start, timeout: float) -> str | None:
    try:
        subprocess.run(
            start.command, env=start.variables, timeout=timeout, check=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"not done after {timeout:g} s"
    except subprocess.CalledProcessError as e:
        return f"exit code {e.returncode}"
    return None


def _used() -> float:
    now = os.times()
    return now.children_user + now.children_system


def _memory(start: Start, timeout: float) -> float | None:
    """Return how many KiB a rank has, on average; None if it could not be measured."""
    with tempfile.TemporaryDirectory() as folder:
        failed = _run(start._replace(command=[*start.command, folder]), timeout)
        sizes = [int(path.read_text(encoding="utf-8")) for path in Path(folder).iterdir()]
    return sum(sizes) / len(sizes) if len(sizes) == start.ranks and not failed else None


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="shmbench start",
        description="Time programs that do nothing but import, join and end: of one process, and jobs of shmrun and of "
        "the mpiexec of each installed peer, in turn; and the memory of a rank.",
    )
    add_jobs(parser, ranks="2,16,64,256", rounds=5, timed="a job")
    return parser
