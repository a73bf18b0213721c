"""How a rank died where no rank can say it: the watcher of its node does.

That is so under MPICH's mpiexec, which kills all the others at once, and where all ranks of a node are killed, or none
of them is in a call.
"""

import re

import pytest

from tests.nodes import started
from tests.support import leaks

JOB = str(started.ROOT / "tests/nodes/failures_job.py")


@pytest.fixture
def mpich():
    if started.kind_of_mpi() != "mpich":
        pytest.skip("the ranks of other launchers have the time to say it themselves")


def said(folder, case: str, layout: str = "2x2") -> list[str]:
    """Run a case; return what watchers have printed. Nothing may be left."""
    before = leaks.snapshot()
    done = started.run(folder, JOB, layout, case, str(folder))
    assert leaks.left_since(before) == []
    return [line for line in done.stderr.splitlines() if line.startswith("shmcoll: rank ")]


@pytest.fixture
def openmpi():
    if started.kind_of_mpi() != "openmpi":
        pytest.skip("MPICH's mpiexec leaves the other ranks no time")


def check_that_one_is_named(lines: list[str]) -> None:
    text = r"shmcoll: rank [23] \(node b\) died: killed by SIGKILL; its last call, all_reduce #4, had returned"
    assert sum(re.fullmatch(text, line) is not None for line in lines) == 1, lines


def said_of_node(node: str, lines: list[str]) -> list[str]:
    """Return the lines about a node. Those of others are about ranks that mpiexec has killed: on a busy machine their
    watchers may speak, too."""
    others = [line for line in lines if f" (node {node}) " not in line]
    assert all(" died: killed by SIGKILL; " in line for line in others), lines
    return [line for line in lines if line not in others]


@pytest.mark.stress
@pytest.mark.usefixtures("mpich")
def test_of_a_node_whose_ranks_are_all_killed_one_is_named(tmp_path):
    """On a busy machine the watcher of the other node may speak, too: mpiexec kills its ranks in the same moment."""
    check_that_one_is_named(said(tmp_path, "node_killed"))


@pytest.mark.usefixtures("openmpi")
def test_of_a_node_whose_ranks_are_all_killed_one_is_named_where_others_have_time(tmp_path):
    """However far apart they are killed: nobody of this node can report it."""
    check_that_one_is_named(said(tmp_path, "node_killed_slowly"))


@pytest.mark.stress
@pytest.mark.usefixtures("openmpi")
@pytest.mark.parametrize("case", ["node_killed", "killed_while_others_compute"])
def test_each_of_many_deaths_that_no_rank_can_report_is_named(tmp_path, case):
    jobs = 10
    for _ in range(jobs):
        check_that_one_is_named(said(tmp_path, case))
    print(f"figure: {jobs} kills that no rank can report under Open MPI's mpiexec ({case}): {jobs} named, each once")


@pytest.mark.stress
@pytest.mark.usefixtures("openmpi")
def test_where_other_ranks_of_the_node_can_report_a_death_the_watcher_does_not(tmp_path):
    assert said(tmp_path, "killed") == []


@pytest.mark.usefixtures("mpich")
def test_a_killed_rank_is_named_once_with_its_node_and_its_last_call(tmp_path):
    assert said_of_node("b", said(tmp_path, "killed")) == [
        "shmcoll: rank 3 (node b) died: killed by SIGKILL; its last call, all_reduce #4, had returned"
    ]


@pytest.mark.stress
@pytest.mark.usefixtures("mpich")
@pytest.mark.parametrize(
    ("case", "layout", "line"),
    [
        ("crashes", "2x2", "rank 3 (node b) died: killed by SIGSEGV; its last call, all_reduce #4, had returned"),
        (
            "leaves",
            "2x2",
            "rank 3 (node b) died: its process has ended with exit code 3; its last call, all_reduce #4, ",
        ),
        ("killed_within", "2x2", "rank 3 (node b) died: killed by SIGKILL; it was in all_reduce #5"),
        ("leader_killed", "2x2", "rank 0 (node a) died: killed by SIGKILL; its last call, all_reduce #4, had returned"),
        ("leader_killed", "3 nodes", "rank 0 (node a) died: killed by SIGKILL; its last call, all_reduce #4, had "),
    ],
)
def test_however_a_rank_dies_it_is_named_once(tmp_path, case, layout, line):
    (node,) = re.findall(r"\(node (.)\)", line)
    (found,) = said_of_node(node, said(tmp_path, case, layout))
    assert found.startswith(f"shmcoll: {line}")


@pytest.mark.stress
@pytest.mark.parametrize("case", ["bad_argument", "raises", "aborts"])
def test_a_rank_that_has_left_or_raised_is_not_named(tmp_path, case):
    assert said(tmp_path, case) == []


@pytest.mark.stress
@pytest.mark.usefixtures("mpich")
def test_each_of_many_deaths_is_named_once(tmp_path):
    """The order of events decides, and not how soon the watcher gets a core."""
    jobs = 20
    for job in range(jobs):
        case, layout, rank, node = ("killed", "cyclic", 3, "b") if job % 2 else ("leader_killed", "3 nodes", 0, "a")
        (line,) = said_of_node(node, said(tmp_path, case, layout))
        assert line.startswith(f"shmcoll: rank {rank} (node "), line
    print(f"figure: {jobs} kills under MPICH's mpiexec: {jobs} named, each once")
