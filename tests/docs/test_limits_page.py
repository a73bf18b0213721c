"""The page of limits has the numbers of the code and of pyproject.toml."""

import re
import tomllib
from pathlib import Path

from shmrun.cli.settings import SETTINGS

from shmcoll.engine import layout
from shmcoll.runtime.group_directory import most_groups

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "limits.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def limit(what: str) -> str:
    return dict(re.findall(r"^\| (.*?) \| (.*?) \|", PAGE, re.MULTILINE))[what]


def test_numbers_are_those_of_the_code():
    assert limit("ranks of a job") == f"{layout.most_ranks(layout.CELL_BYTES):,}"
    assert limit("groups that a rank leads at one time") == f"{most_groups():,}"
    assert layout.LARGEST_COUNT == 2**48
    assert limit("counts and displacements of the `_v` variants") == "2**48 elements"
    assert layout.LARGEST_TAG == 2**31 - 1
    assert limit("tags of messages") == "0 to 2**31 - 1"
    assert limit("dimensions of an array").endswith(f"errors show the first {layout.HEADER_MAX_DIMS}")
    assert limit("one wait for another rank") == f"`comm.timeout`, by default {SETTINGS['wait-timeout'].default:g} s"


def test_versions_are_those_of_the_project():
    versions = dict(re.findall(r"(CPython|numpy|numba) (\S+) or\s+later", PAGE))
    assert PROJECT["requires-python"] == f">={versions['CPython']}"
    assert {f"{name}>={versions[name]}" for name in ("numpy", "numba")} <= set(PROJECT["dependencies"])
