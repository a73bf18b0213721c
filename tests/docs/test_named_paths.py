"""Files and folders that the documentation names exist. So a page that a move has made wrong is found."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
PLACES = (ROOT, ROOT / "shmcoll", ROOT / "docs", ROOT / "shmcoll" / "engine")
FIRST = {path.name for place in PLACES for path in place.iterdir() if path.is_dir()}


def missing(text: str) -> list[str]:
    """Return the paths in backquotes that begin with a folder of the project and do not exist in any place."""
    quoted = " ".join(re.findall(r"`([^`\n]+)`", text))
    named = re.findall(r"(?<![\w./~-])(?:[\w.-]+/)+[\w.-]*", quoted)
    ours = [path for path in named if path.split("/")[0] in FIRST and "NAME" not in path]
    return [path for path in ours if not any((place / path).exists() for place in PLACES)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    assert missing(page.read_text()) == []


def test_a_path_that_does_not_exist_is_found() -> None:
    text = "`engine/protocol/wait.py`, `shmcoll/none.py`, `tests/nowhere/`, `~/.cache/x`, `pytest tests/none.py -k a`"
    assert missing(text) == ["shmcoll/none.py", "tests/nowhere/", "tests/none.py"]
