"""The command `shmbench tune`: measure the thresholds between algorithms on this machine, for the jobs to come.

Each number of ranks is measured in a job of its own, whose rank 0 keeps what it found (`shmcoll/engine/thresholds.py`).
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from math import exp
from statistics import median
from typing import TYPE_CHECKING

from shmbench.flags import Parser, at_least
from shmcoll.engine import thresholds
from shmcoll.engine.cores import usable_cores

if TYPE_CHECKING:
    from shmbench.crossings import Crossing, Ratios

ROUNDS = 12
USUAL = (2, 4, 8)
BUSY = 0.5  # of a core


def main(argv: list[str]) -> int:
    """Measure, show or forget. Returns 0, or the exit code of the first job that failed; 1 when nothing can be kept."""
    given = _parse(argv)
    try:
        if given.forget:
            print(f"{'removed' if thresholds.forget() else 'there was no'} {thresholds.tuning_file()}")
        elif given.show:
            _show()
        elif "SHMCOLL_ARENA" in os.environ:
            _measure(given.rounds)
        else:
            return _start_jobs(given)
    except OSError as e:
        print(f"shmbench tune: {e}", file=sys.stderr)
        return 1
    return 0


def _start_jobs(given: argparse.Namespace) -> int:
    thresholds.tuning_file()  # whether it can be kept, before anything is measured
    if (load := os.getloadavg()[0]) > BUSY * usable_cores():
        text = (
            f"others are at work on this machine (load {load:.1f}); what is measured now may not hold when it is idle"
        )
        print(f"shmbench tune: {text}", file=sys.stderr, flush=True)
    for ranks in sorted(set(given.ranks)):
        job = [sys.executable, "-m", "shmrun", "--bind-to", "none", "-n", str(ranks)]
        code = subprocess.run([*job, "-m", "shmbench", "tune", "--rounds", str(given.rounds)], check=False).returncode
        if code:
            return code
    _show()
    return 0


def _measure(rounds: int) -> None:
    """What every rank does."""
    from shmbench.crossings import measure
    from shmbench.library import Shmcoll

    library = Shmcoll()
    usual, found = thresholds.defaults(library.size, usable_cores()), {}
    for crossing, value, ratios in measure(library, rounds):
        if library.rank == 0:
            print(*_lines(library.size, crossing, value, ratios), sep="\n", flush=True)
        if value != getattr(usual, crossing.name):
            found[crossing.name] = value
    if library.rank == 0:
        thresholds.keep(library.size, found)


def _lines(ranks: int, crossing: "Crossing", value: int, ratios: "Ratios") -> Iterator[str]:
    yield f"{ranks} ranks: {crossing.name} {value:,}; time by the short way / the long way, where they cross at"
    yield f"{'':12}" + "".join(f"{edge:>11,}" for edge in ratios)
    for k, (name, _) in enumerate(next(iter(crossing.calls.values()))):
        yield f"{name:>12}" + "".join(f"{exp(median(told[k] for told in rounds)):>11.2f}" for rounds in ratios.values())


def _show() -> None:
    known = thresholds.known()
    for ranks, found in sorted(known.items()):
        usual = thresholds.defaults(ranks, usable_cores())
        moved = [f"{name} {value:,} (by default {getattr(usual, name):,})" for name, value in sorted(found.items())]
        print(f"{ranks} ranks: {', '.join(moved) or 'the defaults'}")
    print(f"{'kept in' if known else 'nothing has been measured: there is no'} {thresholds.tuning_file()}")


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="shmbench tune",
        description="Measure from which length on one algorithm overtakes another on this machine, in under a minute, "
        "and keep it beside the compiled code. Jobs of as many ranks go by it from then on; results stay the same, bit "
        "for bit. A threshold is moved only where that gains clearly more than the noise. Let the machine be idle.",
        epilog="The variables SHMCOLL_FLAT_BYTES, SHMCOLL_RING_BYTES and SHMCOLL_STREAM_BYTES go before what was "
        "measured; with SHMCOLL_TUNING=0 a job ignores it. Exit code: 0, 1 when nothing can be kept, 2 for wrong "
        "options, or that of a job that failed.",
    )
    add = parser.add_argument
    usual = sorted({*USUAL, usable_cores()} - {1})
    add("-n", "--ranks", type=at_least(2), nargs="+", default=usual, metavar="N",
        help=f"numbers of ranks to measure; others stay as they were ({' '.join(map(str, usual))})")  # fmt: skip
    add("--rounds", type=at_least(1), default=ROUNDS, metavar="N", help=f"rounds of each call ({ROUNDS})")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--show", action="store_true", help="print what has been measured, and where it is kept")
    only.add_argument("--forget", action="store_true", help="remove it: the defaults hold again")
    return parser.parse_args(argv)
