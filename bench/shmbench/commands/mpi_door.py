"""`shmbench compare --door mpi`: a program of mpi4py on this library, and on each library of MPI that is there.

All run with this Python and its mpi4py, and measure in turn (`timing/turns`). The time of a whole job is that from its
start to its end, of a program that does nothing but a Barrier.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from shmbench.cli.sizes import microseconds, short_size
from shmbench.commands.door import Line
from shmbench.report.ratios import TITLES
from shmbench.timing.launch import Command, Failed, run_all
from shmbench.timing.peers import IMPORTED, PEERS, SCRIPTS, of_mpi
from shmbench.timing.turns import in_turn

TIMEOUT = 300
START = "from mpi4py import MPI; MPI.COMM_WORLD.Barrier()"
START_NAME = "start to end of a job that calls Barrier"


def commands(libraries: Sequence[str], ranks: int, program: Sequence[str]) -> dict[str, Command]:
    """Return how a program of mpi4py is started on shmcoll, and on each of these libraries that is there."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, IMPORTED)), "OMP_NUM_THREADS": "1"}
    ours = [sys.executable, "-m", "shmrun", "-n", str(ranks), "--mpi", *program]
    found: dict[str, Command] = {"shmcoll": (ours, environment)}
    for name, home in of_mpi().items():
        if name not in libraries:
            continue
        library = min(home.glob("lib/libmpi.so.*"), key=lambda path: len(path.name))  # Intel MPI has names for versions
        mpiexec = [str(home / "bin" / "mpiexec"), *(PEERS[name].mpiexec or []), "-n", str(ranks)]
        found[name] = [*mpiexec, sys.executable, *program], environment | {"MPI4PY_LIBMPI": str(library)}
    return found


def lines(given: argparse.Namespace, failed: dict[str, str], versions: dict[str, str]) -> Iterator[Line]:
    """Yield each line when all libraries have measured it. failed: gets those that fail, and why."""
    if given.call in START_NAME:
        yield _starts(given, failed)
    asked = json.dumps({name: getattr(given, name) for name in ("rounds", "call", "quick", "least")})
    jobs = commands(given.libraries, given.ranks, [str(SCRIPTS / "mpi_door.py"), asked])
    cells: dict[tuple[str, int], list[Line]] = {}
    for library, found in in_turn(jobs, given.ranks, TIMEOUT):
        if isinstance(found, Failed):
            failed[library] = str(found)
        elif isinstance(found, str):
            versions[library] = found
        else:
            line = Line(**found)
            times = {library if name == "mpi" else name: each for name, each in line.microseconds.items()}
            cells.setdefault((line.name, line.bytes), []).append(replace(line, microseconds=times))
        for cell in [cell for cell, there in cells.items() if len(there) >= len(jobs) - len(failed)]:
            yield _joined(cells.pop(cell))
    yield from map(_joined, cells.values())


def _joined(parts: Sequence[Line]) -> Line:
    times = {name: each for part in parts for name, each in part.microseconds.items()}
    return replace(parts[0], microseconds=times, wrong=sum(part.wrong for part in parts))


def _starts(given: argparse.Namespace, failed: dict[str, str]) -> Line:
    times: dict[str, list[float]] = {}
    with tempfile.NamedTemporaryFile("w", suffix=".py") as program:
        program.write(START)
        program.flush()
        for _ in range(given.rounds):
            for name, command in commands(given.libraries, given.ranks, [program.name]).items():
                if name in failed:
                    continue
                begin = time.perf_counter()
                try:
                    run_all([command], TIMEOUT)
                except Failed as failure:
                    failed[name] = str(failure)
                times.setdefault(name, []).append(1e6 * (time.perf_counter() - begin))
    return Line(START_NAME, times, 0, 0)


def head(given: argparse.Namespace) -> str:
    columns = "".join(f"{title:>12}" for title in ("native", *(TITLES[name] for name in given.there)))
    figures = f"{'least' if given.least else 'medians'} of {given.rounds} rounds in turn"
    return (
        f"# a program of mpi4py, {given.ranks} ranks: microseconds of a call, {figures};\n"
        f"# native: the call of shmcoll that does the same; ratio: shmcoll over the fastest MPI; every result checked\n"
        f"#\n"
        f"# {'call':<48}{'bytes':>8}{columns}{'ratio':>8}"
    )


def text(line: Line, given: argparse.Namespace) -> str:
    figure = min if given.least else median
    times = {name: figure(each) for name, each in line.microseconds.items()}
    there = ("native", *given.there)
    columns = "".join(f"{microseconds(times[name]) if name in times else '-':>12}" for name in there)
    others = [us for name, us in times.items() if name not in ("native", "shmcoll")]
    ratio = f"{times['shmcoll'] / min(others):.2f}" if others and "shmcoll" in times else "-"
    verdict = f"  {line.wrong} wrong" if line.wrong else ""
    return f"  {line.name:<48}{short_size(line.bytes) if line.bytes else '-':>8}{columns}{ratio:>8}{verdict}"


def foot(given: argparse.Namespace, failed: Mapping[str, str], versions: Mapping[str, str]) -> Iterator[str]:
    """Yield the versions, and the lines about what is left out."""
    yield f"# {'; '.join(versions.values())}"
    for name in given.libraries:
        if name not in given.there:
            yield f"# left out: {TITLES[name]}: not installed; `make peers` does that"
    for name, why in failed.items():
        yield f"# left out: {TITLES[name]}: {why}"
