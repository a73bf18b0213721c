"""GitHub accepts the forms for issues, and the subcommands that they name exist."""

import re
from pathlib import Path

import pytest
from shmrun.cli.subcommands import SUBCOMMANDS

yaml = pytest.importorskip("yaml", reason="PyYAML comes with what makes the site: pip install 'shmcoll[docs]'")

FOLDER = Path(__file__).parents[2] / ".github" / "ISSUE_TEMPLATE"
FORMS = sorted(path.name for path in FOLDER.glob("*.yml") if path.name != "config.yml")


@pytest.mark.parametrize("name", FORMS)
def test_a_form_has_what_github_requires(name: str) -> None:
    form = yaml.safe_load((FOLDER / name).read_text())
    assert {"name", "description", "body"} <= set(form)
    questions = [field for field in form["body"] if field["type"] != "markdown"]
    assert all(field["attributes"]["label"] for field in questions)
    assert len({field["id"] for field in questions}) == len(questions) > 0


def test_the_subcommands_that_are_named_exist() -> None:
    named = {word for name in FORMS for word in re.findall(r"`shmrun (\w+)", (FOLDER / name).read_text())}
    assert "doctor" in named
    assert named <= set(SUBCOMMANDS)
