"""`shmbench --door NAME`: what a front end adds to the native calls; `shmbench compare --door NAME`: a front end beside
the library that its users come from.

All entries of a line are timed in turn by the same ranks, in one job. `--door` times an operation of 8 bytes and the
native call that does the same, by default on one rank, which waits for nobody. What the door adds is the median of the
differences in each round. An operation may need several calls of the door, such as a prepare and a trigger. Then it may
add as much for each of them. `compare --door` times calls of several sizes through each library, on the same memory.
`compare --door mpi` has a job for each library (`mpi_door`), because no process can hold two. `compare --door map`
calls a function of many items (`map_door`).
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from shmbench.cli.flags import Parser, at_least, door_complaint, one_of
from shmbench.cli.options import DOORS
from shmbench.cli.sizes import microseconds, short_size
from shmbench.timing.other_load import WholeRun, busy_during
from shmbench.timing.peers import OF_MPI, SCRIPTS

if TYPE_CHECKING:
    from shmbench.doors import Apart, Call, Rivals
    from shmbench.timing.ab_timing import Contest

WITH_RIVALS = ("map", "mpi", "torch")
COLUMNS = ("native", "gloo", "shmcoll", "operator")
ASKED = 1.5  # microseconds for each call of the door


@dataclass(frozen=True)
class Line:
    """An operation: microseconds of a call in each round, for each entry; wrong elements; its bytes; how many calls of
    the door it makes; and what it makes one of."""

    name: str
    microseconds: Mapping[str, Sequence[float]]
    wrong: int
    bytes: int = 8
    calls: int = 1
    unit: str = ""

    @property
    def added(self) -> float:
        pairs = zip(self.microseconds["native"], self.microseconds["door"], strict=True)
        return median(door - native for native, door in pairs)

    @property
    def asked(self) -> float:
        return ASKED * self.calls

    @property
    def falls_short(self) -> bool:
        return bool(self.wrong) or self.added > self.asked


def main(argv: list[str]) -> int:
    """Measure, print, write. Returns 0, or 1 if a result was wrong. Raises `SystemExit(2)` for mistakes.

    Args:
        argv: the words of the command line; the first is "compare" for the comparison with another library.
    """
    compares = argv[:1] == ["compare"]
    given = _parse(argv[1:] if compares else argv, compares)
    given.compares = compares
    from shmbench.report.json_report import origin, verdict, write_calls

    whole = WholeRun()
    lines, notes = _OTHERS.get(given.door, _together)(given)
    wrong, load = sum(line.wrong for line in lines), whole.end()
    date = datetime.now(UTC).isoformat(timespec="seconds")
    print(*notes, sep="\n", end="\n" if notes else "")
    print(f"# {origin()}; {date}")
    print(*filter(None, (busy_during(load), verdict(wrong))), sep="\n")
    if given.json:
        calls = [asdict(line) for line in lines]
        if not compares:
            verdicts = [{"added": line.added, "asked": line.asked, "short": line.falls_short} for line in lines]
            calls = [call | verdict for call, verdict in zip(calls, verdicts, strict=True)]
        options = {name: getattr(given, name) for name in ("door", "call", "ranks", "rounds")}
        write_calls(given.json, date=date, load=load, options=options, calls=calls)
    return 1 if wrong else 0


def _together(given: argparse.Namespace) -> tuple[list[Line], list[str]]:
    """Measure in one job, and print. Returns the lines."""
    import shmcoll
    from shmcoll.runner import api

    asked = given.door, given.rounds, given.call, given.compares, given.quick
    lines: list[Line] = shmcoll.run(_on_rank, given.ranks, *asked)[0]
    api.shutdown()  # now the ranks' time counts as ours
    print(_head(given, given.compares), *map(_compared if given.compares else _text, lines), sep="\n")
    return lines, []


def _apart(given: argparse.Namespace) -> tuple[list[Line], list[str]]:
    """Measure in a job of each library, and print. Returns the lines, and notes."""
    from shmbench.commands import mpi_door

    lines: list[Line] = []
    failed: dict[str, str] = {}
    versions: dict[str, str] = {}
    given.there = list(mpi_door.commands(given.libraries, given.ranks, []))
    print(mpi_door.head(given), flush=True)
    for line in mpi_door.lines(given, failed, versions):
        print(mpi_door.text(line, given), flush=True)
        lines.append(line)
    return lines, [*mpi_door.foot(given, failed, versions)]


def _mapped(given: argparse.Namespace) -> tuple[list[Line], list[str]]:
    """Measure in this process, and print. Returns the lines."""
    from shmbench.commands import map_door

    lines: list[Line] = []
    print(map_door.head(given), flush=True)
    for line in map_door.lines(given):
        print(map_door.text(line), flush=True)
        lines.append(line)
    return lines, []


_OTHERS = {"map": _mapped, "mpi": _apart}


def _on_rank(door: str, rounds: int, text: str, compares: bool, quick: bool) -> list[Line]:
    import shmcoll
    from shmbench.doors import find
    from shmbench.timing.ab_timing import Contest, Settings

    comm = shmcoll.init()
    contest = Contest(comm, Settings(rounds, quick))
    made = find(door, "rivals")(comm, quick) if compares else find(door)(comm)
    return [measure(contest, call) for call in made if text in call.name]


def measure(contest: "Contest", call: "Call | Rivals | Apart") -> Line:
    entries = call.timed()
    outcomes = dict(zip(entries, contest.run(list(entries.values())), strict=True))
    times = {name: [1e6 * seconds for seconds in outcome.seconds] for name, outcome in outcomes.items()}
    wrong = sum(outcome.wrong for outcome in outcomes.values())
    return Line(call.name, times, wrong, call.bytes, call.calls, getattr(call, "unit", ""))


def _head(given: argparse.Namespace, compares: bool) -> str:
    if compares:
        columns = "".join(f"{name:>12}" for name in COLUMNS)
        return (
            f"# {given.door}, {given.ranks} ranks: microseconds of a call, medians of {given.rounds} rounds, in turn;\n"
            f"# native: the call of shmcoll without {given.door}; every result checked\n"
            f"#\n"
            f"# {'call':<48}{'bytes':>8}{columns}{'gloo/shmcoll':>14}"
        )
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
    native, door = (median(line.microseconds[name]) for name in ("native", "door"))
    figures = "".join(f"{microseconds(us):>12}" for us in (native, door, line.added))
    return f"  {line.name:<46}{figures}{line.calls:>12}{verdict}"


def _compared(line: Line) -> str:
    times = {name: median(each) for name, each in line.microseconds.items()}
    columns = "".join(f"{microseconds(times[name]) if name in times else '-':>12}" for name in COLUMNS)
    verdict = f"  {line.wrong} wrong" if line.wrong else ""
    if line.unit:
        verdict += "\n" + f"    {line.unit} in a second".ljust(58)
        verdict += "".join(f"{1e6 / times[name]:>12.1f}" if name in times else f"{'-':>12}" for name in COLUMNS)
    return f"  {line.name:<48}{short_size(line.bytes):>8}{columns}{times['gloo'] / times['shmcoll']:>14.1f}{verdict}"


def _parse(argv: list[str], compares: bool) -> argparse.Namespace:
    parser = make_parser(compares)
    given = parser.parse_args(argv)
    if complaint := door_complaint(given.door):
        parser.error(complaint)
    if given.door == "mpi" and not SCRIPTS.is_dir():
        parser.error("--door mpi needs a checkout of shmcoll: git clone it")
    if "SHMCOLL_ARENA" in os.environ:
        parser.error("it starts its own ranks (-n N): leave shmrun out")
    if given.json and not given.json.absolute().parent.is_dir():
        parser.error(f"-J {given.json}: there is no folder {given.json.parent}")
    return given


def make_parser(compares: bool) -> argparse.ArgumentParser:
    doors: Sequence[str] = WITH_RIVALS if compares else DOORS
    if compares:
        ranks, rounds, prog = 2, 7, "shmbench compare --door"
        description = (
            "Measure the operations of a front end beside the library that its users come from, and beside native "
            "calls, in turn, in one job."
        )
    else:
        ranks, rounds, prog = 1, 9, "shmbench --door"
        description = (
            "Measure what a front end adds to calls of 8 bytes: each of its operations and the native call that does "
            "the same, in turn. What adds more than is asked of its calls is marked: short."
        )
    exits = "Exit code: 0, also where something falls short; 1 when a result was wrong, 2 for wrong options."
    parser = Parser(prog=prog, description=description, epilog=exits)
    add = parser.add_argument
    add("--door", type=one_of("door", doors), required=True, metavar="NAME", help=", ".join(doors))
    add("--call", default="", metavar="TEXT", help="only operations whose name contains TEXT, such as all_reduce")
    add("-n", "--ranks", type=at_least(ranks), default=ranks, metavar="N", help=f"ranks ({ranks})")
    add("--rounds", type=at_least(1), default=rounds, metavar="N", help=f"rounds, whose medians are printed ({rounds})")
    add("--quick", action="store_true", help="short loops and arrays")
    if compares:
        library = one_of("library", ("shmcoll", *OF_MPI))
        add("--libraries", nargs="+", type=library, default=OF_MPI, metavar="NAME",
            help=f"only these beside shmcoll: {', '.join(OF_MPI)} (mpi)")  # fmt: skip
        add("--least", action="store_true", help="print the least of short loops, for a machine that is busy (mpi)")
    add("-J", "--json", type=Path, metavar="FILE", help="write all figures")
    return parser
