"""Messages within a node, in shared memory, and between nodes, by MPI: one order, one list of receives."""

import pytest

from tests.nodes import started


@pytest.mark.parametrize("layout", ["2x2", pytest.param("cyclic", marks=pytest.mark.slow)])
def test_both_ways_keep_what_messages_promise(tmp_path, layout):
    job = str(started.ROOT / "tests/nodes/messages_job.py")
    done = started.run(tmp_path, job, layout, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert started.results(tmp_path, 4) == ["ok"] * 4


@pytest.mark.parametrize("transport", ["own", "tcp", "ucx"])
def test_messages_between_nodes_over_each_transport(tmp_path, transport):
    """What an MPI keeps back, splits or cancels is different in each."""
    transports = started.TRANSPORTS[started.kind_of_mpi()]
    if transport not in transports:
        pytest.skip("a transport of MPICH")
    job = str(started.ROOT / "tests/nodes/far_messages_job.py")
    done = started.run(tmp_path, job, "2x2", str(tmp_path), **transports[transport])
    assert done.returncode == 0, done.stdout + done.stderr
    assert started.results(tmp_path, 4) == ["ok"] * 4
