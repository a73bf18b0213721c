"""The flags: those of nccl-tests if it has them, except that `-n` is the number of ranks (iterations are `--iters`).

Nothing here loads numpy, so that `--help` and a mistyped option answer at once.
"""

import argparse
from dataclasses import dataclass, field, fields
from pathlib import Path

from shmrun.cli.completion import SHELLS

import shmcoll
from shmbench.cli import conditions
from shmbench.cli.completion import Completion
from shmbench.cli.conditions import Conditions
from shmbench.cli.flags import Parser, at_least, one_of, size, size_list

COLLECTIVES = (
    "barrier",
    "broadcast",
    "all_reduce",
    "reduce",
    "reduce_scatter",
    "scan",
    "exscan",
    "all_gather",
    "gather",
    "scatter",
    "all_to_all",
    "all_gather_v",
    "gather_v",
    "scatter_v",
    "reduce_scatter_v",
    "all_to_all_v",
    "collective_permute",
)
LIMIT = "limit"  # beside the libraries in results
READS = "reads"  # the ways of the limit in which the kernel reads the memory of peers begin so
LEAST_LIMITED = 64 << 10  # bytes: below, a call takes longer than its copies
LIMITED = tuple(name for name in COLLECTIVES if name != "barrier")
GROUPS = ("dup", "split", "dups_open")  # made and closed; the last: all are open before one is closed
DOORS = ("mindspore", "nki", "torch")
SUBCOMMANDS = ("beyond", "compare", "diff", "growth", "plot", "start", "timeline", "tune")
REDUCING = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_v", "scan", "exscan")
ALGORITHMS = {
    **dict.fromkeys(("all_reduce", "reduce", "reduce_scatter"), ("flat", "ring", "cells")),
    **dict.fromkeys(("scan", "exscan"), ("flat", "chain")),
}
OPS = ("sum", "prod", "min", "max", "avg")
FLOATS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", *FLOATS)
ALIASES = {"half": "float16", "float": "float32", "double": "float64"}


@dataclass(frozen=True)
class Options:
    """What to measure. Sizes are in bytes. iters: None means as many as fill a round. neighbour_pid: the process that
    disturbs, once it has been started. limit: only what the collective cannot avoid to copy."""

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
    sizes: tuple[int, ...] = ()  # these and no others, when given
    algorithm: str | None = None
    conditions: Conditions = field(default_factory=Conditions)
    neighbour_pid: int | None = None
    limit: bool = False


def parse(argv: list[str], ranks: int = 2) -> Options:
    """Read the flags. ranks: replaces a missing -n.

    For a mistake, prints one line on stderr and raises `SystemExit(2)`.
    """
    parser = _parser(ranks)
    given = parser.parse_args(argv)
    given.dtype, given.check = ALIASES.get(given.dtype, given.dtype), bool(given.check)
    given.conditions = conditions.conditions_from(given)
    options = Options(**{field.name: getattr(given, field.name) for field in fields(Options)})
    if complaint := _complaint(options):
        parser.error(complaint)
    return options


def _complaint(o: Options) -> str | None:
    """Return what is wrong with a combination of options that are right one by one, or None."""
    if o.min_bytes > o.max_bytes:
        return f"-b {o.min_bytes} is larger than -e {o.max_bytes}"
    if o.root >= o.ranks:
        return f"-r {o.root} is not a rank of {o.ranks}: roots are 0 to {o.ranks - 1}"
    if o.collective in REDUCING and o.op == "avg" and o.dtype not in FLOATS:
        return f"-o avg of {o.dtype} is not defined: averages need one of {', '.join(FLOATS)}"
    if o.collective in ("scan", "exscan") and o.op == "avg":
        return f"-o avg: {o.collective} has no running average"
    if o.algorithm and o.algorithm not in ALGORITHMS.get(o.collective, ()):
        known = ", ".join(ALGORITHMS.get(o.collective, ())) or "there is only one"
        return f"--algorithm {o.algorithm} is not one of {o.collective}: {known}"
    if o.limit and o.collective not in LIMITED:
        return f"--limit: {o.collective} moves nothing"
    if o.json and not o.json.absolute().parent.is_dir():
        return f"-J {o.json}: there is no folder {o.json.parent}"
    largest = max(o.sizes, default=o.max_bytes)
    return None if o.neighbour_pid else conditions.complaint(o.conditions, o.ranks, largest)


