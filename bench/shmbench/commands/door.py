"""`shmbench --door NAME`: what a front end adds to native calls of 8 bytes.

Each operation and the native call that does the same are timed in turn by the same ranks, by default by one rank, which
waits for nobody. What the door adds is the median of the differences in each round. An operation may need several calls
of the door, such as a prepare and a trigger. Then it may add as much for each of them.
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from shmbench.cli.flags import Parser, at_least, door_complaint, one_of
from shmbench.cli.options import DOORS
from shmbench.cli.sizes import microseconds

if TYPE_CHECKING:
    from shmbench.doors import Call
    from shmbench.timing.ab_timing import Contest

ROUNDS = 9
ASKED = 1.5  # microseconds for each call of the door


@dataclass(frozen=True)
class Line:
    """An operation: microseconds in each round, native and through the door, differing elements, and how many calls of
    the door it makes."""

    name: str
    native: Sequence[float]
    door: Sequence[float]
    wrong: int
    calls: int = 1

    @property
    def added(self) -> float:
        return median(door - native for native, door in zip(self.native, self.door, strict=True))

    @property
    def asked(self) -> float:
        return ASKED * self.calls

    @property
    def falls_short(self) -> bool:
        return bool(self.wrong) or self.added > self.asked


def main(argv: list[str]) -> int:
    """Measure, print, write. Returns 0, or 1 if a result differed from that of the native call. Raises `SystemExit(2)`
    for mistakes."""
    given = _parse(argv)
    import shmcoll
    from shmbench.report.json_report import origin, verdict, write_calls

    lines: list[Line] = shmcoll.run(_on_rank, given.ranks, given.door, given.rounds, given.call)[0]
    print(_head(given), *map(_text, lines), sep="\n")
    wrong = sum(line.wrong for line in lines)
    print(f"# {origin()}\n{verdict(wrong)}")
    if given.json:
        calls = [asdict(line) | {"added": line.added, "asked": line.asked, "short": line.falls_short} for line in lines]
        options = {name: getattr(given, name) for name in ("door", "call", "ranks", "rounds")}
        write_calls(given.json, options=options, calls=calls)
    return 1 if wrong else 0


def _on_rank(door: str, rounds: int, text: str) -> list[Line]:
    import shmcoll
    from shmbench.doors import find
    from shmbench.timing.ab_timing import Contest, Settings

    comm = shmcoll.init()
    contest = Contest(comm, Settings(rounds, quick=False))
    return [_measure(contest, call) for call in find(door)(comm) if text in call.name]


def _measure(contest: "Contest", call: "Call") -> Line:
    from shmbench.timing.ab_timing import Repeated

    native, door = contest.run([Repeated(made, call.differences) for made in (call.native, call.door)])
    natively, through = ([1e6 * seconds for seconds in outcome.seconds] for outcome in (native, door))
    return Line(call.name, natively, through, native.wrong + door.wrong, call.calls)


def _head(given: argparse.Namespace) -> str:
    return (
        f"# {given.door}, {given.ranks} rank{'s' if given.ranks > 1 else ''}: microseconds of an operation of 8 bytes, "
        f"medians of {given.rounds} rounds, in turn\n"
        f"# with the native call that does the same; every result compared. asked: at most {ASKED:.2f} added by each\n"
        f"# call of the door; calls: how many an operation makes.\n"
        f"#\n"
        f"# {'operation':<46}{'native':>12}{'door':>12}{'added':>12}{'calls':>12}"
    )


def _text(line: Line) -> str:
    verdict = f"  {line.wrong} wrong" if line.wrong else "  short" if line.falls_short else ""
    figures = "".join(f"{microseconds(us):>12}" for us in (median(line.native), median(line.door), line.added))
    return f"  {line.name:<46}{figures}{line.calls:>12}{verdict}"


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = make_parser()
    given = parser.parse_args(argv)
    if complaint := door_complaint(given.door):
        parser.error(complaint)
    if "SHMCOLL_ARENA" in os.environ:
        parser.error("it starts its own ranks (-n N): leave shmrun out")
    if given.json and not given.json.absolute().parent.is_dir():
        parser.error(f"-J {given.json}: there is no folder {given.json.parent}")
    return given


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="shmbench --door",
        description="Measure what a front end adds to calls of 8 bytes: each of its operations and the native call "
        "that does the same, in turn. What adds more than is asked of its calls is marked: short.",
        epilog="Exit code: 0, also where something falls short; 1 when a result differed, 2 for wrong options.",
    )
    add = parser.add_argument
    add("--door", type=one_of("door", DOORS), required=True, metavar="NAME", help=", ".join(DOORS))
    add("--call", default="", metavar="TEXT", help="only operations whose name contains TEXT, such as all_reduce")
    add("-n", "--ranks", type=at_least(1), default=1, metavar="N", help="ranks (1)")
    add("--rounds", type=at_least(1), default=ROUNDS, metavar="N", help=f"rounds, whose medians are printed ({ROUNDS})")
    add("-J", "--json", type=Path, metavar="FILE", help="write all figures")
    return parser
