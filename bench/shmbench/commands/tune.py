"""The command `shmbench tune`: measure the thresholds between algorithms on this machine, for later jobs.

Each number of ranks is measured in a job of its own. The result is kept (`shmcoll/engine/memory/thresholds.py`), unless
other processes worked meanwhile: then waits cost most, and the algorithms with the fewest waits seem best.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from math import exp
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from shmbench.cli.flags import Parser, at_least
from shmbench.timing.other_load import BUSY, Others
from shmcoll.engine.memory import thresholds
from shmcoll.engine.system.cores import usable_cores
from shmcoll.engine.system.interpreter import flags, interpreter_environment

if TYPE_CHECKING:
    from shmbench.commands.thresholds import Crossing, Ratios

ROUNDS = 9
USUAL = (2, 4, 8)
LOOK = 0.5  # seconds for which it watches the machine before it measures


def main(argv: list[str]) -> int:
    """Measure, show or forget. Returns 0, or 1 if something was not kept, or the exit code of a job that failed."""
    given = make_parser().parse_args(argv)
    try:
        if given.forget:
            print(f"{'removed' if thresholds.forget() else 'there was no'} {thresholds.tuning_file()}")
        elif given.show:
            _show()
        elif "SHMCOLL_ARENA" in os.environ:
            _measure(given.rounds, given.into)
        else:
            return _start_jobs(given)
    except OSError as e:
        print(f"shmbench tune: {e}", file=sys.stderr)
        return 1
    return 0


def _start_jobs(given: argparse.Namespace) -> int:
    thresholds.tuning_file()  # whether anything can be kept, before it is measured
    if not given.anyway and (share := _look()) > BUSY:
        text = f"others use {share:.0%} of the cores; try again later, or with --anyway"
        print(f"shmbench tune: nothing was measured, as {text}", file=sys.stderr)
        return 1
    disturbed = 0
    for ranks in sorted(set(given.ranks)):
        others = Others()
        found, code = _run_job(ranks, given.rounds)
        if code:
            return code
        share = others.share()
        if share > BUSY and not given.anyway:
            text = (
                f"{ranks} ranks: not kept, as others used {share:.0%} of the cores; try again later, or with --anyway"
            )
            print(f"shmbench tune: {text}", file=sys.stderr, flush=True)
            disturbed = 1
        else:
            thresholds.keep(ranks, found)
    _show()
    return disturbed


def _look() -> float:
    """Return the share of the cores that others use now."""
    others = Others()
    time.sleep(LOOK)
    return others.share()


def _run_job(ranks: int, rounds: int) -> tuple[dict[str, int], int]:
    """Return the result of a job of this number of ranks, and its exit code."""
    with tempfile.TemporaryDirectory() as scratch:
        into = Path(scratch) / "found.json"
        job = [sys.executable, *flags(), "-m", "shmrun", "--bind-to", "none", "-n", str(ranks)]
        command = [*job, "-m", "shmbench", "tune", "--rounds", str(rounds), "--into", str(into)]
        code = subprocess.run(command, env=interpreter_environment(os.environ, sys.path), check=False).returncode
        return json.loads(into.read_text()) if code == 0 else {}, code


def _measure(rounds: int, into: Path) -> None:
    """Measure on every rank."""
    from shmbench.commands.thresholds import measure
    from shmbench.timing.library import Shmcoll

    library = Shmcoll()

    def progress(text: str) -> None:
        if library.rank == 0:
            print(f"{library.size} ranks: {text}", file=sys.stderr, flush=True)

    usual, found = thresholds.defaults(library.size, usable_cores()), {}
    for crossing, value, ratios in measure(library, rounds, progress):
        if library.rank == 0:
            print(*_lines(library.size, crossing, value, ratios), sep="\n", flush=True)
        if value != getattr(usual, crossing.name):
            found[crossing.name] = value
    if library.rank == 0:
        into.write_text(json.dumps(found))


def _lines(ranks: int, crossing: "Crossing", value: int, ratios: "Ratios") -> Iterator[str]:
    yield f"{ranks} ranks: {crossing.name} {value:,}; time by the short way / the long way, where they cross at"
    yield f"{'':18}" + "".join(f"{edge:>11,}" for edge in ratios)
    for k, (name, _) in enumerate(next(iter(crossing.calls.values()))):
        yield f"{name:>18}" + "".join(f"{exp(median(told[k] for told in rounds)):>11.2f}" for rounds in ratios.values())


def _show() -> None:
    known = thresholds.known()
    for ranks, found in sorted(known.items()):
        usual = thresholds.defaults(ranks, usable_cores())
        moved = [f"{name} {value:,} (by default {getattr(usual, name):,})" for name, value in sorted(found.items())]
        print(f"{ranks} ranks: {', '.join(moved) or 'the defaults'}")
    print(f"{'kept in' if known else 'nothing has been measured: there is no'} {thresholds.tuning_file()}")


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="shmbench tune",
        description="Measure from which length on one algorithm overtakes another on this machine, in about a minute, "
        "and keep it beside the compiled code. Jobs of as many ranks go by it from then on; results stay the same, bit "
        "for bit. A threshold is moved only where that gains clearly more than the noise, and nothing is kept that was "
        "measured while others were at work on the machine. If they are at work already, nothing is measured.",
        epilog=f"The variables {', '.join(f'SHMCOLL_{name.upper()}' for name in thresholds.TUNED)} go before what was "
        "measured; with SHMCOLL_TUNING=0 a job ignores it. Exit code: 0, 1 when something was not kept, 2 for "
        "wrong options, or that of a job that failed.",
    )
    add = parser.add_argument
    usual = sorted({*USUAL, usable_cores()} - {1})
    add("-n", "--ranks", type=at_least(2), nargs="+", default=usual, metavar="N",
        help=f"numbers of ranks to measure; others stay as they were ({' '.join(map(str, usual))})")  # fmt: skip
    add("--rounds", type=at_least(1), default=ROUNDS, metavar="N", help=f"rounds of each call ({ROUNDS})")
    add("--anyway", action="store_true", help="measure and keep although others are at work")
    add("--into", type=Path, help=argparse.SUPPRESS)  # for the ranks of a job
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--show", action="store_true", help="print what has been measured, and where it is kept")
    only.add_argument("--forget", action="store_true", help="remove it: the defaults hold again")
    return parser
