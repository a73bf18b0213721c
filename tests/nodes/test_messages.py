"""Messages within a node, in shared memory, and between nodes, by MPI: one order, one list of receives."""

import pytest

from tests.nodes import started


@pytest.mark.parametrize("layout", ["2x2", pytest.param("cyclic", marks=pytest.mark.slow)])
def test_both_ways_keep_what_messages_promise(tmp_path, layout):
    job = str(started.ROOT / "tests/nodes/messages_job.py")
    done = started.run(tmp_path, job, layout, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert started.results(tmp_path, 4) == ["ok"] * 4
