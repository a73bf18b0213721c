"""The command `shmbench plot`: results of earlier runs, of one library or several, in one picture."""

import argparse
from importlib.util import find_spec
from pathlib import Path

from shmbench.cli.flags import Parser
from shmbench.cli.options import COLLECTIVES

PICTURES = (".png", ".svg", ".pdf")


def main(argv: list[str]) -> int:
    """Draw the picture. Returns 0. For a mistake, prints one line on stderr and raises `SystemExit(2)`."""
    parser = make_parser()
    given = parser.parse_args(argv)
    if wrong := complaint(given.output, parser.prog):
        parser.error(wrong)

    from shmbench.report import curves, picture

    try:
        files = [
            curves.Results(path, label, [document for document in curves.read(path) if _wanted(given, document)])
            for label, path in given.files
        ]
        charts = curves.charts(curves.labelled(files))
    except (OSError, ValueError) as e:
        parser.error(str(e))
    picture.draw(charts, given.output)
    return 0


def _file(text: str) -> tuple[str, Path]:
    """Return label and path. A file whose name contains = needs no label."""
    label, equals, path = text.partition("=")
    return (label, Path(path)) if equals and not Path(text).exists() else ("", Path(text))


def _wanted(given: argparse.Namespace, document: dict) -> bool:
    """Return whether to draw a table."""
    return given.collective in (None, document["collective"]) and given.ranks in (None, document["ranks"])


def complaint(path: Path, command: str) -> str | None:
    """Return why a command cannot write a picture to `path`, or None."""
    if path.suffix not in PICTURES:
        return f"-o {path}: a picture's name ends in {', '.join(PICTURES)}"
    if not path.absolute().parent.is_dir():
        return f"-o {path}: there is no folder {path.parent}"
    if find_spec("matplotlib") is None:
        return f"{command} needs matplotlib: pip install 'shmcoll[bench]'"
    return None


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="shmbench plot",
        description="Draw time and bus bandwidth over the size, from the JSON of `shmbench -J` or of "
        "`shmbench compare --json`: a chart for each case, a colour for each library. If two files have the same sizes "
        "of a library, it has a curve for each of them, the earlier ones paler: before and after.",
    )
    add = parser.add_argument
    add("files", type=_file, nargs="+", metavar="[LABEL=]FILE",
        help="the JSON of one case or of several; LABEL names its curves (name of FILE)")  # fmt: skip
    add("-o", "--output", type=Path, required=True, metavar="FILE", help="the picture: .png, .svg or .pdf")
    add("-c", "--collective", choices=COLLECTIVES, metavar="NAME", help="draw only this collective")
    add("-n", "--ranks", type=int, metavar="N", help="draw only what N ranks did")
    return parser
