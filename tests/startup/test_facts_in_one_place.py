"""Numbers that users read stand in one place: what help and docstrings say is what the code does."""

import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from shmrun.cli import help
from shmrun.cli.settings import SETTINGS

import shmcoll
from shmcoll.engine.memory.group import Group, names
from shmcoll.startup import defaults

PROJECT = Path(shmcoll.__file__).parent.parent


def test_the_version_is_that_of_the_package() -> None:
    assert version("shmcoll") == shmcoll.__version__


@pytest.mark.skipif(not (PROJECT / "pyproject.toml").exists(), reason="not in the sources")
def test_the_version_is_not_repeated_in_the_project_file() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    assert "version" not in project["project"]
    assert (PROJECT / project["tool"]["hatch"]["version"]["path"]).samefile(shmcoll.__file__)


def test_help_and_docstrings_give_the_defaults() -> None:
    assert SETTINGS["wait-timeout"].default == defaults.WAIT_TIMEOUT
    assert SETTINGS["grace"].default == defaults.GRACE
    text = " ".join(help.text().split())
    assert f"takes longer than S seconds; default {defaults.WAIT_TIMEOUT:g}" in text
    assert f"after the first failure; default {defaults.GRACE:g}" in text
    assert f"up to {defaults.JOIN_TIMEOUT:g} s (SHMCOLL_JOIN_TIMEOUT)" in (shmcoll.init.__doc__ or "")


def test_the_defaults_are_what_a_job_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """In another process, for this one may have joined a job already."""
    monkeypatch.delenv("SHMCOLL_TIMEOUT", raising=False)
    command = [sys.executable, "-c", "import shmcoll; print(shmcoll.init().timeout)"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(told.stdout) == defaults.WAIT_TIMEOUT


def test_names_of_ranks() -> None:
    assert names([2]) == "rank 2"
    assert names((0, 2)) == "ranks 0, 2"
    group = Group(None, 0, (1, 3))  # type: ignore[arg-type]
    assert group.title == "world ranks 1, 3"
    assert group.names([1]) == "rank 1 (world rank 3)"
    assert group.names([0, 1]) == "ranks 0 (world rank 1), 1 (world rank 3)"
