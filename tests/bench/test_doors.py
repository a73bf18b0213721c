"""`shmbench --door`: every door's operations for real, what counts as a difference, and what is printed."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import shmbench
from shmbench import doors
from shmbench.cli.options import DOORS
from shmbench.commands import door
from shmbench.commands.door import ASKED, Line
from shmbench.doors import Call

import shmcoll
from shmcoll.engine.system import tracebacks
from shmcoll.mindspore import Tensor, ops
from shmcoll.mindspore.communication import comm_func
from shmcoll.mindspore.mint.distributed import distributed
from shmcoll.nki import collectives
from tests.support.benched import shmbench as run_shmbench

SMALL = sorted(set(DOORS) - {"torch"})  # which needs torch: see tests/torch/test_door.py


def slow(*case):
    return pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.parametrize(("name", "first"), [slow("mindspore", "ops.AllReduce"), ("nki", "all_reduce")])
def test_a_door_for_real(name, first, tmp_path):
    """The table and the document say the same; one line for each operation that is asked for."""
    out = tmp_path / "out.json"
    done = run_shmbench("--door", name, "--rounds", 2, "--call", first, "-J", out)
    assert done.stdout.startswith(f"# {name}, 1 rank: microseconds of an operation of 8 bytes, medians of 2 rounds")
    assert done.stdout.endswith("# Out of bounds values : 0 OK\n")
    rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    document = json.loads(out.read_text())
    assert document["options"] == {"door": name, "call": first, "ranks": 1, "rounds": 2}
    assert [row[0] for row in rows] == [first]
    for (what, *figures), call in zip(rows, document["calls"], strict=True):
        assert what == call["name"] and call["wrong"] == 0
        differences = [theirs - ours for ours, theirs in zip(*call["microseconds"].values(), strict=True)]
        assert len(differences) == 2 and call["added"] == pytest.approx(np.median(differences))
        assert call["asked"] == ASKED * call["calls"] and int(figures[3]) == call["calls"]
        assert call["short"] == (call["added"] > call["asked"]) == ("short" in figures)
        assert float(figures[2]) == pytest.approx(call["added"], rel=0.01, abs=0.0051)


def test_every_door_has_its_file():
    """Options load no numpy, so they keep a list of their own."""
    files = {path.stem for path in Path(doors.__file__).parent.glob("*.py")} - {"__init__"}
    parts = {name.partition("_")[0] for name in files}  # one may be in parts, such as torch_steps
    assert parts == {*DOORS, *door.WITH_RIVALS}
    assert all(doors.find(name) for name in DOORS)
    assert Path(shmbench.__file__).parent == Path(doors.__file__).parents[1]


def called(door) -> int:
    """Make a call. Return how many functions of the front ends it calls; a `wait` is native, too."""
    home = str(Path(shmcoll.__file__).parent)
    found = []

    def note(frame, event, _argument):
        caller = frame.f_back
        while caller.f_code.co_filename == tracebacks.__file__:  # a wrapper of what a user calls
            caller = caller.f_back
        if event == "call" and not caller.f_code.co_filename.startswith(home):
            found.append((frame.f_code.co_filename, frame.f_code.co_name))

    sys.setprofile(note)
    try:
        door()
    finally:
        sys.setprofile(None)
    rooms = tuple(f"{home}/{room}/" for room in SMALL)
    return sum(file.startswith(rooms) and name not in ("wait", "asnumpy") for file, name in found)


def test_every_operation_has_a_line(ranks):
    """And gives what the native call gives, on both ranks, and says how many calls of the door it makes. A function of
    `ops.communication` is that of `mint.distributed` behind a switch: one of them is enough."""

    def lines(comm) -> dict[str, tuple[int, int]]:
        made = [call for name in SMALL for call in doors.find(name)(comm)]
        return {call.name: (call.differences(), called(call.door) - call.calls) for call in made}

    found, other = ranks(2, lines)
    assert found == other == dict.fromkeys(found, (0, 0))
    measured = set(re.findall(r"\w+", " ".join(found))) | {"P2POp"}
    wanted = {*ops.__all__, *distributed.COLLECTIVES, *comm_func.__all__, *collectives.__all__}
    names = {"ReduceOp", "operations", "NkiInstruction", "ReplicaGroup", "rg_partition_op"}
    assert {name.removeprefix("all_to_all_v_").removeprefix("all_gather_v_") for name in wanted - names - measured} == {
        "trigger",
        "collective_permute_implicit_current_processing_rank_id",
    }


def returned(native, theirs):
    return Call("", lambda: native, lambda: theirs).differences()


def test_results_that_are_returned_are_compared():
    assert returned(np.arange(4), Tensor(np.arange(4))) == 0
    assert returned(np.arange(4), Tensor(np.array([0, 1, 3, 2]))) == 2
    assert returned([np.ones(2), np.ones(2)], (Tensor(np.ones(2)), Tensor(np.zeros(2)))) == 2
    assert returned(np.ones(4), np.ones(5)) == 5  # another shape


@pytest.mark.parametrize("lazy", ["native", "door"])
def test_outputs_must_be_written_by_both(lazy):
    ours, theirs = np.zeros(3), [Tensor(np.zeros(3))]

    def write(array):
        array[...] = 7

    calls = {"native": lambda: write(ours), "door": lambda: write(theirs[0])}
    assert Call("", **calls, outputs=([ours], theirs)).differences() == 0
    assert Call("", **(calls | {lazy: lambda: None}), outputs=([ours], theirs)).differences() == 3
    assert Call("", lambda: None, lambda: None, outputs=([ours], theirs)).differences() == 3


def test_what_is_printed_of_lines_that_fall_short_or_are_wrong(monkeypatch, capsys):
    lines = [
        Line("slow", {"native": [1.0, 1.0, 2.0], "door": [2.0, 3.0, 9.0]}, 0),
        Line("quick", {"native": [1.0], "door": [1.0 + ASKED]}, 0),
        Line("two calls", {"native": [1.0], "door": [1.0 + 2 * ASKED]}, 0, calls=2),
        Line("slow calls", {"native": [1.0], "door": [1.1 + 2 * ASKED]}, 0, calls=2),
        Line("wrong", {"native": [1.0], "door": [1.0]}, 4),
    ]
    monkeypatch.setattr(shmcoll, "run", lambda *_: [lines])
    assert door.main(["--door", "nki"]) == 1
    out = capsys.readouterr().out
    assert [line.split() for line in out.splitlines() if not line.startswith("#")] == [
        ["slow", "1.00", "3.00", "2.00", "1", "short"],  # the median of 1, 2 and 7 is added
        ["quick", "1.00", "2.50", "1.50", "1"],
        ["two", "calls", "1.00", "4.00", "3.00", "2"],
        ["slow", "calls", "1.00", "4.10", "3.10", "2", "short"],
        ["wrong", "1.00", "1.00", "0.00", "1", "4", "wrong"],
    ]
    assert out.endswith("# Out of bounds values : 4 FAILED\n")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--door nkl", "unknown door 'nkl': choose one of mindspore, nki"),
        ("--door", "expected one argument"),
        ("--door nki -n 0", "'0' is no whole number of at least 1"),
        ("--door nki -J no/such/folder/x.json", "there is no folder no/such/folder"),
    ],
)
def test_mistakes_are_one_line(line, told, capsys):
    with pytest.raises(SystemExit) as caught:
        door.main(line.split())
    assert caught.value.code == 2
    complaint = capsys.readouterr().err
    assert told in complaint and complaint.count("\n") == 1


def test_it_starts_its_own_ranks(monkeypatch, capsys):
    monkeypatch.setenv("SHMCOLL_ARENA", "3:4096")
    with pytest.raises(SystemExit) as caught:
        door.main(["--door", "nki"])
    assert caught.value.code == 2
    assert "it starts its own ranks (-n N): leave shmrun out" in capsys.readouterr().err


@pytest.mark.slow
def test_doors_of_two_ranks():
    for name in SMALL:
        done = run_shmbench("--door", name, "-n", 2, "--rounds", 1, "--call", "reduce")
        assert "# Out of bounds values : 0 OK\n" in done.stdout


@pytest.mark.parametrize("words", [[], ["compare"]])
def test_a_door_whose_library_is_missing(words, monkeypatch, capsys):
    monkeypatch.setattr("shmbench.cli.flags.find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="2"):
        door.main([*words, "--door", "torch"])
    assert "--door torch needs torch: pip install 'shmcoll[torch]' (see shmbench " in capsys.readouterr().err
