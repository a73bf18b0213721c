"""The command `shmbench plot`: results of earlier runs, of one library or several, in one picture."""

import argparse
from pathlib import Path

from shmbench.cli.flags import Parser, picture_complaint
from shmbench.cli.options import COLLECTIVES, LIMITS


def main(argv: list[str]) -> int:
    """Draw. Returns 0; mistakes are one line on stderr and `SystemExit(2)`."""
    parser = _parser()
    given = parser.parse_args(argv)
    if complaint := picture_complaint("-o", given.output):
        parser.error(complaint)

    from shmbench.report import curves, picture

    try:
        documents = [document for path in given.files for document in curves.read(path)]
        chart = curves.chart([d for d in documents if _wanted(given, d)])
    except (OSError, ValueError) as e:
        parser.error(str(e))
    picture.draw([chart], given.output)
    return 0


def _wanted(given: argparse.Namespace, document: dict) -> bool:
    return given.collective in (None, document["collective"]) and given.ranks in (None, document["ranks"])


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="shmbench plot",
        description="Draw time and bus bandwidth over the size, from the JSON of `shmbench -J` or of "
        "`shmbench compare --json`: a colour for each library, medians where several files have the same size.",
    )
    add = parser.add_argument
    add("files", type=Path, nargs="+", metavar="FILE", help="the JSON of one case, or of several with -c and -n")
    add("-o", "--output", type=Path, required=True, metavar="FILE", help="the picture: .png, .svg or .pdf")
    add("-c", "--collective", choices=COLLECTIVES + LIMITS, metavar="NAME", help="draw only this collective")
    add("-n", "--ranks", type=int, metavar="N", help="draw only what N ranks did")
    return parser
