"""The page of environment variables lists what the sources read, with the defaults that they have."""

import ast
import re
from pathlib import Path

from shmrun.cli.settings import SETTINGS

from shmcoll.engine.memory.thresholds import Thresholds
from shmcoll.startup import launchers

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "environment.md").read_text()
OURS = re.compile(r"\bSHMCOLL_[A-Z_]*[A-Z]\b")


def in_folders(*names: str) -> set[str]:
    files = [path for name in names for path in (ROOT / name).rglob("*.py")]
    return {word for path in files for word in OURS.findall(path.read_text())}


def derived() -> set[str]:
    """Variables whose names the sources make up: those of options and of thresholds."""
    options = {setting.variable for setting in SETTINGS.values() if setting.variable}
    return options | {f"SHMCOLL_{name.upper()}" for name in Thresholds._fields}


def test_every_variable_of_the_sources_is_on_the_page():
    assert (in_folders("shmcoll", "launcher", "bench") | derived()) - set(OURS.findall(PAGE)) == set()


def test_every_variable_on_the_page_is_read_somewhere():
    assert set(OURS.findall(PAGE)) - in_folders("shmcoll", "launcher", "bench", "tests") - derived() == set()


def test_options_are_beside_their_variables():
    rows = dict(re.findall(r"^\| `(SHMCOLL_\w+)` \| (`-.*?) \|", PAGE, re.MULTILINE))
    assert set(rows) == {setting.variable for setting in SETTINGS.values() if setting.variable}
    for setting in SETTINGS.values():
        if setting.variable:
            assert f"`--{setting.name}`" in rows[setting.variable]


def test_the_limit_of_a_wait_is_that_of_the_code():
    rows = re.findall(r"^\| `SHMCOLL_TIMEOUT` \|.*\| (\d+) \|$", PAGE, re.MULTILINE)
    assert [float(value) for value in rows] == [SETTINGS["wait-timeout"].default]


def test_variables_of_other_launchers_are_on_the_page():
    source = Path(launchers.__file__).read_text()
    strings = {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}
    names = {text for text in strings if isinstance(text, str) and re.fullmatch(r"[A-Z]+_[A-Za-z_]+|RANK", text)}
    assert len(names) > 20
    assert {name for name in names if f"`{name}`" not in PAGE} - {"MS_SCHED"} == set()  # a value of MS_ROLE
