"""`shmbench compare --nodes`: its options and its table. tests/nodes/ has a run of it."""

import json

import pytest
from shmbench.commands import nodes_compare

FOUND = {
    "format": 1,
    "nodes": 2,
    "ranks": 4,
    "rounds": 3,
    "mpi": "MPICH 5.0.2",
    "shmcoll": "0.1.0",
    "machine": {"processor": "Some CPU", "cores": 2},
}


def line(name, size, flat, ours, wrong=0):
    return {"collective": name, "size": size, "flat": flat, "shmcoll": ours, "wrong": wrong}


@pytest.fixture
def measured(monkeypatch):
    """Make the job a stand-in, which finds these lines."""

    def stand_in(*lines):
        monkeypatch.setattr(nodes_compare, "find_mpich", lambda: "mpiexec")
        monkeypatch.setattr(nodes_compare, "measure", lambda *_: {**FOUND, "lines": list(lines)} if lines else None)

    return stand_in


def test_the_ratio_is_that_of_the_medians(measured, capsys, tmp_path):
    measured(line("barrier", 0, [4e-6, 1e-6, 2e-6], [9e-6, 1e-6, 1e-6]), line("all_reduce", 65536, [2e-3], [1e-3]))
    assert nodes_compare.main(["--nodes", "2", "--json", str(tmp_path / "found.json")]) == 0
    rows = [text.split() for text in capsys.readouterr().out.splitlines() if not text.startswith("#")]
    assert rows == [["barrier", "-", "2.00", "1.00", "0.50"], ["all_reduce", "64K", "2000.0", "1000.0", "0.50"]]
    assert json.loads((tmp_path / "found.json").read_text())["lines"][0]["flat"] == [4e-6, 1e-6, 2e-6]


def test_a_wrong_result_fails(measured, capsys):
    measured(line("barrier", 0, [1e-6], [1e-6]), line("all_reduce", 8, [1e-6], [1e-6], wrong=3))
    assert nodes_compare.main(["--nodes", "2"]) == 1
    assert "3 FAILED" in capsys.readouterr().out


def test_a_job_that_fails_fails(measured):
    measured()
    assert nodes_compare.main(["--nodes", "2"]) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--nodes", "1"], "'1' is no whole number of at least 2"),
        (["--nodes", "2", "-n", "3"], "-n 3 ranks cannot be divided among --nodes 2"),
        (["--nodes", "2", "al_reduce"], "unknown collective 'al_reduce'"),
        (["--nodes", "2", "--json", "/nowhere/x.json"], "there is no folder /nowhere"),
    ],
)
def test_wrong_options_are_refused_in_one_line(measured, capsys, arguments, told):
    measured(line("barrier", 0, [1e-6], [1e-6]))
    with pytest.raises(SystemExit) as ended:
        nodes_compare.main(arguments)
    text = capsys.readouterr().err
    assert ended.value.code == 2
    assert told in text
    assert text.count("\n") == 1


def test_without_mpich_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(nodes_compare, "find_mpich", lambda: None)
    with pytest.raises(SystemExit):
        nodes_compare.main(["--nodes", "2"])
    assert "pip install 'shmcoll[nodes]' mpich" in capsys.readouterr().err


def test_messages_between_the_nodes_go_through_tcp(monkeypatch):
    monkeypatch.setenv("SHMCOLL_NODE", "a")  # which would override MPI's nodes
    environment = nodes_compare._environment(3)
    assert environment["MPIR_CVAR_NUM_CLIQUES"] == "3"
    assert environment["FI_PROVIDER"] == "tcp"
    assert "SHMCOLL_NODE" not in environment
