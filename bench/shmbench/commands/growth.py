"""The command `shmbench growth`: how calls of few and of more bytes grow with the number of ranks, beside the peers.

It runs `shmbench compare` for each number of ranks. Beyond the cores of the machine, it shows what ranks cost that have
to take turns.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from shmbench.cli.flags import Parser, one_of, size_list
from shmbench.cli.options import COLLECTIVES
from shmbench.commands import compare
from shmbench.commands.job_options import add_jobs
from shmbench.report.growth_table import markdown

USUAL = ("barrier", "all_reduce", "broadcast", "all_to_all", "all_gather")


def main(argv: list[str]) -> int:
    """Measure, print, write. Returns 0, or 1 if shmcoll failed. Raises `SystemExit(2)` for mistakes."""
    parser = make_parser()
    given = parser.parse_args(argv)
    if given.json and not given.json.absolute().parent.is_dir():
        parser.error(f"--json {given.json}: there is no folder {given.json.parent}")
    status, results = 0, []
    for ranks in given.ranks:
        print(f"# {ranks} ranks", file=sys.stderr, flush=True)
        found, failed = _compare(given, ranks)
        results += found
        status |= failed
    print(markdown(results))
    if given.json:
        from shmbench.report.json_report import FORMAT, machine, write

        write(given.json, {"format": FORMAT, "machine": machine(), "growth": list(given.ranks), "results": results})
    return status


def _compare(given: argparse.Namespace, ranks: int) -> tuple[list[dict[str, Any]], int]:
    """Return the results for a number of ranks, and the exit code."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "compare.json"
        arguments = [*(given.collectives or USUAL), "-n", str(ranks), "--sizes", ",".join(map(str, given.sizes))]
        arguments += ["--rounds", str(given.rounds), "--buffers", "1", "--no-limit"]
        arguments += ["--timeout", str(given.timeout), "--peers", str(given.peers), "--json", str(out)]
        arguments += ["--libraries", *(given.libraries or ["shmcoll"])] if given.libraries is not None else []
        status = compare.main(arguments)
        return json.loads(out.read_text(encoding="utf-8"))["results"], status


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="shmbench growth",
        description="Run `shmbench compare` for several numbers of ranks, and print a table of how calls grow.",
    )
    add = parser.add_argument
    add("collectives", nargs="*", type=one_of("collective", COLLECTIVES), metavar="collective",
        help=f"({' '.join(USUAL)})")  # fmt: skip
    add("--sizes", type=size_list, default="8,64K", metavar="SIZE,...", help="(8,64K)")
    add_jobs(parser, ranks="4,8,16,32,64", rounds=3, timed="a round of a library")
    return parser
