"""shrink over nodes: the survivors of a failure go on, where the MPI does."""

import pytest

from tests.nodes import started
from tests.nodes.shrinking_job import CASES

JOB = str(started.ROOT / "tests/nodes/shrinking_job.py")
ULFM = ["--with-ft", "ulfm"]


@pytest.mark.parametrize("case", CASES)
def test_the_survivors_go_on(tmp_path, case):
    if started.kind_of_mpi() != "openmpi":
        pytest.skip("MPICH's mpiexec kills all ranks as soon as one has died")
    done = started.run(tmp_path, JOB, "2x2", case, str(tmp_path), options=ULFM)
    lost, late = CASES[case]
    left = [rank for rank in range(4) if rank not in (*lost, *late)]
    assert all((tmp_path / f"rank{rank}.json").exists() for rank in left), done.stdout + done.stderr
    told = [started.result(tmp_path, rank) for rank in left]
    assert [one["rank"] for one in told] == list(range(len(left)))
    assert [one["numbers"] for one in told] == [left] * len(left)
    nodes = [[left.index(rank) for rank in node if rank in left] for node in ([0, 1], [2, 3])]
    assert [one["nodes"] for one in told] == [[node for node in nodes if node]] * len(left)
    assert {one["sum"] for one in told} == {len(left) * sum(range(100_000))}
    assert [one["half"] for one in told] == [[len(left[i % 2 :: 2])] for i in range(len(left))]


def test_groups_of_some_ranks_are_shrunk_by_their_own_survivors(tmp_path):
    if started.kind_of_mpi() != "openmpi":
        pytest.skip("MPICH's mpiexec kills all ranks as soon as one has died")
    done = started.run(tmp_path, JOB, "2x2", "groups", str(tmp_path), options=ULFM)
    assert all((tmp_path / f"rank{rank}.json").exists() for rank in range(3)), done.stdout + done.stderr
    told = [started.result(tmp_path, rank) for rank in range(3)]
    assert [one["column"] for one in told] == [[0, 2], [1], [0, 2]]
    assert [one["twin"] for one in told] == [[0, 1, 2]] * 3
    assert [one["rest"] for one in told] == [[0, 1], [0, 1], [2]]
    assert [one["other"] for one in told] == [[0, 2], [1], [0, 2]]
    assert all("this communicator is closed" in one["closed"] for one in told)


def test_a_survivor_that_does_not_shrink_is_a_timeout_of_the_others(tmp_path):
    """And their programs end, though MPI still waits for it."""
    if started.kind_of_mpi() != "openmpi":
        pytest.skip("MPICH's mpiexec kills all ranks as soon as one has died")
    done = started.run(tmp_path, JOB, "2x2", "alone", str(tmp_path), options=ULFM)
    told = [started.result(tmp_path, rank) for rank in (0, 1, 2)]
    assert [one["kind"] for one in told] == ["CollectiveTimeout", "", "CollectiveTimeout"], done.stderr
    assert "call shrink again" in told[0]["text"]


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        (
            [],
            "NotImplementedError",
            "does not go on after a rank has died. Use Open MPI and mpiexec --with-ft ulfm",
        ),
        (ULFM, "ValueError", "no rank has failed"),
    ],
)
def test_shrink_is_refused_where_it_cannot_be(tmp_path, options, kind, text):
    if options and started.kind_of_mpi() != "openmpi":
        pytest.skip("an option of Open MPI")
    done = started.run(tmp_path, JOB, "2x2", "refused", str(tmp_path), options=options)
    assert done.returncode == 0, done.stderr
    for one in started.results(tmp_path, 4):
        assert one["kind"] == kind
        assert text in one["text"]
