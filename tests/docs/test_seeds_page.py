"""The page about the four documents names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (.+) \| (.+) \|$", re.MULTILINE)


def rows() -> list[tuple[str, list[str]]]:
    """The sentences with the names of their tests."""
    page = (ROOT / "docs/internals/seeds.md").read_text()
    found = [(sentence, re.findall(r"`(\w+)`", tests)) for sentence, tests in ROW.findall(page)]
    return [row for row in found if row[0] != "sentence"]


def test_each_sentence_has_tests_that_exist() -> None:
    defined = {
        name
        for folder in ("frontends", "mindspore")
        for path in (ROOT / "tests" / folder).glob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert len(rows()) > 50
    assert [(sentence, tests) for sentence, tests in rows() if not tests or not set(tests) <= defined] == []


def test_no_sentence_comes_twice_in_a_table() -> None:
    """The documents have one sentence in common."""
    sentences = [sentence for sentence, _ in rows()]
    twice = {sentence for sentence in sentences if sentences.count(sentence) > 1}
    assert twice == {'"The tensors must have the same shape and format in all processes of the collection."'}
