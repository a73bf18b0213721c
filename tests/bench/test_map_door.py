"""`shmbench compare --door map`: every way for real, and what is printed."""

import json
from pathlib import Path

import pytest
from shmbench.commands import map_door
from shmbench.commands.door import Line

from tests.support.benched import shmbench as run_shmbench


def test_the_ways_for_real(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = run_shmbench("compare", "--door", "map", "--rounds", 1, "--quick", "--call", "rows", "-J", out)
    assert done.stdout.startswith("# a function of many items, 2 processes: microseconds of a call")
    assert done.stdout.endswith("# Out of bounds values : 0 OK\n")
    [row] = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    assert row.startswith("  40 rows of 1 MiB")
    [call] = json.loads(out.read_text())["calls"]
    assert call["wrong"] == 0
    assert {"Pool", "executor", "map", "ranks"} <= call["microseconds"].keys()


@pytest.mark.slow
def test_all_of_it() -> None:
    done = run_shmbench("compare", "--door", "map", "--rounds", 1, "--quick")
    assert sum(not line.startswith("#") for line in done.stdout.splitlines()) == 5
    assert done.stdout.endswith("# Out of bounds values : 0 OK\n")


def test_the_ratio_is_that_of_the_faster_of_ours_to_the_fastest_of_the_others() -> None:
    times = {"joblib": [30.0], "Pool": [20.0, 10.0], "executor": [40.0], "map": [9.0], "ranks": [6.0]}
    assert map_door.text(Line("x", times, 0, 0)).split() == [
        "x",
        "-",
        "30.00",
        "15.00",
        "40.00",
        "9.00",
        "6.00",
        "0.40",
    ]
    assert map_door.text(Line("x", {"Pool": [20.0], "map": [9.0]}, 3, 8)).endswith("0.45  3 wrong")
