"""What the ranks of all nodes see when one is late, waits for ever, or is interrupted."""

import re

import pytest

from tests.nodes.failures import outcomes
from tests.nodes.failures_job import CULPRIT


@pytest.mark.parametrize("case", ["late", pytest.param("stopped", marks=pytest.mark.slow)])
def test_a_late_rank_is_a_timeout_that_names_its_node_on_all_ranks(tmp_path, case):
    """On its own node, the error names the rank, too."""
    told = outcomes(tmp_path, case)
    assert {one["kind"] for one in told} == {"CollectiveTimeout"}
    assert all("no answer from node b (ranks 2, 3)" in one["text"] for one in told)
    late = "rank 3 (node b) has not arrived at all_reduce #5; its last call, all_reduce #4, had returned"
    assert [late in one["text"] for one in told[:3]] == [False, False, True]
    for node in (told[:2], told[2:]):  # one rank of each node shows where its ranks are
        (note,) = [note for one in node for note in one["notes"]]
        assert re.search(r"^ +[02] +\d+ +[ab] .* in all_reduce #5\b", note, re.M), note
        assert "failures_job.py:" in note
        assert "Rank 0 (node a) keeps" not in note


@pytest.mark.any_mpi
def test_a_message_that_does_not_come_from_the_same_node_is_a_timeout_on_all_ranks(tmp_path):
    told = outcomes(tmp_path, "late_message")
    assert {one["kind"] for one in told} == {"CollectiveTimeout"}
    assert told[2]["missing"] == [CULPRIT] and told[2]["operation"] == "recv"
    assert re.match(
        r"recv\(source=3, tag=5\) on rank 2 at .*failures_job\.py:\d+: timed out after 2 s; rank 3 has", told[2]["text"]
    )


@pytest.mark.any_mpi
def test_ranks_of_a_node_that_wait_for_one_another_are_a_deadlock(tmp_path):
    told = outcomes(tmp_path, "circle")
    assert [one["kind"] for one in told] == ["RankFailed", "RankFailed", "Deadlock", "Deadlock"]
    assert [one["missing"] for one in told[2:]] == [[3], [2]]
    assert all("ranks 2, 3 wait for one another: rank 2 in recv(source=3, tag=5)" in one["text"] for one in told)


def test_a_rank_that_waits_for_a_message_of_its_node_learns_of_a_failure_elsewhere(tmp_path):
    told = outcomes(tmp_path, "raises_in_messages", [0, 1, 2])
    assert [(one["kind"], one["rank"], one["operation"]) for one in told] == [("RankFailed", CULPRIT, "recv")] * 3
    assert all(one["text"].startswith("rank 3 (node b) raised KeyError: 'a bad sample' at ") for one in told)
    assert max(told[1]["seconds"], told[2]["seconds"]) < 15  # of a limit of 30


@pytest.mark.parametrize(
    ("case", "call"),
    [
        ("interrupted_in_message", "recv"),
        ("interrupted_in_bytes", "recv"),
        ("interrupted_in_head", "recv"),
        ("interrupted_in_send", "send"),
        ("interrupted_while_others_send", "recv"),
    ],
)
def test_an_interrupt_in_a_message_ends_the_group_on_all_nodes(tmp_path, case, call):
    told = outcomes(tmp_path, case)
    assert [one["kind"] for one in told] == ["RankFailed"] * 3 + ["KeyboardInterrupt"]
    assert all(f"rank 3 (node b) was interrupted in {call}" in one["text"] for one in told[:3])


@pytest.mark.parametrize("case", ["interrupted", "interrupted_in_shared"])
def test_an_interrupt_in_a_call_ends_the_group_on_all_nodes(tmp_path, case):
    told = outcomes(tmp_path, case)
    assert [one["kind"] for one in told] == ["RankFailed"] * 3 + ["KeyboardInterrupt"]
    assert all("rank 3 (node b) was interrupted in" in one["text"] for one in told[:3])
