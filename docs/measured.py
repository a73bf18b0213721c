"""The tables of docs/performance.md, which `docs/generate.py` makes from the files in docs/measurements.

A comment names the file; the lines up to the next comment are written anew:

    <!-- measured: compare-2-ranks-hot.json -->
    <!-- end -->
"""

import json
import re
from pathlib import Path
from typing import Any

from shmbench.report import growth_table, start_table
from shmbench.report.ratio_table import beyond_markdown, markdown, nodes_markdown

FOLDER = Path(__file__).parent
_PLACE = re.compile(r"^<!-- measured: (\S+) -->\n.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)


def pages() -> dict[Path, str]:
    """Return the page with its tables as they should be."""
    path = FOLDER / "performance.md"
    return {path: _PLACE.sub(_filled, path.read_text(encoding="utf-8"))}


def _table(found: dict[str, Any]) -> str:
    if "starts" in found:
        return start_table.markdown(found["starts"])
    if "growth" in found:
        return growth_table.markdown(found["results"])
    if "beyond" in found:
        return beyond_markdown(found["beyond"])
    return nodes_markdown(found) if "nodes" in found else markdown(found["results"])


def _filled(place: re.Match[str]) -> str:
    file = FOLDER / "measurements" / place[1]
    if not file.exists():  # it has not been measured yet
        return place[0]
    found = json.loads(file.read_text(encoding="utf-8"))
    table = _table(found)
    return f"<!-- measured: {place[1]} -->\n\n{table}\n\n<!-- end -->"