def _parser(ranks: int) -> argparse.ArgumentParser:
    parser = Parser(
        prog="shmbench",
        description="Measure a collective of shmcoll in the columns of nccl-tests; every result is checked exactly.",
        epilog="Time is the average of a rank over the iterations, the maximum over the ranks, "
        "the median over the rounds. Exit code: 0, 1 when a result was wrong, 2 for wrong options. "
        "Subcommands, each with a --help of its own: `compare` measures beside mpi4py and gloo, `diff` compares two "
        "results of -J and fails if the later one is slower, `tune` finds the thresholds of this machine, `plot` "
        "draws results of -J, `timeline` draws a timeline of `shmrun --trace`, `beyond` measures plans, "
        "jitted code, shared arrays, messages and many ranks, `start` times jobs that do nothing, "
        "`growth` compares for several numbers of ranks.",
    )
    add = parser.add_argument
    names = COLLECTIVES + GROUPS
    add("collective", type=one_of("collective", names, SUBCOMMANDS), help=", ".join(names))
    add("-V", "--version", action="version", version=f"shmbench {shmcoll.__version__}")
    add("--completion", action=Completion, choices=SHELLS, help="print the completion for a shell, and exit")
    add("-n", "--ranks", type=at_least(1), default=ranks, metavar="N", help="ranks (2)")
    add("-b", "--minbytes", dest="min_bytes", type=size, default="8", metavar="SIZE", help="smallest size (8)")
    add("-e", "--maxbytes", dest="max_bytes", type=size, default="64M", metavar="SIZE", help="largest size (64M)")
    add(
        "-i",
        "--stepbytes",
        dest="step_bytes",
        type=size,
        metavar="SIZE",
        help="add this from size to size, instead of -f",
    )
    add(
        "-f", "--stepfactor", dest="factor", type=at_least(2), default=8, metavar="N", help="multiply sizes by this (8)"
    )
    add("--sizes", type=size_list, default=(), metavar="SIZE,...", help="these sizes, instead of -b, -e and -f")
    add("-d", "--datatype", dest="dtype", type=one_of("dtype", DTYPES + tuple(ALIASES)), default="float32",
        metavar="TYPE", help=f"{', '.join(DTYPES)} (float32)")  # fmt: skip
    add("-o", "--op", type=one_of("op", OPS), default="sum", metavar="OP", help=f"{', '.join(OPS)} (sum)")
    add("-r", "--root", type=at_least(0), default=0, metavar="RANK", help="root, where there is one (0)")
    add("--algorithm", metavar="NAME", help="force one, where there are several; takes the slower way into the call")
    add(
        "-w", "--warmup_iters", dest="warmup", type=at_least(0), default=5, metavar="N", help="iterations not timed (5)"
    )
    add("--iters", type=at_least(1), metavar="N", help="timed iterations a round (as many as fill 0.1 s)")
    add("--rounds", type=at_least(1), default=5, metavar="N", help="repetitions, whose median is printed (5)")
    conditions.add_flags(parser)
    add("--limit", action="store_true",
        help="instead of the collective, measure what it cannot avoid: each rank copies and reduces its bytes, once, "
        "and nobody waits; the least of several ways")  # fmt: skip
    add("--door", choices=DOORS, metavar="NAME",
        help=f"instead of a collective, measure what a front end adds to calls ({', '.join(DOORS)})")  # fmt: skip
    add("-c", "--check", dest="check", type=int, choices=(0, 1), default=1, help="check results (1)")
    add("-J", "--output_file", dest="json", type=Path, metavar="FILE", help="write the results as JSON too")
    add("--neighbour", dest="neighbour_pid", type=at_least(1), help=argparse.SUPPRESS)  # for the ranks of a job
    return parser
