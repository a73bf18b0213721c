"""What shmbench says of a busy machine, and keeps of it beside the date."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from shmbench.report.ratios import foot
from shmbench.timing.other_load import BUSY, Others
from shmbench.timing.run_load import RunLoad, busy_before, busy_during

from tests.support.benched import shmbench


class Alone:
    """A library of one rank."""

    def exchange(self, values):
        return values.reshape(1, -1)


def test_a_run_keeps_its_date_and_load(tmp_path: Path) -> None:
    begin = datetime.now(UTC).replace(microsecond=0)
    out = tmp_path / "out.json"
    done = shmbench("all_reduce", "-n", 2, "-e", 8, "--iters", 5, "--rounds", 1, "-J", out)
    document = json.loads(out.read_text())
    assert begin <= datetime.fromisoformat(document["date"]) <= datetime.now(UTC)
    load = document["load"]
    assert load.keys() == {"others_before", "others", "average_before", "average_after"}
    assert all(value >= 0 for value in load.values())
    busy = [line for line in done.stdout.splitlines() if line.startswith("# busy: ")]
    assert len(busy) == (load["others_before"] > BUSY) + (load["others"] > BUSY)


@pytest.mark.parametrize("share", [0.05, 0.37])
def test_a_busy_machine_is_named(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    monkeypatch.setattr(Others, "share", lambda *_: share)
    monkeypatch.setattr(os, "getloadavg", lambda: (3.25, 0, 0))
    run = RunLoad(Alone())
    lines = busy_before(run), busy_during(run.end())
    if share < BUSY:
        assert lines == ("", "")
    else:
        assert lines == (
            "# busy: other processes use 37% of the cores; load 3.25",
            "# busy: other processes used 37% of the cores meanwhile; load 3.25 before, 3.25 after. "
            "Measure again on a quiet machine",
        )


def test_what_all_ranks_use_is_not_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks that use 0.5 and 0.25 of the 1.0 s that two cores have worked in 1 s: others have 0.25 of 2 s."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    told = iter([(10.0, 100.0, 7.0), (11.0, 101.0, 7.5)])
    monkeypatch.setattr(Others, "_now", lambda _: next(told))
    assert Others().share(0.75) == 0.125


def test_a_comparison_names_the_busiest_of_its_runs() -> None:
    machine = {"processor": "Some CPU", "cores": 2}
    results = [
        {
            "library": "shmcoll",
            "collective": "barrier",
            "error": None,
            "table": {"library": "shmcoll", "library_version": "1", "machine": machine, "load": {"others": share}},
        }
        for share in (0.02, 0.45, 0.01)
    ]
    assert (
        foot(results).splitlines()[0] == "# busy: other processes used up to 45% of the cores; these times are too long"
    )
    assert "busy" not in foot(results[:1])
