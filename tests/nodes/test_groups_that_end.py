"""Over nodes: blocking and asynchronous calls together, names of ranks, groups that end or are not made."""

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


def test_a_rank_that_is_interrupted_while_a_group_is_made_is_named_on_all_nodes(tmp_path):
    job = str(started.ROOT / "tests/nodes/making_job.py")
    done = started.run(tmp_path, job, "2x2", str(tmp_path), "41")
    assert done.returncode == 0, done.stderr
    for told in zip(*started.results(tmp_path, 4), strict=True):
        victim, outcomes = told[0][0], [outcome for _, outcome in told]
        others = [outcome for rank, outcome in enumerate(outcomes) if rank != victim]
        if outcomes[victim] != "interrupted":  # there are fewer instants on that rank
            assert outcomes == ["made"] * 4
        else:
            assert all(f"rank {victim} " in other for other in others), outcomes
