"""The script that measures the peers: what fails or hangs is ended, told, and leaves the rest alone."""

import json
import sys
from pathlib import Path

import pytest

PEERS = Path(__file__).parents[2] / "bench" / "peers"
MODULES = ("install", "start", "measure")


@pytest.fixture
def peers(monkeypatch):
    """The modules of bench/peers, which is a folder of scripts and no package."""
    monkeypatch.syspath_prepend(PEERS)
    import measure
    import start

    yield measure, start
    for name in MODULES:
        sys.modules.pop(name, None)


def process(start, code):
    return start._start([sys.executable, "-c", code], {})


def test_what_fails_or_hangs_is_told_and_ended(peers):
    _, start = peers
    assert start._wait([process(start, "")], 30) is None
    assert start._wait([process(start, "raise SystemExit(3)")], 30) == "exit code 3"
    hanging = process(start, "import signal; signal.pause()")
    assert start._wait([hanging], 0.1) == "not done after 0.1 s"
    assert hanging.poll() is not None
    left = process(start, "import signal; signal.pause()")
    assert start._wait([process(start, "raise SystemExit(1)"), left], 30) == "exit code 1"
    assert left.poll() is not None


def test_every_library_runs_every_case_in_turn_and_medians_are_printed(peers, monkeypatch, tmp_path, capsys):
    measure, _ = peers
    calls, times = [], iter([3.0, 1.0, 2.0])

    def run(library, home, arguments, ranks, timeout):
        calls.append((library, ranks))
        if library == "gloo":
            return "not done after 9 s"
        row = {"out_of_place": {"time": next(times)}, "in_place": {"time": 7.0}}
        Path(arguments[-1]).write_text(json.dumps({"rows": [row]}))
        return None

    monkeypatch.setattr(measure, "run", run)
    monkeypatch.setattr(measure, "install", lambda *_: None)
    monkeypatch.setattr(measure, "TABLES", {"all_reduce": ["8"]})
    out = tmp_path / "peers.json"
    line = f"measure --libraries shmcoll gloo --repeat 3 --ranks 2 --timeout 9 -o {out}"
    monkeypatch.setattr(sys, "argv", line.split())
    assert measure.main() == 1
    assert calls == [("shmcoll", 2), ("gloo", 2)] * 3
    assert capsys.readouterr().out == (
        "  2 ranks  all_reduce       8  shmcoll          2.00 us         7.00 us\n"
        "  2 ranks  all_reduce       8  gloo    3 of 3: not done after 9 s\n"
    )
    assert len(json.loads(out.read_text())["results"]) == 6
