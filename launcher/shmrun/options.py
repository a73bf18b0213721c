"""The command line of shmrun. Imports argparse alone, so that `--help` is instant."""

import argparse
import math
import os
import sys
from dataclasses import dataclass
from typing import Any, NoReturn

_WAIT_TIMEOUT = 300.0

_EPILOG = """\
examples:
  shmrun -n 4 train.py --epochs 3     a Python script on 4 ranks
  shmrun -n auto -m package.module    a module, one rank per usable core
  shmrun -n 2 -l ./program args       any executable, its output lines marked with the rank

Each rank finds RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, RANK_ID, RANK_SIZE, DEVICE_ID, MASTER_ADDR and
MASTER_PORT in its environment. The exit code is that of the rank that failed first (128 + signal when it was killed),
124 when --timeout is over, 130 after Ctrl-C. Press Ctrl-C twice to kill all ranks at once.
"""


@dataclass(frozen=True)
class Options:
    """What the command line says. Times in seconds."""

    ranks: int
    command: tuple[str, ...]  # the program, or the name of a module, and its arguments
    module: bool
    tag_output: bool
    timeout: float | None
    wait_timeout: float
    fresh: bool
    grace: float


def parse(arguments: list[str]) -> Options:
    """Read the command line. Prints one line and exits with 2 when it is wrong."""
    parser = _parser()
    given = parser.parse_args(arguments)
    command = given.module if given.module is not None else given.program
    if command[:1] == ["--"]:
        command = command[1:]
    if given.ranks is None:
        parser.error("how many ranks? Give -n, as in: shmrun -n 4 script.py")
    if not command:
        parser.error("what shall the ranks run? Give a program last, as in: shmrun -n 4 script.py")
    return Options(
        ranks=given.ranks,
        command=tuple(command),
        module=given.module is not None,
        tag_output=given.tag_output,
        timeout=given.timeout,
        wait_timeout=given.wait_timeout if given.wait_timeout is not None else _default_wait_timeout(parser),
        fresh=given.fresh,
        grace=given.grace,
    )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"shmrun: {message} (shmrun --help tells more)\n")


class _Version(argparse.Action):
    def __init__(self, option_strings: list[str], dest: str, **kwargs: Any):
        super().__init__(option_strings, dest, nargs=0, help=kwargs.get("help"))

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from shmcoll import __version__

        print(f"shmrun {__version__}")
        sys.exit(0)


def _parser() -> _Parser:
    parser = _Parser(
        prog="shmrun",
        usage="shmrun -n RANKS [options] script.py [arguments]",
        description="Run a program as several ranks on this machine, joined by shared memory.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("-n", "-np", dest="ranks", type=_ranks, metavar="RANKS", help="number of ranks; auto: one per usable core")
    add("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="run a Python module, with its arguments")
    add("-l", "--tag-output", action="store_true", help="write '[rank] ' before each line that a rank prints")
    add("--timeout", type=_positive, metavar="S", help="end the job after S seconds, exit code 124")
    add(
        "--wait-timeout",
        type=_positive,
        metavar="S",
        help=f"limit of one wait within a collective (SHMCOLL_TIMEOUT, {_WAIT_TIMEOUT:g} s)",
    )
    add("--grace", type=_seconds, default=1.0, metavar="S", help="after the first failure, time for the others (1 s)")
    add("--fresh", action="store_true", help="start a new interpreter for each rank instead of forking this one")
    add("--version", action=_Version, help="print the version and exit")
    # mpirun needs these, shmrun does not: scripts that pass them still work.
    add("--allow-run-as-root", "--oversubscribe", action="store_true", dest="ignored", help=argparse.SUPPRESS)
    add("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _ranks(text: str) -> int:
    if text == "auto":
        from shmcoll.engine.cores import usable_cores

        return usable_cores()
    try:
        ranks = int(text)
    except ValueError:
        ranks = 0
    if not 0 < ranks < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of ranks; give one from 1 to 65535, or auto")
    return ranks


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return seconds


def _positive(text: str) -> float:
    seconds = _seconds(text)
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} leaves no time at all; give a positive number of seconds")
    return seconds


def _default_wait_timeout(parser: _Parser) -> float:
    text = os.environ.get("SHMCOLL_TIMEOUT") or str(_WAIT_TIMEOUT)
    try:
        return _positive(text)
    except argparse.ArgumentTypeError as e:
        parser.error(f"environment variable SHMCOLL_TIMEOUT: {e}")
