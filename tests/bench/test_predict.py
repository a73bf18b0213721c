"""`shmbench predict`: formulas with the figures of a comparison in them."""

import json
from pathlib import Path

import pytest
from shmbench.commands.predict import FORMULAS, RANKS, SIZES, main

pytestmark = pytest.mark.slow

KEPT = Path(__file__).parents[2] / "docs" / "measurements" / "compare-2-ranks.json"


def table(collective: str, times: dict[int, float]) -> dict:
    """As `shmbench compare` keeps it; times in us."""
    kept = json.loads(KEPT.read_text())["results"]
    form = next(r for r in kept if r["library"] == "shmcoll" and r["collective"] == "all_reduce" and r["table"])
    row = form["table"]["rows"][0]
    rows = [row | {"size": size, "out_of_place": row["out_of_place"] | {"time": time}} for size, time in times.items()]
    return form | {"collective": collective, "table": form["table"] | {"collective": collective, "rows": rows}}


def predict(tmp_path: Path, capsys: pytest.CaptureFixture[str], *tables: dict, options: tuple[str, ...] = ()) -> list:
    file = tmp_path / "compare.json"
    file.write_text(json.dumps({"format": 1, "results": list(tables)}))
    assert main([str(file), *options]) == 0
    return [line.split() for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]


LIMITS = (
    table("memcpy", {8: 0.5, 16 << 10: 1.5, 64 << 20: 0.5 + (64 << 20) / (16 << 10)}),
    table("add", {8: 0.5, 16 << 10: 2.5, 64 << 20: 0.5 + 2 * (64 << 20) / (16 << 10)}),
)


def test_measured_beside_the_formula(tmp_path, capsys):
    """1 us to copy 16 KiB, 2 us to add them, 3 us a sync: 3 us for 8 bytes, flat; for 16 KiB round the ring 9 for the
    syncs, 2 for copies, 2 for sums."""
    tables = (*LIMITS, table("barrier", {0: 3.0}), table("all_reduce", {8: 4.5, 16 << 10: 26.0}))
    lines = predict(tmp_path, capsys, *tables)
    assert lines[0] == ["all_reduce", "1.50", "2.00"]


def test_more_ranks(tmp_path, capsys):
    options = ("--look", "0.5", "--far", "4", "--cores", "8", "--bandwidth", "1", "--cache", "1")
    lines = predict(tmp_path, capsys, *LIMITS, table("barrier", {0: 3.0}), options=options)
    assert lines[0] == ["barrier", "3.00", "12.00", "33.00"]  # 3 + 6 looks of 1.5; 12 + 14 of them
    assert lines[1][0] == "barrier_in_two_levels"
    longest = next(line for line in lines if line[:2] == ["all_reduce", "64M"])
    assert [float(time) for time in longest[3:]] == pytest.approx([8 * 2 * (64 << 20) / 1e3, 16 * (64 << 20) / 1e3])
    assert len(lines) == 2 + (len(FORMULAS) - 2) * len(SIZES)
    assert len(longest) == 2 + len([n for n in RANKS if n <= 16])


def test_what_has_been_kept(capsys):
    """The formulas are within a factor of 3 of every time in the committed comparison."""
    assert main([str(KEPT)]) == 0
    checked = capsys.readouterr().out.split("# predicted")[0]
    ratios = [float(word) for line in checked.splitlines() if not line.startswith("#") for word in line.split()[1:]]
    assert len(ratios) > 10
    assert all(1 / 3 < ratio < 3 for ratio in ratios)


def test_files_that_have_not_what_is_needed(tmp_path, capsys):
    (tmp_path / "other.json").write_text(json.dumps({"format": 1, "results": list(LIMITS)}))
    assert main([str(tmp_path / "other.json")]) == 2
    assert "has no barrier of 2 ranks" in capsys.readouterr().err
    assert main([str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err
