"""Suites of tests with the mark `ranks`, which pytest runs in a process of its own."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from tests.support.patience import PATIENCE


class Told:
    """What pytest has told of a suite: its exit code, the words on its terminal, and the outcome of each test."""

    def __init__(self, status: int, output: str, xml: Path):
        self.status, self.output = status, output
        self.outcomes: dict[str, str] = {}
        self.properties: dict[str, list[tuple[str, str]]] = {}
        for case in ET.parse(xml).iter("testcase") if xml.exists() else ():
            kinds = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
            self.outcomes[case.attrib["name"]] = kinds[0] if kinds else "passed"
            self.properties[case.attrib["name"]] = [
                (one.attrib["name"], one.attrib["value"]) for one in case.iter("property")
            ]

    def of(self, title: str) -> str:
        """Return the section of the terminal with this title."""
        _, found, rest = self.output.partition(f"_ {title} _")
        assert found, self.output
        return rest.partition("\n____")[0].partition("\n====")[0]


def line(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest", *arguments]


def run(folder: Path, source: str, *arguments: str, ini: Sequence[str] = (), before: Sequence[str] = ()) -> Told:
    """Run a suite of one file. ini: lines of its settings. before: the command that runs pytest."""
    (folder / "pytest.ini").write_text("\n".join(["[pytest]", "junit_family = xunit1", *ini, ""]))
    (folder / "test_suite.py").write_text(source)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV"))}
    ended = subprocess.run(
        [*before, *line("--junitxml=told.xml", "-p", "no:cacheprovider", *arguments)],
        cwd=folder,
        env=environment | {"COLUMNS": "120"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
    )
    return Told(ended.returncode, ended.stdout, folder / "told.xml")
