"""`--bind-to`: on machines made up of files, and on this one."""

import json
import os

import pytest
from shmrun.start import binding


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine of two nodes, two cores on each, two hardware threads on each core; core 7 is not for us."""
    for core in range(8):
        folder = tmp_path / f"cpu/cpu{core}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{core % 4},{core % 4 + 4}\n")
    for node, cores in enumerate(("0-1,4-5", "2-3,6-7")):
        (tmp_path / f"node/node{node}").mkdir(parents=True)
        (tmp_path / f"node/node{node}/cpulist").write_text(f"{cores}\n")
    (tmp_path / "node/node2").mkdir()  # a node of memory alone
    (tmp_path / "node/node2/cpulist").write_text("\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(7)))
    return tmp_path


def test_cores_in_turn_and_second_threads_last(machine):
    got = [binding.cores("core", rank, 9, system=machine) for rank in range(9)]
    assert got == [{0}, {1}, {2}, {3}, {4}, {5}, {6}, {0}, {1}]


def test_a_rank_with_threads_has_as_many_cores(machine):
    got = [binding.cores("core", rank, 3, 3, machine) for rank in range(3)]
    assert got == [{0, 1, 2}, {3, 4, 5}, {6, 0, 1}]
    assert [binding.cores("core", rank, 3, 0, machine) for rank in range(3)] == [{0, 1}, {2, 3}, {4, 5}]  # auto


@pytest.mark.parametrize(
    ("ranks", "nodes"), [(1, "0"), (2, "01"), (3, "001"), (4, "0011"), (5, "00011")]
)  # as many on each as possible
def test_neighbours_share_a_node(machine, ranks, nodes):
    cores = {"0": {0, 1, 4, 5}, "1": {2, 3, 6}}
    assert [binding.cores("numa", rank, ranks, system=machine) for rank in range(ranks)] == [
        cores[node] for node in nodes
    ]


def test_a_kernel_without_nodes(machine, tmp_path):
    assert binding.cores("numa", 0, 2, system=tmp_path / "nowhere") == set(range(7))
    assert binding.cores("core", 1, 2, system=tmp_path / "nowhere") == {1}
    assert binding.cores("none", 1, 2, system=machine) == set(range(7))


TELL = """#!/usr/bin/env python3
import json, os
os.write(1, (json.dumps([int(os.environ["RANK"]), sorted(os.sched_getaffinity(0))]) + "\\n").encode())
"""


@pytest.mark.parametrize("way", ["fork", "--fresh", "executable"])
def test_ranks_are_bound(shmrun, way):
    script = shmrun.write(TELL, "job" if way == "executable" else "job.py")
    usable = os.sched_getaffinity(0)
    ranks = len(usable) + 1
    told = shmrun("-n", ranks, *["--fresh"][: way == "--fresh"], "--bind-to", "core", f"./{script}")
    got = dict(map(json.loads, told.stdout.splitlines()))
    assert got[0] == got[ranks - 1]
    assert sorted(got[rank] for rank in range(ranks - 1)) == [[core] for core in sorted(usable)]


def test_ranks_are_bound_to_nodes(shmrun):
    told = shmrun("-n", 2, "--bind-to", "numa", shmrun.write(TELL))
    got = dict(map(json.loads, told.stdout.splitlines()))
    assert got == {rank: sorted(binding.cores("numa", rank, 2)) for rank in (0, 1)}


def test_threads_need_cores(shmrun):
    """More than a rank has are refused; more than all ranks have together are not, and it is said."""
    script, usable = shmrun.write(TELL), len(os.sched_getaffinity(0))
    done = shmrun("-n", 1, "--threads", usable + 1, script)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"--threads {usable + 1}: a rank may use " in done.stderr
    if usable > 1:
        done = shmrun("-n", usable, "--threads", 2, script)
        assert done.returncode == 0
        assert f"--threads 2: {usable} ranks of so many threads share {usable} cores" in done.stderr
    done = shmrun("-n", 1, "--threads", "few", script)
    assert (done.returncode, done.stdout) == (2, "")
    assert "'few' is not a number of threads; give one from 1 to 64, or auto" in done.stderr
