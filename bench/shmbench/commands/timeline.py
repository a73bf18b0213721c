"""The command `shmbench timeline`: a part of a timeline of `shmrun --trace`, as a picture."""

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

from shmbench.cli.flags import Parser
from shmbench.commands.plot import complaint


def main(argv: list[str]) -> int:
    """Draw the picture. Returns 0. For a mistake, prints one line on stderr and raises `SystemExit(2)`."""
    parser = make_parser()
    given = parser.parse_args(argv)
    if wrong := complaint(given.output, "shmbench timeline"):
        parser.error(wrong)
    try:
        events = _read(given.file)
    except (OSError, ValueError, KeyError, TypeError) as e:
        parser.error(f"{given.file} is not a timeline of shmrun --trace: {e}")
    last = max((one["ts"] + one["dur"] for one in events if one["ph"] == "X"), default=0.0) / 1e3
    begin, end = given.begin, last if given.end is None else given.end
    if not 0 <= begin < end or begin >= last:
        parser.error(f"nothing lies between {begin:g} and {end:g} ms: the timeline has {last:g} ms")

    from shmbench.report import timeline_picture

    timeline_picture.draw(events, given.output, begin, end)
    return 0


def _read(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    events = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)["traceEvents"]
    return [one for one in events if one["ph"] in "MXsf"]


def make_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="shmbench timeline",
        description="Draw a part of a timeline that `shmrun --trace FILE` has written: a row for each track of each "
        "rank, with calls, their waiting parts, ranges, and arrows. To look around in all of it, open FILE at "
        "ui.perfetto.dev.",
    )
    add = parser.add_argument
    add("file", type=Path, metavar="FILE", help="the timeline: .json or .json.gz")
    add("-o", "--output", type=Path, required=True, metavar="PICTURE", help="the picture: .png, .svg or .pdf")
    add("--begin", type=float, default=0.0, metavar="MS", help="draw what lies behind this time, in ms (0)")
    add("--end", type=float, metavar="MS", help="draw what lies before this time, in ms (the last)")
    return parser
