"""The flags: those of nccl-tests where it has them, except that `-n` counts ranks (iterations are `--iters`).

Nothing here loads numpy, so that `--help` and a mistyped option answer at once.
"""

import argparse
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from shmbench.sizes import parse_size

COLLECTIVES = ("all_reduce", "all_to_all", "all_to_all_v", "barrier", "gather")
LIMITS = ("memcpy", "add")
OPS = ("sum", "prod", "min", "max", "avg")
FLOATS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", *FLOATS)
PICTURES = (".png", ".svg", ".pdf")
ALIASES = {"half": "float16", "float": "float32", "double": "float64"}


@dataclass(frozen=True)
class Options:
    """What to measure. Sizes in bytes; `iters` None means as many as fill a round."""

    collective: str
    ranks: int
    min_bytes: int
    max_bytes: int
    step_bytes: int | None
    factor: int
    iters: int | None
    warmup: int
    rounds: int
    dtype: str
    op: str
    root: int
    check: bool
    json: Path | None
    plot: Path | None = None


class Parser(argparse.ArgumentParser):
    """One line for a mistake, without the usage in front of it."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


def parse(argv: list[str], ranks: int = 2) -> Options:
    """Read the flags; `ranks` stands in for a missing -n.

    Raises `SystemExit(2)` after one line on stderr when something makes no sense.
    """
    parser = _parser(ranks)
    given = parser.parse_args(argv)
    options = Options(
        collective=given.collective,
        ranks=given.n,
        min_bytes=given.b,
        max_bytes=given.e,
        step_bytes=given.i,
        factor=given.f,
        iters=given.iters,
        warmup=given.w,
        rounds=given.rounds,
        dtype=ALIASES.get(given.d, given.d),
        op=given.o,
        root=given.r,
        check=bool(given.c),
        json=given.J,
        plot=given.plot,
    )
    if complaint := _complaint(options):
        parser.error(complaint)
    return options


def _complaint(o: Options) -> str | None:
    """What is wrong with options that are right one by one, or None."""
    if o.min_bytes > o.max_bytes:
        return f"-b {o.min_bytes} is larger than -e {o.max_bytes}"
    if o.root >= o.ranks:
        return f"-r {o.root} is no rank of {o.ranks}: roots are 0 to {o.ranks - 1}"
    if o.collective == "all_reduce" and o.op == "avg" and o.dtype not in FLOATS:
        return f"-o avg of {o.dtype} is not defined: averages need one of {', '.join(FLOATS)}"
    if o.json and not o.json.absolute().parent.is_dir():
        return f"-J {o.json}: there is no folder {o.json.parent}"
    if o.plot and o.collective == "barrier":
        return "--plot draws over the size, and a barrier has none"
    return picture_complaint("--plot", o.plot) if o.plot else None


def picture_complaint(flag: str, path: Path) -> str | None:
    """Why no picture could be written to `path`, or None; told before anything is measured."""
    if path.suffix not in PICTURES:
        return f"{flag} {path}: a picture's name ends in {', '.join(PICTURES)}"
    if not path.absolute().parent.is_dir():
        return f"{flag} {path}: there is no folder {path.parent}"
    if find_spec("matplotlib") is None:
        return f"{flag} needs matplotlib: pip install 'shmcoll[bench]', or keep the figures with -J and draw them later"
    return None


def _parser(ranks: int) -> argparse.ArgumentParser:
    parser = Parser(
        prog="shmbench",
        description="Measure a collective of shmcoll in the columns of nccl-tests; every result is checked exactly.",
        epilog="memcpy and add (c = a + b) are no collectives: every rank does them alone, all at once, which is the "
        "limit that the memory sets. Time is the average of a rank over the iterations, the maximum over the ranks, "
        "the median over the rounds. Exit code: 0, 1 when a result was wrong, 2 for wrong options. "
        "`shmbench plot a.json b.json -o out.png` draws several results of -J into one picture.",
    )
    add = parser.add_argument
    names = COLLECTIVES + LIMITS
    add("collective", type=_one_of("collective", names), help=", ".join(names))
    add("-n", "--ranks", dest="n", type=_at_least(1), default=ranks, metavar="N", help="ranks (2)")
    add("-b", "--minbytes", dest="b", type=_size, default="8", metavar="SIZE", help="smallest size (8)")
    add("-e", "--maxbytes", dest="e", type=_size, default="64M", metavar="SIZE", help="largest size (64M)")
    add("-i", "--stepbytes", dest="i", type=_size, metavar="SIZE", help="add this from size to size, instead of -f")
    add("-f", "--stepfactor", dest="f", type=_at_least(2), default=8, metavar="N", help="multiply sizes by this (8)")
    add("-d", "--datatype", dest="d", type=_one_of("dtype", DTYPES + tuple(ALIASES)), default="float32", metavar="TYPE",
        help=f"{', '.join(DTYPES)} (float32)")  # fmt: skip
    add("-o", "--op", dest="o", type=_one_of("op", OPS), default="sum", metavar="OP", help=f"{', '.join(OPS)} (sum)")
    add("-r", "--root", dest="r", type=_at_least(0), default=0, metavar="RANK", help="root, where there is one (0)")
    add("-w", "--warmup_iters", dest="w", type=_at_least(0), default=5, metavar="N", help="iterations not timed (5)")
    add("--iters", type=_at_least(1), metavar="N", help="timed iterations a round (as many as fill 0.1 s)")
    add("--rounds", type=_at_least(1), default=5, metavar="N", help="repetitions, whose median is printed (5)")
    add("-c", "--check", dest="c", type=int, choices=(0, 1), default=1, help="check results (1)")
    add("-J", "--output_file", dest="J", type=Path, metavar="FILE", help="write the results as JSON too")
    add("--plot", type=Path, metavar="FILE", help="draw time and bandwidth over the size: .png, .svg or .pdf")
    return parser


def _one_of(what: str, names: tuple[str, ...]):
    def check(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"unknown {what} {text!r}: choose one of {', '.join(names)}")
        return text

    return check


def _at_least(least: int):
    def check(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least {least}")
        return value

    return check


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(str(e)) from e
