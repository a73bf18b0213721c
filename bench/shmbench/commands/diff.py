"""The command `shmbench diff`: what is slower or faster in the second of two files of results. It has an exit code for
CI."""

import argparse
import re
from pathlib import Path

from shmbench.cli.flags import Parser


def main(argv: list[str]) -> int:
    """Print the differences. Returns 0, or 1 if something is slower by more than --fail-above. For a mistake, prints
    one line on stderr and raises `SystemExit(2)`."""
    parser = make_parser()
    given = parser.parse_args(argv)

    from shmbench.report import curves, differences

    try:
        found = differences.compare(curves.read(given.before), curves.read(given.after), given.fail_above)
    except (OSError, ValueError) as e:
        parser.error(str(e))
    if not found.rows:
        parser.error(
            f"{given.before} and {given.after} have no case in common: {found.unlike or 'nothing can be compared'}"
        )
    show = differences.markdown if given.markdown else differences.text
    print(show(found, str(given.before), str(given.after)))
    return 1 if found.failures else 0


def percentage(text: str) -> float:
    """Return 0.1 for '10%' or '10'."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)%?", text.strip())
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage: write one such as 10%")
    return float(match[1]) / 100


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="shmbench diff",
        description="Compare the times in two files of `shmbench -J` or `shmbench compare --json`, case by case: the "
        "same collective, size, dtype, operator, ranks, placement and library. A difference counts only if it is "
        "larger than the noise: the middle halves of the rounds in the two files do not overlap.",
        epilog="Exit code: 0, 1 when something is slower by more than --fail-above, 2 for wrong options or files.",
    )
    add = parser.add_argument
    add("before", type=Path, metavar="BEFORE", help="the JSON of the earlier run")
    add("after", type=Path, metavar="AFTER", help="the JSON of the later run")
    add("--fail-above", type=percentage, metavar="PERCENT", help="exit with 1 if a time grew by more, such as 10%%")
    add("--markdown", action="store_true", help="print a table in Markdown, as for a summary in CI")
    return parser
