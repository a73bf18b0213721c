"""Blocking and asynchronous calls together, the names of ranks in a group, and many groups that end, over nodes."""

from tests.nodes import started


def test_both_forms_of_a_call_are_one_call_and_groups_that_have_ended_leave_nothing(tmp_path):
    job = str(started.ROOT / "tests/nodes/forms_job.py")
    done = started.run(tmp_path, job, "2x2", str(tmp_path), "100")
    assert done.returncode == 0, done.stderr
    for rank, (wrong, text, ended) in enumerate(started.results(tmp_path, 4)):
        assert wrong == []
        assert ended == 100
        if rank in (1, 2):
            assert "rank 0 (world rank 1, node a) called all_reduce" in text
            assert "rank 1 (world rank 2, node b) called all_reduce" in text
