"""What shmbench says of a busy machine, and keeps of it beside the date."""

import io
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from shmbench.report.ratios import foot
from shmbench.timing import other_load
from shmbench.timing.other_load import BUSY, Others, WholeRun, busy_during
from shmbench.timing.run_load import RunLoad, busy_before

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
    assert load.keys() == {"others_before", "others", "stolen", "average_before", "average_after"}
    assert all(value >= 0 for value in load.values())
    busy = [line for line in done.stdout.splitlines() if line.startswith("# busy: ")]
    assert len(busy) == (load["others_before"] > BUSY) + (load["others"] > BUSY)


HOST = " (20% by the host of this virtual machine)"


@pytest.mark.parametrize(("share", "stolen", "host"), [(0.05, 0.0, ""), (0.37, 0.01, ""), (0.37, 0.2, HOST)])
def test_a_busy_machine_is_named(monkeypatch: pytest.MonkeyPatch, share: float, stolen: float, host: str) -> None:
    monkeypatch.setattr(Others, "share", lambda *_: share)
    monkeypatch.setattr(Others, "stolen", lambda _: stolen)
    monkeypatch.setattr(os, "getloadavg", lambda: (3.25, 0, 0))
    run = RunLoad(Alone())
    lines = busy_before(run), busy_during(run.end())
    if share < BUSY:
        assert lines == ("", "")
    else:
        assert lines == (
            f"# busy: others use 37% of the cores{host}; load 3.25",
            f"# busy: others used 37% of the cores{host} meanwhile; load 3.25 before, 3.25 after. "
            "Measure again on a quiet machine",
        )


def test_what_the_host_takes_counts_as_used_by_others_and_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """In 1 s, two cores work 1.1 s, of which the host takes 0.6 and this process 0.25, and are idle for 0.9."""
    tick = 1 / os.sysconf("SC_CLK_TCK")
    columns = [(0.1, 0, 0.1, 0.4, 0.05, 0, 0, 0.35, 0, 0), (0.2, 0, 0.1, 0.4, 0.05, 0, 0, 0.25, 0.1, 0)]
    rows = [" ".join([f"cpu{core}", *(f"{column / tick:.0f}" for column in row)]) for core, row in enumerate(columns)]
    started = "cpu0 0 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\n"
    told = iter([started, started, "\n".join(rows), "\n".join(rows)])
    times = iter([10.0, 11.0, 11.0])
    monkeypatch.setattr(other_load, "open", lambda _: io.StringIO(next(told)), raising=False)
    monkeypatch.setattr(other_load.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(other_load, "own_seconds", lambda: 0.0)
    others = Others({0, 1})
    assert others.share(0.25) == pytest.approx(0.425)
    assert others.stolen() == pytest.approx(0.3)


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
    assert foot(results).splitlines()[0] == "# busy: others used up to 45% of the cores; these times are too long"
    assert "busy" not in foot(results[:1])


def test_children_of_a_whole_run_are_not_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children that have ended have worked 1.5 of the 1.75 s that two cores have worked in 1 s: others have 0.25."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(os, "getloadavg", lambda: (3.25, 0, 0))
    monkeypatch.setattr(Others, "stolen_seconds", lambda _: 0.0)
    told = iter([(10.0, 100.0, 7.0), (11.0, 101.75, 8.5)])
    monkeypatch.setattr(Others, "_now", lambda _: next(told))
    run = WholeRun()
    monkeypatch.setattr(other_load.time, "monotonic", lambda: 11.0)
    monkeypatch.setattr(run._others, "_began", (10.0, 100.0, 7.0))
    load = run.end()
    assert load == {"others": 0.125, "stolen": 0.0, "average_before": 3.25, "average_after": 3.25}
    assert busy_during(load).startswith("# busy: others used 12% of the cores meanwhile; load 3.25 before")
