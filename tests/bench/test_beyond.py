"""`shmbench beyond`: quick runs for real, table and JSON, never times; and what is told when something is wrong."""

import json

import numpy as np
import pytest
from shmbench import features
from shmbench.commands import beyond
from shmbench.timing.ab_timing import Contest, Row, Settings
from shmbench.timing.entries import collective

from tests.support.benched import shmbench

pytestmark = pytest.mark.slow

QUICK = Settings(rounds=2, quick=True)
ROWS = {
    "plan": 1,
    "jit": 3,
    "all_reduce": 4,
    "moves": 4,
    "shared_moves": 10,
    "shared_results": 5,
    "messages": 5,
    "halves": 2,
    "ranks": 3,
    "threads": 3,
}


@pytest.mark.parametrize(
    "groups",
    [
        ("plan", "jit", "all_reduce", "moves"),
        ("shared_moves", "shared_results", "messages", "halves", "ranks", "threads"),
    ],
)
def test_a_quick_run(groups, tmp_path):
    check(shmbench("beyond", *groups, "--quick", "--rounds", 1, "--json", tmp_path / "all.json"), groups, tmp_path)


def check(done, groups, folder):
    """The table and the document say the same."""
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    document = json.loads((folder / "all.json").read_text())
    rows = document["beyond"]
    assert document["failed"] == {}
    assert [row["group"] for row in rows] == [group for group in groups for _ in range(ROWS[group])]
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        assert line[2:].startswith(row["what"])
        beside = f"{row['beside']}: {beyond._amount(row['beside_figure'])}" if row["beside"] else "-"
        ratio = f"{row['ratio']:.2f}" if row["beside"] else "-"
        told = f"{beyond._amount(row['figure'])} {beside} {ratio} -"
        assert " ".join(line[2 + len(row["what"]) :].split()) == told
        assert row["figure"] > 0 and row["wrong"] == 0 and row["asked"] is None
        assert row["ratio"] == (row["figure"] / row["beside_figure"] if row["beside"] else None)
        assert len(row["rounds"]) == 1
        assert len(row["beside_rounds"]) == (1 if row["beside"] else 0)
    assert "# Out of bounds values : 0 OK\n" in done.stdout
    assert [line.split(":")[0] for line in done.stderr.splitlines() if line.startswith("measuring")] == [
        f"measuring {group}" for group in groups
    ]
    return document


def test_every_group_has_its_file_and_is_tested():
    assert list(ROWS) == list(beyond.GROUPS)
    assert all(features.find(name) for name in beyond.GROUPS)


def test_a_group_that_fails_is_told_and_the_others_go_on(monkeypatch, capsys, tmp_path):
    def find(name):
        def rows(settings):
            if name == "moves":
                raise MemoryError("no room\nat all")
            return [Row(f"of {name}", [settings.rounds * 1e-6], asked=1e-6)]

        return rows

    monkeypatch.setattr(features, "find", find)
    arguments = ["plan", "moves", "ranks", "--rounds", "3", "--json", str(tmp_path / "all.json")]
    assert beyond.main(arguments) == 1
    out = capsys.readouterr().out.splitlines()
    assert [line.split() for line in out if not line.startswith("#")] == [
        ["of", name, "3.00", "us", "-", "-", "1.00", "us", "short"] for name in ("plan", "ranks")
    ]
    assert out[-1] == "# failed: moves: MemoryError: no room at all"
    document = json.loads((tmp_path / "all.json").read_text())
    assert document["failed"] == {"moves": "MemoryError: no room at all"}
    assert [row["what"] for row in document["beyond"]] == ["of plan", "of ranks"]


def test_wrong_results_are_told(monkeypatch, capsys):
    monkeypatch.setattr(features, "find", lambda name: lambda settings: [Row("this", [1.0], wrong=7)])
    assert beyond.main(["plan"]) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[4].endswith("7 wrong")
    assert "# Out of bounds values : 7 FAILED\n" in out


def test_what_falls_short():
    """A ratio where something stands beside, a figure elsewhere; nothing where nothing is asked."""
    assert not Row("", [9.0, 1.0, 2.0], asked=2.0).falls_short
    assert Row("", [9.0, 1.0, 2.1], asked=2.0).falls_short
    assert Row("", [3.0], "", [2.0], asked=1.4).falls_short
    assert not Row("", [3.0], "", [2.0], asked=1.5).falls_short
    assert not Row("", [3.0]).falls_short
    assert Row("", [3.0], wrong=1).falls_short


@pytest.mark.parametrize(("seconds", "told"), [(3.456e-7, "0.35 us"), (0.0234, "23.40 ms"), (1.2, "1.20 s")])
def test_amounts(seconds, told):
    assert beyond._amount(seconds) == told


class Alone:
    """A communicator of one rank."""

    rank, size = 0, 1

    def barrier(self):
        pass

    def all_reduce(self, x, op="sum", out=None):
        return x if out is None else np.copyto(out, x)


@pytest.mark.parametrize("in_place", [False, True])
def test_results_are_compared(in_place):
    """Right ones, one element wrong in the last call, and one call that writes nothing."""
    comm = Alone()

    def spoiling(x, out):
        def loop(n):
            np.copyto(out, x)
            out[5] += 1

        return loop

    def entry(loop=None):
        return collective(comm, "all_reduce", 4000, in_place=in_place, loop=loop)

    right, spoilt, idle = Contest(comm, QUICK).run([entry(), entry(spoiling), entry(lambda x, out: lambda n: None)])
    assert [one.wrong for one in (right, spoilt)] == [0, QUICK.rounds]
    assert idle.wrong == (0 if in_place else QUICK.rounds * 1000)
    assert len(right.seconds) == QUICK.rounds


def test_seconds_that_an_entry_counts_itself_are_taken():
    class Counting:
        def refill(self, seq):
            self.seq = seq

        def run(self, n):
            return 7.0 * n * self.seq

        def mistakes(self, seq):
            return int(seq != self.seq)

    (outcome,) = Contest(Alone(), QUICK).run([Counting()], n=3)
    assert outcome.seconds == [14.0, 21.0]
    assert outcome.wrong == 0


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("plans", "unknown group 'plans'"),
        ("--rounds 0", "'0' is no whole number of at least 1"),
        ("--json no/such/folder/x.json", "there is no folder no/such/folder"),
        ("--what", "--what"),
    ],
)
def test_mistakes_are_told_in_one_line(line, told, capsys):
    with pytest.raises(SystemExit) as caught:
        beyond.main(line.split())
    assert caught.value.code == 2
    complaint = capsys.readouterr().err
    assert told in complaint
    assert complaint.count("\n") == 1
