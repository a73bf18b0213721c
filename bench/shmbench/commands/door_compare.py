"""`shmbench compare --door NAME`: a front end beside the library that its users come from, and beside native calls.

All entries of a line are timed in turn by the same ranks, in one job, on the same memory.
"""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from shmbench.cli.flags import Parser, at_least, door_complaint, one_of
from shmbench.cli.sizes import microseconds, short_size

if TYPE_CHECKING:
    from shmbench.doors import Rivals
    from shmbench.timing.ab_timing import Contest

DOORS = ("torch",)
ROUNDS = 7


@dataclass(frozen=True)
class Line:
    """An operation: microseconds of a call in each round, for each entry, and wrong elements."""

    name: str
    bytes: int
    microseconds: Mapping[str, Sequence[float]]
    wrong: int


def main(argv: list[str]) -> int:
    """Measure, print, write. Returns 0, or 1 if a result was wrong. Raises `SystemExit(2)` for mistakes."""
    parser = make_parser()
    given = parser.parse_args(argv)
    if complaint := door_complaint(given.door):
        parser.error(complaint)
    if "SHMCOLL_ARENA" in os.environ:
        parser.error("it starts its own ranks (-n N): leave shmrun out")
    import shmcoll
    from shmbench.report.json_report import origin, verdict, write_calls

    before = os.getloadavg()[0]
    lines: list[Line] = shmcoll.run(_on_rank, given.ranks, given.door, given.rounds, given.quick)[0]
    wrong, load = sum(line.wrong for line in lines), {"average_before": before, "average_after": os.getloadavg()[0]}
    date = datetime.now(UTC).isoformat(timespec="seconds")
    print(_head(given), *map(_text, lines), sep="\n")
    print(f"# {origin()}; {date}")
    print(f"# load average {before:.1f} before, {load['average_after']:.1f} after\n{verdict(wrong)}")
    if given.json:
        options = {name: getattr(given, name) for name in ("door", "ranks", "rounds")}
        write_calls(given.json, date=date, load=load, options=options, calls=[asdict(line) for line in lines])
    return 1 if wrong else 0


def _on_rank(door: str, rounds: int, quick: bool) -> list[Line]:
    import shmcoll
    from shmbench.doors import find_rivals
    from shmbench.timing.ab_timing import Contest, Settings

    comm = shmcoll.init()
    contest = Contest(comm, Settings(rounds, quick))
    return [_measure(contest, rivals) for rivals in find_rivals(door)(comm, quick)]


def _measure(contest: "Contest", rivals: "Rivals") -> Line:
    from shmbench.timing.ab_timing import Repeated

    entries = [Repeated(call, partial(_check, rivals, call)) for call in rivals.entries.values()]
    outcomes = dict(zip(rivals.entries, contest.run(entries), strict=True))
    times = {name: [1e6 * seconds for seconds in outcome.seconds] for name, outcome in outcomes.items()}
    return Line(rivals.name, rivals.bytes, times, sum(outcome.wrong for outcome in outcomes.values()))


def _check(rivals: "Rivals", call: Callable[[], Any]) -> int:
    rivals.given()
    call()
    return rivals.wrong()


def _head(given: argparse.Namespace) -> str:
    columns = "".join(f"{name:>12}" for name in ("native", "gloo", "shmcoll"))
    return (
        f"# {given.door}, {given.ranks} ranks: microseconds of a call, medians of {given.rounds} rounds, in turn;\n"
        f"# native: the call of shmcoll without {given.door}; every result checked\n"
        f"#\n"
        f"# {'call':<48}{'bytes':>8}{columns}{'gloo/shmcoll':>14}"
    )


def _text(line: Line) -> str:
    times = {name: median(each) for name, each in line.microseconds.items()}
    columns = "".join(
        f"{microseconds(times[name]) if name in times else '-':>12}" for name in ("native", "gloo", "shmcoll")
    )
    verdict = f"  {line.wrong} wrong" if line.wrong else ""
    return f"  {line.name:<48}{short_size(line.bytes):>8}{columns}{times['gloo'] / times['shmcoll']:>14.1f}{verdict}"


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="shmbench compare --door",
        description="Measure the operations of a front end beside the library that its users come from, and beside "
        "native calls, in turn, in one job.",
        epilog="Exit code: 0; 1 when a result was wrong, 2 for wrong options.",
    )
    add = parser.add_argument
    add("--door", type=one_of("door", DOORS), required=True, metavar="NAME", help=", ".join(DOORS))
    add("-n", "--ranks", type=at_least(2), default=2, metavar="N", help="ranks (2)")
    add("--rounds", type=at_least(1), default=ROUNDS, metavar="N", help=f"rounds, whose medians are printed ({ROUNDS})")
    add("--quick", action="store_true", help="short loops and arrays")
    add("-J", "--json", type=Path, metavar="FILE", help="write all figures")
    return parser
