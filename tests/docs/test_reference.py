"""The reference pages say what the docstrings say, and the docstrings say enough."""

import inspect
import re
import runpy
from pathlib import Path

import pytest

from shmcoll.collectives import ROUTINES
from shmcoll.communicator import Communicator

GENERATOR = Path(__file__).parents[2] / "docs" / "generate.py"
METHODS = {
    name: member for cls in Communicator.__mro__[:-1] for name, member in vars(cls).items() if not name.startswith("_")
}


@pytest.fixture(autouse=True)
def beside_the_generator(monkeypatch):
    """Import what stands beside it, as Python does when it is run."""
    monkeypatch.syspath_prepend(GENERATOR.parent)


def test_the_pages_are_what_the_docstrings_say(capsys):
    made = runpy.run_path(str(GENERATOR))
    assert made["main"](["--check"]) == 0, capsys.readouterr().out
    generated = {path.name for path in made["FOLDER"].glob("*.md") if "Made by docs/generate.py" in path.read_text()}
    assert set(made["pages"]()) == generated


def test_a_stale_page_is_found(capsys, tmp_path):
    made = runpy.run_path(str(GENERATOR))
    made["main"].__globals__["FOLDER"] = tmp_path
    assert made["main"](["--check"]) == 1
    assert "communicator.md" in capsys.readouterr().out
    assert made["main"]([]) == 0
    assert made["main"](["--check"]) == 0


@pytest.mark.parametrize("name", METHODS)
def test_every_method_says_what_it_does(name):
    assert len(inspect.getdoc(METHODS[name]) or "") > 20


@pytest.mark.parametrize("name", ROUTINES)
def test_every_collective_says_how_it_works_and_what_it_costs(name):
    text = inspect.getdoc(inspect.getmodule(ROUTINES[name])) or ""
    assert text.startswith(name)
    assert "Cost" in text


def test_the_page_for_users_has_no_protocol():
    """Neither the words of routines, nor files of the package, nor which rank writes which cell in which round."""
    page = (GENERATOR.parent / "reference" / "algorithms.md").read_text()
    internal = re.compile(r"\b(EXTRA|ARGUMENT|PROGRESS|HEADER_\w+|engine/|\w+\.py\b|cell \(s)|^Protocol", re.MULTILINE)
    lines = page.splitlines()[4:]  # below the remark which file makes the page
    assert [line for line in lines if internal.search(line)] == []
