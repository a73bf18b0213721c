"""Options of commands that run jobs of several numbers of ranks, here and on the peers."""

from pathlib import Path

from shmbench.cli.flags import Parser, at_least, one_of
from shmbench.timing.peers import FOLDER, OF_MPI


def add_jobs(parser: Parser, *, ranks: str, rounds: int, timed: str) -> None:
    """Add the options. ranks, rounds: their defaults. timed: what --timeout limits, in words."""
    add = parser.add_argument
    add("-n", "--ranks", type=_numbers, default=ranks, metavar="N,...", help=f"ranks of the jobs ({ranks})")
    add("--rounds", type=at_least(1), default=rounds, metavar="N",
        help=f"rounds, whose medians are compared ({rounds})")  # fmt: skip
    add("--libraries", nargs="*", type=one_of("library", OF_MPI), metavar="NAME",
        help=f"only these peers: {', '.join(OF_MPI)} (all that are installed)")  # fmt: skip
    add("--timeout", type=at_least(1), default=120, metavar="S", help=f"seconds that {timed} may take (120)")
    add("--peers", type=Path, default=FOLDER, metavar="FOLDER", help="where the peers are installed (.peers)")
    add("--json", type=Path, metavar="FILE", help="write all figures")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(at_least(1), text.split(",")))
