"""`shmbench diff`: which cases are compared, which changes count, and what it prints and returns."""

import json
from pathlib import Path
from typing import Any

import pytest
from shmbench.commands import diff
from shmbench.report import differences


def document(rounds: dict[int, list[float]], **other: Any) -> dict[str, Any]:
    """What `shmbench -J` writes, as far as it is compared; `rounds`: microseconds by size."""

    def placed(times: list[float]) -> dict[str, Any]:
        return {"time": sorted(times)[len(times) // 2], "rounds": times, "busbw": 1.0}

    return {
        "format": 1, "library": "shmcoll", "library_version": "0.1.0", "date": "2026-01-02T03:04:05+00:00",
        "machine": {"processor": "Some CPU", "cores": 2}, "options": {"algorithm": None},
        "collective": "all_reduce", "ranks": 2, "wrong": 0,
        "rows": [
            {"size": size, "type": "float32", "redop": "sum", "out_of_place": placed(times), "in_place": None}
            for size, times in rounds.items()
        ],
    } | other  # fmt: skip


@pytest.fixture
def files(tmp_path: Path):
    """`files(before, after)`: their paths as words."""

    def write(*contents: dict[str, Any]) -> list[str]:
        paths = [tmp_path / f"{name}.json" for name in ("a", "b")]
        for path, content in zip(paths, contents, strict=True):
            path.write_text(json.dumps(content))
        return [str(path) for path in paths]

    return write


STEADY = [1.00, 1.01, 1.02, 1.03, 1.04]
SLOWER = [1.20, 1.21, 1.22, 1.23, 1.24]
NOISY = [0.80, 0.90, 1.30, 1.40, 1.50]


@pytest.mark.parametrize(
    ("after", "limit", "code", "verdict"),
    [
        (STEADY, "10%", 0, "same"),
        (SLOWER, "10%", 1, "slower, FAILED"),
        (SLOWER, "30%", 0, "slower"),
        (SLOWER, None, 0, "slower"),
        (NOISY, "10%", 0, "same"),  # its median is 27 % up, and its rounds are on both sides
        ([0.5] * 5, "10", 0, "faster"),
        ([1.5], "10%", 1, "slower, FAILED"),  # a single round has no noise
    ],
)
def test_what_counts(files, capsys, after, limit, code, verdict) -> None:
    options = ["--fail-above", limit] if limit else []
    assert diff.main([*files(document({8: STEADY}), document({8: after})), *options]) == code
    out = capsys.readouterr().out
    assert out.splitlines()[-2].endswith(f"  {verdict}"), out


def test_only_the_same_case_is_compared(files, capsys) -> None:
    """Sizes, ranks, dtypes, operators, algorithms, libraries and placements."""
    old, new = document({8: STEADY, 64: STEADY}), document({8: SLOWER, 4096: SLOWER})
    found = differences.compare([old], [new])
    assert [row.case[6] for row in found.rows] == [8]
    assert found.alone == (1, 1)
    others = [{"ranks": 4}, {"library": "MPICH"}, {"collective": "reduce"}, {"options": {"algorithm": "ring"}}]
    for other in others:
        assert not differences.compare([old], [document({8: SLOWER}, **other)]).rows
    for key in ("type", "redop"):
        different = document({8: SLOWER})
        different["rows"][0][key] = "other"
        assert not differences.compare([old], [different]).rows
    with pytest.raises(SystemExit) as end:
        diff.main(files(old, document({8: SLOWER}, ranks=4)))
    assert end.value.code == 2
    assert "have no case in common: ranks 2, 4 (see" in capsys.readouterr().err


QUIET, LOADED = ({"load": {"others": share, "stolen": 0.0}} for share in (0.05, 0.8))


def test_nothing_fails_that_was_measured_while_others_used_the_cores(files, capsys) -> None:
    for before, after, code in ((QUIET, QUIET, 1), (QUIET, LOADED, 0), (LOADED, QUIET, 0), (LOADED, LOADED, 0)):
        names = files(document({8: STEADY, 64: STEADY}, **before), document({8: SLOWER, 64: STEADY}, **after))
        assert diff.main([*names, "--fail-above", "10%"]) == code
        out = capsys.readouterr().out.splitlines()
        busy = [name for name, load in zip(names, (before, after), strict=True) if load is LOADED]
        what = "what was measured then cannot fail"
        told = [line for line in out if line.startswith("# busy")]
        assert told == [f"# busy: others used up to 80% of the cores during {name}: {what}" for name in busy]
        changed = "1 slower, 0 faster, 1 same"
        if busy:
            changed = "0 slower, 0 faster, 1 same, 1 changed on a busy machine: measure again on a quiet one"
        assert out[-1] == f"# {changed}; {1 - bool(busy)} slower by more than 10%"


def test_only_what_was_measured_on_a_quiet_machine_counts_where_there_is_any(files, capsys) -> None:
    """A comparison of rounds, some of them beside a busy neighbour; and two collectives, one of them so."""

    def compared(*tables: dict[str, Any]) -> dict[str, Any]:
        return {"format": 1, "results": [{"library": "shmcoll", "error": None, "table": table} for table in tables]}

    quiet = compared(document({8: STEADY}, **QUIET), document({8: [9.0] * 9}, **LOADED))
    assert diff.main([*files(quiet, document({8: STEADY}, **QUIET)), "--fail-above", "10%"]) == 0
    assert "1.02 us  1.02 us" in capsys.readouterr().out
    assert diff.main([*files(quiet, document({8: SLOWER}, **QUIET)), "--fail-above", "10%"]) == 1
    other = {"collective": "broadcast"}
    before = compared(document({8: STEADY}, **QUIET), document({8: STEADY}, **other, **LOADED))
    after = compared(document({8: SLOWER}, **QUIET), document({8: SLOWER}, **other, **QUIET))
    capsys.readouterr()
    assert diff.main([*files(before, after), "--fail-above", "10%"]) == 1
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("shmcoll")]
    assert [(row[1], row[-1]) for row in rows] == [("all_reduce", "FAILED"), ("broadcast", "busy")]


def test_a_file_that_does_not_say_how_busy_the_machine_was(files, capsys) -> None:
    names = files(document({8: STEADY}), document({8: SLOWER}, **QUIET))
    assert diff.main([*names, "--fail-above", "10%"]) == 1
    assert f"# {names[0]} does not say how busy the machine was\n" in capsys.readouterr().out


def test_rounds_of_a_comparison_are_put_together(files, capsys) -> None:
    """Each table of `shmbench compare` is one round of its own."""

    def compared(times: list[float]) -> dict[str, Any]:
        tables = [document({8: [time]}) for time in times]
        return {"format": 1, "results": [{"library": "shmcoll", "error": None, "table": table} for table in tables]}

    assert diff.main([*files(compared(STEADY), compared(NOISY)), "--fail-above", "1%"]) == 0
    assert diff.main([*files(compared(STEADY), compared(SLOWER)), "--fail-above", "1%"]) == 1
    assert "1.02 us  1.22 us  +19.6%   1.0%  slower, FAILED\n" in capsys.readouterr().out


def test_text_and_markdown(files, capsys) -> None:
    names = files(document({8: STEADY, 64: STEADY, 1024: STEADY}, **QUIET), document({8: SLOWER, 64: STEADY}, **QUIET))
    assert diff.main([*names, "--fail-above", "10%"]) == 1
    text = capsys.readouterr().out.splitlines()
    assert text[0] == f"# before: {names[0]}: shmcoll 0.1.0, Some CPU, 2 cores, 2026-01-02"
    assert text[2] == f"# only in {names[0]}: 1 case"
    assert text[-1] == "# 1 slower, 0 faster, 1 same; 1 slower by more than 10%"
    assert diff.main([*names, "--fail-above", "10%", "--markdown"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1 slower, 0 faster, 1 same; 1 slower by more than 10%"
    table = [line for line in lines if line.startswith("|")]
    assert [line.count("|") for line in table] == [12] * 4
    assert table[1] == "|" + " --- |" * 11
    assert "**slower, FAILED**" in table[2] and "**" not in table[3]


@pytest.mark.parametrize("words", [["--fail-above", "much"], ["--fail-above", "-5%"]])
def test_a_percentage_is_needed(files, capsys, words) -> None:
    with pytest.raises(SystemExit) as end:
        diff.main([*files(document({8: STEADY}), document({8: STEADY})), *words])
    assert end.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
