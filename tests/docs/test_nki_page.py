"""The table of names on the page "Coming from NKI" is that of the module."""

import re
from pathlib import Path

from shmcoll.nki import collectives

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "nki.md").read_text()
ROWS = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*)\|$", PAGE, re.MULTILINE)


def test_every_name_has_a_row():
    assert sorted(name for name, _, _ in ROWS) == sorted(collectives.__all__)


def test_every_row_says_how_much_of_it_is_here():
    assert {how for _, how, _ in ROWS} <= {"yes", "partly", "no"}
    assert [name for name, how, why in ROWS if how != "yes" and not why.strip()] == []
