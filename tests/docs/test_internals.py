"""The pages for contributors name files that exist, and quote code that is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "internals").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_a_page_names_exist(page: Path) -> None:
    named = set(re.findall(r"`((?:shmcoll|tests|bench|docs|engine)/[\w/.]+)`", page.read_text()))
    assert named
    assert [name for name in named if not any((root / name).exists() for root in (ROOT, ROOT / "shmcoll"))] == []


def test_the_record_that_is_quoted_is_that_of_all_gather() -> None:
    page = (ROOT / "docs" / "internals" / "how-to-add-a-collective.md").read_text()
    quoted = re.findall(r"^COLLECTIVE = .*$|^from shmcoll\.calls.*$", page, re.MULTILINE)
    sources = [(ROOT / "shmcoll" / name).read_text() for name in ("collectives/all_gather.py", "calls/__init__.py")]
    assert len(quoted) == len(sources)
    assert [line in source.splitlines() for line, source in zip(quoted, sources, strict=True)] == [True, True]
