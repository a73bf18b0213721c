"""`shmbench compare --door mpi`: jobs that measure in turn, which libraries are there, and the table."""

import json
import os
import sys
from pathlib import Path

import pytest
from shmbench.cli.flags import find_spec
from shmbench.commands import door, mpi_door
from shmbench.commands.door import Line
from shmbench.timing import peers
from shmbench.timing.launch import Failed
from shmbench.timing.turns import in_turn

from tests.support.benched import shmbench as run_shmbench
from tests.support.patience import PATIENCE

PROGRAM = """
import os, sys
from shmbench.timing.turns import Turns

name, log, ranks, address = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[-1]
rank = 0
for other in range(1, ranks):
    if os.fork() == 0:
        rank = other
        break
turns = Turns(address)
turns.pause()
for step in range(3):
    if name == "fails" and step == 1:
        print("ValueError: no more", file=sys.stderr)
        os._exit(3)
    with open(log, "a") as file:
        file.write(f"{step} {name}\\n")
    turns.found = {"step": step} if rank == 0 else None
    turns.pause()
"""


def jobs(names, log, ranks):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, peers.IMPORTED))}
    return {name: ([sys.executable, "-c", PROGRAM, name, str(log), str(ranks)], environment) for name in names}


def test_jobs_take_turns(tmp_path):
    """All ranks of a job have ended their turns before the next job has its turn."""
    log = tmp_path / "log"
    found = list(in_turn(jobs(["a", "b"], log, 2), 2, PATIENCE))
    assert found == [(name, {"step": step}) for step in range(3) for name in "ab"]
    assert log.read_text().splitlines() == [f"{step} {name}" for step in range(3) for name in "aabb"]


def test_a_job_that_fails_is_left_out(tmp_path):
    found = list(in_turn(jobs(["fails", "b"], tmp_path / "log", 1), 1, PATIENCE))
    failure = dict(found[2:3])["fails"]
    assert isinstance(failure, Failed) and str(failure) == "exit code 3: ValueError: no more"
    assert found[:2] + found[3:] == [("fails", {"step": 0}), *(("b", {"step": step}) for step in range(3))]


def test_a_job_that_does_not_start_is_left_out():
    ((name, failure),) = in_turn({"x": ([sys.executable, "-c", "raise KeyError(7)"], dict(os.environ))}, 1, PATIENCE)
    assert name == "x" and str(failure) == "exit code 1: KeyError: 7"


def test_the_first_folder_that_has_a_library_counts(tmp_path):
    for place in ("one/mpich", "two/mpich", "two/impi", "two/gloo"):
        (tmp_path / place / "bin").mkdir(parents=True)
        (tmp_path / place / "bin" / "mpiexec").touch()
    assert peers.of_mpi([tmp_path / "one", tmp_path / "two"]) == {
        "mpich": tmp_path / "one/mpich",
        "impi": tmp_path / "two/impi",
    }


def measured(name, size, **microseconds):
    return {"name": name, "microseconds": microseconds, "wrong": 0, "bytes": size, "calls": 1, "unit": ""}


@pytest.fixture
def found(monkeypatch):
    """Make the jobs stand-ins that find this."""

    def stand_in(*results):
        monkeypatch.setattr("shmbench.commands.door.door_complaint", lambda name: None)
        monkeypatch.setattr(mpi_door, "of_mpi", lambda: {"openmpi": Path("/o"), "mpich": Path("/m")})
        monkeypatch.setattr(Path, "glob", lambda path, _: [path / "lib/libmpi.so.12"])
        monkeypatch.setattr(mpi_door, "in_turn", lambda *_: iter(results))

    return stand_in


def rows(capsys):
    return [line.split() for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]


def test_the_ratio_is_to_the_fastest(found, capsys, tmp_path):
    found(
        ("shmcoll", measured("Allreduce", 8, native=[1.0], mpi=[2.0, 9.0, 4.0])),
        ("mpich", measured("Allreduce", 8, mpi=[8.0])),
        ("openmpi", measured("Allreduce", 8, mpi=[5.0])),
    )
    out = tmp_path / "out.json"
    assert door.main(["compare", "--door", "mpi", "--call", "Allreduce", "-J", str(out)]) == 0
    assert rows(capsys) == [["Allreduce", "8", "1.00", "4.00", "5.00", "8.00", "0.80"]]
    (call,) = json.loads(out.read_text())["calls"]
    assert call["microseconds"] == {"native": [1.0], "shmcoll": [2.0, 9.0, 4.0], "mpich": [8.0], "openmpi": [5.0]}


def test_what_fails_or_is_missing_is_told(found, capsys):
    found(
        ("shmcoll", "shmcoll 1"),
        ("shmcoll", measured("Bcast", 1024, mpi=[2.0])),
        ("mpich", Failed("exit code 1: no")),
        ("openmpi", measured("Bcast", 1024, mpi=[5.0]) | {"wrong": 3}),
    )
    assert door.main(["compare", "--door", "mpi", "--call", "Bcast"]) == 1
    out = capsys.readouterr().out
    assert "  Bcast " in out and "0.40  3 wrong\n" in out and "# shmcoll 1\n" in out
    assert "# left out: MPICH: exit code 1: no\n" in out and "# left out: Intel MPI: not installed" in out


def test_the_least_of_busy_rounds(found, capsys):
    found(("shmcoll", measured("Bcast", 8, mpi=[9.0, 2.0])), ("mpich", measured("Bcast", 8, mpi=[4.0, 7.0])))
    assert door.main(["compare", "--door", "mpi", "--least", "--call", "Bcast", "--libraries", "mpich"]) == 0
    assert rows(capsys) == [["Bcast", "8", "-", "2.00", "4.00", "0.50"]]


@pytest.mark.skipif(find_spec("mpi4py") is None, reason="mpi4py is not installed")
@pytest.mark.slow
def test_every_call_is_right():
    done = run_shmbench(
        *["compare", "--door", "mpi", "-n", "3", "--quick", "--least", "--rounds", "1", "--libraries", "shmcoll"],
    )
    assert "left out" not in done.stdout and "# Out of bounds values : 0 OK\n" in done.stdout


def test_a_line_of_one_library_has_no_ratio():
    given = type("", (), {"least": False, "there": ["shmcoll"]})
    assert mpi_door.text(Line("Barrier", {"shmcoll": [1.0]}, 0, 0), given).split() == ["Barrier", "-", "-", "1.00", "-"]
