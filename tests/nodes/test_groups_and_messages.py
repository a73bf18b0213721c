"""Groups within and across nodes, messages with ANY, asynchronous calls, plans, and what works within a node only."""

import pytest

from tests.nodes import started


@pytest.mark.parametrize(("layout", "leaders"), [("2x2", 2), ("cyclic", 1)])
def test_groups_messages_and_asynchronous_calls(tmp_path, layout, leaders):
    job = str(started.ROOT / "tests/nodes/groups_job.py")
    done = started.run(tmp_path, job, layout, str(tmp_path), str(leaders))
    assert done.returncode == 0, done.stderr
    assert started.results(tmp_path, 4) == [["ok", leaders]] * 4
