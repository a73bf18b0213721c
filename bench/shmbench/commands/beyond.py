"""The command `shmbench beyond`: features that the peers of shmcoll do not have, each beside its limit, in one table.

Every group of rows (`features/`) starts jobs of its own. A group that fails is left out, and the last lines give the
reason.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from shmbench.cli.flags import Parser, at_least, one_of
from shmbench.cli.sizes import microseconds

GROUPS = {
    "plan": "a planned all_reduce",
    "jit": "all_reduce, barrier, send and recv in @njit functions",
    "all_reduce": "long arrays, ordinary and shared",
    "moves": "all_to_all, broadcast, all_gather",
    "shared_moves": "everything that moves data, on shared and on private arrays",
    "shared_results": "results of which all ranks share one",
    "messages": "send, recv, sendrecv",
    "halves": "bfloat16 and float16",
    "ranks": "16, 32 and 64 of them",
    "threads": "several in each rank, for long arrays",
}


def main(argv: list[str]) -> int:
    """Measure, print, write. Returns 0, or 1 if a group failed or a result was wrong. Raises `SystemExit(2)` for
    mistakes."""
    given = _parse(argv)
    from shmbench.features import find
    from shmbench.report.json_report import origin, verdict, write_calls
    from shmbench.timing.ab_timing import Row, Settings

    settings = Settings(given.rounds, given.quick)
    print(_head(given.rounds), flush=True)
    measured: dict[str, list[Row]] = {}
    failed: dict[str, str] = {}
    for name in given.groups:
        print(f"measuring {name}: {GROUPS[name]}", file=sys.stderr, flush=True)
        try:
            measured[name] = [replace(row, asked=None) if given.quick else row for row in find(name)(settings)]
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {' '.join(str(error).split())}"
            continue
        print(*map(_line, measured[name]), sep="\n", flush=True)
    wrong = sum(row.wrong for rows in measured.values() for row in rows)
    print(f"# {origin()}", verdict(wrong), sep="\n")
    print(*(f"# failed: {name}: {reason}\n" for name, reason in failed.items()), sep="", end="", flush=True)
    if given.json:
        rows = [_documented(name, row) for name, group in measured.items() for row in group]
        options = {name: getattr(given, name) for name in ("rounds", "quick", "groups")}
        write_calls(given.json, options=options, beyond=rows, failed=failed)
    return 1 if failed or wrong else 0


def _head(rounds: int) -> str:
    return (
        f"# medians of {rounds} rounds, 2 ranks where no other number is given; every result checked.\n"
        f"# ratio: measured over what stands beside, in turn with it. asked: the ratio, or the figure, at most.\n"
        f"#\n"
        f"# {'what':<46}{'measured':>12}   {'beside':<38}{'ratio':>6}{'asked':>11}"
    )


def _line(row: Any) -> str:
    beside = f"{row.beside}: {_amount(row.limit)}" if row.beside else "-"
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
    asked = "-" if row.asked is None else f"{row.asked:.2f}" if row.beside else _amount(row.asked)
    verdict = f"  {row.wrong} wrong" if row.wrong else "  short" if row.falls_short else ""
    return f"  {row.what:<46}{_amount(row.figure):>12}   {beside:<38}{ratio:>6}{asked:>11}{verdict}"


def _amount(figure: float) -> str:
    """Return a time for people: 0.35 us, 5.80 ms, 1.20 s."""
    if figure < 1e-3:
        return f"{microseconds(figure * 1e6)} us"
    return f"{figure * 1e3:.2f} ms" if figure < 0.1 else f"{figure:.2f} s"


def _documented(name: str, row: Any) -> dict[str, Any]:
    """Return a row for the JSON. Times are in seconds. `rounds` and `beside_rounds` are the figures of
    the medians."""
    return {
        "group": name,
        "what": row.what,
        "figure": row.figure,
        "rounds": list(row.figures),
        "beside": row.beside or None,
        "beside_figure": row.limit,
        "beside_rounds": list(row.limits),
        "ratio": row.ratio,
        "asked": row.asked,
        "short": row.falls_short,
        "wrong": row.wrong,
    }


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = make_parser()
    given = parser.parse_args(argv)
    given.groups = list(dict.fromkeys(given.groups)) or list(GROUPS)
    given.rounds = given.rounds or (2 if given.quick else 5)
    if given.json and not given.json.absolute().parent.is_dir():
        parser.error(f"--json {given.json}: there is no folder {given.json.parent}")
    return given


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="shmbench beyond",
        description="Measure what shmcoll can do that its peers cannot, each beside the limit it is to be held "
        "against, in turn, and print one table. What misses what is asked of it is marked: short.",
        epilog="Groups: " + "; ".join(f"{name}: {what}" for name, what in GROUPS.items()) + ". "
        "Exit code: 0, also where something falls short; 1 when a group failed or a result was wrong, 2 for wrong "
        "options.",
    )
    add = parser.add_argument
    add("groups", nargs="*", type=one_of("group", tuple(GROUPS)), metavar="group",
        help=f"{', '.join(GROUPS)} (all)")  # fmt: skip
    add("--rounds", type=at_least(1), metavar="N", help="rounds, whose medians are printed (5; 2 with --quick)")
    add("--quick", action="store_true", help="small arrays and few ranks, to see that all works; asks for nothing")
    add("--json", type=Path, metavar="FILE", help="write all figures")
    return parser
