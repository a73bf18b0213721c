"""A JSON report has one record per line, and the kept measurements are written so."""

import json
from pathlib import Path
from typing import Any

import pytest
from shmbench.report import json_report

MEASUREMENTS = sorted((Path(__file__).parents[2] / "docs" / "measurements").rglob("*.json"))


def records(value: Any) -> int:
    """Count the objects that are elements of lists, at any depth."""
    if isinstance(value, dict):
        return sum(records(part) for part in value.values())
    if isinstance(value, list):
        return sum(isinstance(part, dict) + records(part) for part in value)
    return 0


def test_each_record_begins_a_line(tmp_path: Path) -> None:
    rows = [{"size": 8, "times": [1.5, 2.5], "in_place": None}, {"size": 16, "times": [], "in_place": {"time": 3}}]
    document = {"format": 1, "results": [{"rows": rows, "library": 'a "b"'}, {"rows": []}], "wrong": 0}
    json_report.write(tmp_path / "out.json", document)
    text = (tmp_path / "out.json").read_text()
    assert json.loads(text) == document
    assert sum(line.startswith("{") for line in text.splitlines()) == 1 + records(document)


@pytest.mark.parametrize("path", MEASUREMENTS, ids=lambda path: path.stem)
def test_kept_measurements_are_written_so(path: Path, tmp_path: Path) -> None:
    json_report.write(tmp_path / "again.json", json.loads(path.read_text()))
    assert path.read_text() == (tmp_path / "again.json").read_text()
    assert max(map(len, path.read_text().splitlines())) < 1000
