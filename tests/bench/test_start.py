"""`shmbench start` and `shmbench growth`: what they measure, and their tables."""

import json

import pytest
from shmbench.commands import growth, start
from shmbench.report import growth_table, start_table
from shmbench.timing.peers import FOLDER, OF_MPI, installed


def test_programs_and_jobs_are_timed(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(start, "PROGRAMS", {"an empty program": "", "import shmcoll": "import shmcoll"})
    file = tmp_path / "start.json"
    assert start.main(["-n", "1,2", "--rounds", "1", "--libraries", "--json", str(file)]) == 0
    rows = json.loads(file.read_text())["starts"]
    assert [(row["what"], row["ranks"], row["error"]) for row in rows] == [
        ("an empty program", 0, None), ("import shmcoll", 0, None), ("a job", 1, None), ("a job", 2, None),
    ]  # fmt: skip
    assert all(len(row["seconds"]) == len(row["processor"]) == 1 for row in rows)
    assert [row["memory"] is not None and row["memory"] > 1024 for row in rows] == [False, False, True, True]
    assert capsys.readouterr().out.strip() == start_table.markdown(rows)


def test_a_program_that_fails_is_told(monkeypatch, capsys):
    monkeypatch.setattr(start, "PROGRAMS", {"a mistake": "raise SystemExit(3)"})
    monkeypatch.setattr(start, "_jobs", lambda *_: [])
    assert start.main(["--rounds", "2", "--libraries"]) == 1
    assert "left out: shmcoll, a mistake: exit code 3" in capsys.readouterr().err


@pytest.mark.parametrize("command", [start.main, growth.main])
def test_mistakes(command, tmp_path, capsys):
    for arguments, text in (
        (["-n", "2,none"], "'none' is no whole number of at least 1"),
        (["--json", str(tmp_path / "absent" / "file.json")], "there is no folder"),
        (["--libraries", "gloo"], "unknown library 'gloo'"),
        (["--libraries", "mpich", "--peers", str(tmp_path)], "not installed in"),
    ):
        with pytest.raises(SystemExit, match="2"):
            command(arguments)
        assert text in capsys.readouterr().err


def row(library: str, seconds: float, what: str = "a job", ranks: int = 2) -> start_table.Row:
    named = {"what": what, "library": library, "ranks": ranks, "error": None}
    return {**named, "seconds": [seconds], "processor": [2 * seconds], "memory": 2048.0}


def test_the_table_of_starts():
    rows = [
        row("shmcoll", 0.01, "an empty program", 0),
        row("shmcoll", 0.3),
        row("mpich", 0.6),
        row("mpich", 0.9, "a job that imports numpy"),
        row("openmpi", 1.2),
        row("shmcoll", 2.0, ranks=64),
    ]
    told = start_table.markdown(rows).splitlines()
    assert told[2] == "| an empty program | 10 | 20 |"
    assert told[6] == "| shmcoll | 2 | 0.30 | 0.60 | 2.0 | 0.50, 0.33 with numpy |"
    assert told[8] == "| MPICH and numpy | 2 | 0.90 | 1.80 | 2.0 |  |"
    assert told[-1] == "| shmcoll | 64 | 2.00 | 4.00 | 2.0 |  |"


def result(library: str, name: str, ranks: int, size: int, time: float, *, in_place: bool = False) -> dict[str, object]:
    cells = {"out_of_place": None if in_place else {"time": time}, "in_place": {"time": time} if in_place else None}
    table = {"rows": [{"size": size, **cells}]}
    return {"library": library, "collective": name, "ranks": ranks, "error": None, "table": table}


def test_the_table_of_growth():
    found = [
        result("shmcoll", "barrier", 4, 0, 2.0),
        result("mpich", "barrier", 4, 0, 8.0),
        result("shmcoll", "broadcast", 4, 65536, 150.4, in_place=True),
        result("mpich", "broadcast", 4, 65536, 300.8, in_place=True),
        result("limit", "broadcast", 4, 65536, 1.0),
        result("shmcoll", "barrier", 8, 0, 3.0),
    ]
    assert growth_table.markdown(found).splitlines() == [
        "| ranks | barrier | broadcast 64K |",
        "|---|---|---|",
        "| 4 | 2.0 (0.25) | 150 (0.50) |",
        "| 8 | 3.0 | - |",
    ]


@pytest.mark.slow
def test_growth_beside_a_peer(tmp_path):
    there = [name for name in installed(FOLDER) if name in OF_MPI]
    if not there:
        pytest.skip("make peers")
    file = tmp_path / "growth.json"
    asked = ["barrier", "-n", "2", "--rounds", "1", "--libraries", there[0], "--json", str(file)]
    assert growth.main(asked) == 0
    assert json.loads(file.read_text())["growth"] == [2]
