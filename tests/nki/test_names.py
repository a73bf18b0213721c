"""Names and parameters beside the published ones: what differs stands on the page "Coming from NKI", with a reason."""

import re
from pathlib import Path

from tests.nki import compare_names

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "nki.md").read_text()


def test_what_differs_stands_on_the_page():
    section = PAGE.partition("### What differs from the published names")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`nki\..*?) \| (.+) \|$", section, re.MULTILINE)
    explained = [name for names, reason in rows for name in re.findall(r"`(nki[\w.]+)`", names) if reason.strip()]
    assert sorted(explained) == sorted({name for name, _ in compare_names.differences()})


def test_every_collective_is_here():
    """With the parameters and defaults that are published, in their order."""
    assert [name for name, _ in compare_names.differences() if name.startswith("nki.collectives.")] == []


def test_what_counts_as_a_difference():
    theirs = compare_names.of_text("a, b=None, *, c=[0], **kwargs")
    assert theirs == {"a": "", "b": "None", "c": "[0]", "**kwargs": ""}

    def same(a, b=None, *, c=(0,), **kwargs): ...

    def other(b, a=3, d=1): ...

    assert list(compare_names.differing(theirs, compare_names.of_function(same))) == []
    assert list(compare_names.differing(theirs, compare_names.of_function(other))) == [
        "lacks c",
        "lacks **kwargs",
        "has d, which is here only",
        "has the parameters in the order b, a, d",
        "has a=3 instead of none",
        "has b= instead of None",
    ]


def test_every_program_stands_on_the_page():
    section = PAGE.partition("## Programs")[2].partition("\n## ")[0]
    programs = sorted(path.name for path in (Path(__file__).parent / "programs").glob("*.py"))
    assert sorted(re.findall(r"^\| `(\w+\.py)` \|", section, re.MULTILINE)) == programs
