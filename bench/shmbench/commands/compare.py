"""The command `shmbench compare`: shmcoll and the installed peers in turn, round after round, in the same harness.

In a round every library measures all sizes of a collective, in processes started for that. So do processes that only
make the copies and sums which the collective cannot avoid: its limit. A noisy minute affects all of them.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from shmbench.cli import conditions
from shmbench.cli.flags import Parser, at_least, one_of, size_list
from shmbench.cli.options import ALIASES, COLLECTIVES, DTYPES, GROUPS, LEAST_LIMITED, LIMIT, LIMITED, OPS
from shmbench.report.ratios import TITLES, Result, foot, head, lines
from shmbench.timing import neighbour
from shmbench.timing.launch import Failed, beside, run
from shmbench.timing.peers import FOLDER, PEERS, SCRIPTS, installed, of_python

LOOPS = 3  # timed loops per process; their median is the time of the round


def main(argv: list[str]) -> int:
    """Measure, print, write. Returns 0, or 1 if shmcoll failed. For a mistake, prints one line and raises
    `SystemExit(2)`."""
    given = _parse(argv)
    with neighbour.running(given.conditions.neighbour) as given.neighbour_pid:
        results = _compare(given)
    return 1 if any(result["error"] for result in results if result["library"] == "shmcoll") else 0


def _compare(given: argparse.Namespace) -> list[Result]:
    """Return the results of all collectives; print and keep each when it is there."""
    print(head(given.ranks, given.rounds, given.conditions, given.libraries), flush=True)
    results: list[Result] = given.earlier
    for name in given.collectives:
        earlier = [result for result in results if result["collective"] == name]
        measured = [*earlier, *_measure(given, name)]
        print(*lines(measured, name, given.libraries), sep="\n", flush=True)
        results = [*(result for result in results if result["collective"] != name), *measured]
        if given.json:
            _keep(given.json, results)
    print(foot(results), flush=True)
    return results


def _measure(given: argparse.Namespace, name: str) -> list[Result]:
    """Return all rounds of a collective. A library that fails is left out of the following rounds."""
    results: list[Result] = []
    taking_part = [library for library in given.libraries if library == "shmcoll" or name not in PEERS[library].lacks]
    long = [size for size in given.sizes if size >= LEAST_LIMITED]
    limit = [LIMIT] if given.limit and long and name in LIMITED else []
    for number in range(1, given.rounds + 1):
        for library in [*taking_part, *limit]:
            print(f"round {number} of {given.rounds}: {name}, {TITLES[library]}", file=sys.stderr, flush=True)
            result = _run(given, library, name, long if library == LIMIT else given.sizes)
            results.append(result)
            if result["error"]:
                print(f"left out: {result['error']}", file=sys.stderr, flush=True)
                taking_part = [other for other in taking_part if other != library]
    return results


def _run(given: argparse.Namespace, library: str, name: str, sizes: Iterable[int]) -> Result:
    """Return the times of all sizes, measured once, of a library or of the limit."""
    runner = "shmcoll" if library == LIMIT else library
    error, table = None, None
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "table.json"
        arguments = [name, "-n", str(given.ranks), "--sizes", ",".join(map(str, sizes)), "-J", str(out)]
        arguments += ["-d", given.dtype, "-o", given.op, "-r", str(given.root), "--rounds", str(LOOPS)]
        arguments += ["--iters", str(given.iters)] if given.iters else []
        arguments += ["--limit"] if library == LIMIT else []
        arguments += given.conditions.flags()
        arguments += ["--neighbour", str(given.neighbour_pid)] if given.neighbour_pid else []
        try:
            with beside(runner, given.homes, given.conditions.beside, given.ranks, given.timeout):
                run(runner, given.homes, arguments, given.ranks, given.timeout)
            table = _read(out)
            table["options"]["conditions"] = asdict(given.conditions)
        except Failed as e:
            error = str(e)
    return {"library": library, "collective": name, "ranks": given.ranks, "error": error, "table": table}


def _earlier(given: argparse.Namespace) -> list[Result]:
    """Return the results of earlier rounds, of any sizes. Raises `ValueError` if they are of other measurements."""
    from shmbench.report.curves import read

    read(given.json)  # raises if it is not such a file
    results: list[Result] = json.loads(given.json.read_text(encoding="utf-8")).get("results", [])
    wanted = {name: getattr(given, name) for name in ("ranks", "dtype", "op", "root")}
    wanted["conditions"] = asdict(given.conditions)
    for result in results:
        if result["library"] == "shmcoll" and result["table"]:
            options = result["table"]["options"]
            for name, value in wanted.items():
                if options[name] != value:
                    raise ValueError(f"{given.json} was measured with {name} {options[name]}, not {value}")
    return results


def _read(path: Path) -> dict[str, Any]:
    from shmbench.report.curves import read

    (table,) = read(path)
    return table


def _keep(path: Path, results: list[Result]) -> None:
    from shmbench.report.json_report import FORMAT, write

    write(path, {"format": FORMAT, "results": results})


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = make_parser()
    given = parser.parse_args(argv)
    try:
        there = given.homes = installed(given.peers) | (of_python(given.python) if given.python else {})
    except ValueError as e:
        parser.error(f"--python: {e}")
    given.collectives = list(dict.fromkeys(given.collectives)) or list(COLLECTIVES)
    given.libraries = ["shmcoll", *(name for name in given.libraries or there if name != "shmcoll")]
    given.dtype = ALIASES.get(given.dtype, given.dtype)
    missing = [name for name in given.libraries[1:] if name not in there]
    if not SCRIPTS.is_dir():
        parser.error("the peers need a checkout of shmcoll: git clone it, and run `make peers` there")
    if missing or not there:
        own = "" if given.python else ", or give --python a Python that has mpi4py or torch"
        parser.error(f"not installed in {given.peers}: {', '.join(missing or PEERS)}; `make peers` does that{own}")
    if given.root >= given.ranks:
        parser.error(f"-r {given.root} is not a rank of {given.ranks}: roots are 0 to {given.ranks - 1}")
    if given.json and not given.json.absolute().parent.is_dir():
        parser.error(f"--json {given.json}: there is no folder {given.json.parent}")
    given.conditions = conditions.conditions_from(given)
    if complaint := conditions.complaint(given.conditions, given.ranks, max(given.sizes)):
        parser.error(complaint)
    if given.append and not given.json:
        parser.error("--append needs --json FILE, whose rounds count as well")
    try:
        given.earlier = _earlier(given) if given.append and given.json.exists() else []
    except (OSError, ValueError) as error:
        parser.error(str(error))
    return given


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="shmbench compare",
        description="Measure shmcoll and the peers that `make peers` has installed, or that the Python of --python "
        "has, in turn, and print the ratios. A peer that has no such operation is shown as -, one that fails is "
        "reported and left out.",
        epilog="Exit code: 0, 1 when shmcoll failed or its results were wrong, 2 for wrong options.",
    )
    add = parser.add_argument
    ops = tuple(op for op in OPS if op != "avg")  # MPI does not have it
    add("collectives", nargs="*", type=one_of("collective", COLLECTIVES + GROUPS), metavar="collective",
        help=f"{', '.join(COLLECTIVES)} (all of these); {', '.join(GROUPS)}")  # fmt: skip
    add("-n", "--ranks", type=at_least(1), default=2, metavar="N", help="ranks (2)")
    add("--sizes", type=size_list, default="8,16K,256K,4M,64M", metavar="SIZE,...", help="(8,16K,256K,4M,64M)")
    add("--rounds", type=at_least(1), default=5, metavar="N", help="rounds, whose medians are compared (5)")
    add("--libraries", nargs="+", type=one_of("library", ("shmcoll", *PEERS)), metavar="NAME",
        help=f"only these peers: {', '.join(PEERS)} (all that are installed)")  # fmt: skip
    add("-d", "--datatype", dest="dtype", type=one_of("dtype", DTYPES + tuple(ALIASES)), default="float32",
        metavar="TYPE", help="(float32)")  # fmt: skip
    add("-o", "--op", type=one_of("op", ops), default="sum", metavar="OP", help=f"{', '.join(ops)} (sum)")
    add("-r", "--root", type=at_least(0), default=0, metavar="RANK", help="root, where there is one (0)")
    add("--iters", type=at_least(1), metavar="N", help="timed iterations a loop (as many as fill 0.1 s)")
    conditions.add_flags(parser)
    add("--beside", type=at_least(0), default=0, metavar="N",
        help="more jobs of the same library and size, which sum up arrays of 64 KiB meanwhile (0)")  # fmt: skip
    add("--limit", action=argparse.BooleanOptionalAction, default=True,
        help="measure the limit of long calls, too (--limit)")  # fmt: skip
    add("--timeout", type=at_least(1), default=300, metavar="S", help="seconds that a library may take a round (300)")
    add("--peers", type=Path, default=FOLDER, metavar="FOLDER", help="where the peers are installed (.peers)")
    add("--python", type=Path, metavar="PYTHON",
        help="add mpi4py and torch of this Python, with the mpiexec beside it or in PATH")  # fmt: skip
    add("--json", type=Path, metavar="FILE", help="write all figures; `shmbench plot` draws them")
    add("--append", action="store_true", help="add the rounds to those that FILE holds, and print medians over all")
    return parser
