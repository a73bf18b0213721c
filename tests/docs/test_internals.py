"""The pages for contributors name files that exist, and quote code that is there."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "internals").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_that_a_page_names_exist(page: Path) -> None:
    named = set(re.findall(r"`((?:shmcoll|tests|bench|docs|engine)/[\w/.]+)`", page.read_text()))
    assert named
    assert [name for name in named if not any((root / name).exists() for root in (ROOT, ROOT / "shmcoll"))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_that_a_page_shows_is_cut_from_a_file(page: Path) -> None:
    """`test_reference.py` compares excerpts with the files."""
    text = page.read_text()
    blocks, excerpts = (len(re.findall(one, text)) for one in ("```python\n", r"<!-- excerpt: .* -->\n *```python\n"))
    assert blocks == excerpts
    assert not re.search(r"```text\n *(def|class|@|from|import) ", text)


def test_an_excerpt_that_is_not_in_the_file_is_an_error() -> None:
    cut = runpy.run_path(str(ROOT / "docs" / "excerpts.py"))["cut"]
    assert cut(ROOT / "docs" / "excerpts.py", "FOLDER") == 'FOLDER = ROOT / "docs" / "internals"'
    with pytest.raises(LookupError, match="does not define all_scatter"):
        cut(ROOT / "docs" / "excerpts.py", "all_scatter")


def test_the_words_for_users_are_where_the_page_on_operators_says() -> None:
    page = (ROOT / "docs" / "internals" / "how-to-add-a-dtype-or-operator.md").read_text()
    file = re.search(r"the docstring of `all_reduce` in `([\w/.]+)`", page)
    assert file
    assert "    def all_reduce(" in (ROOT / file[1]).read_text()
