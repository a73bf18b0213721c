"""What the ranks of all nodes see when one rank fails, ends, or calls something else."""

import json
import re

import pytest
from shmrun.commands import verdict

from tests.nodes import started
from tests.nodes.failures import JOB, RANKS, outcomes
from tests.nodes.failures_job import CULPRIT


@pytest.mark.any_mpi
@pytest.mark.parametrize("case", ["other_operation", "other_shape"])
def test_a_mismatch_is_the_same_error_on_all_ranks(tmp_path, case):
    told = outcomes(tmp_path, case)
    assert {one["kind"] for one in told} == {one["again"] for one in told} == {"CollectiveMismatch"}
    assert len({one["text"] for one in told}) == 1
    assert "rank 3 (node b) called" in told[0]["text"]
    assert "failures_job.py:" in told[0]["text"]


def test_an_exception_of_one_rank_is_raised_on_the_ranks_of_all_nodes(tmp_path):
    told = outcomes(tmp_path, "raises", [rank for rank in range(RANKS) if rank != CULPRIT])
    for one in told:
        assert (one["kind"], one["rank"], one["operation"]) == ("RankFailed", CULPRIT, "all_reduce")
        assert one["text"].startswith("rank 3 (node b) raised KeyError: 'a bad sample' at ")
        assert re.search(r"failures_job\.py:\d+; its last call, all_reduce #4, had returned$", one["text"])


def test_the_end_of_one_program_is_raised_on_the_ranks_of_all_nodes(tmp_path):
    told = outcomes(tmp_path, "exits", [rank for rank in range(RANKS) if rank != CULPRIT])
    for one in told:
        assert (one["kind"], one["rank"], one["operation"]) == ("RankFailed", CULPRIT, "all_reduce")
        assert one["text"].startswith("rank 3 (node b) left the job without taking part: its program has ended")


@pytest.mark.parametrize("transport", ["own", "tcp"])
def test_ranks_may_end_when_those_of_another_node_have(tmp_path, transport):
    """Over TCP, MPICH tries forever to send to a process that has ended."""
    variables = started.TRANSPORTS[started.kind_of_mpi()][transport]
    done = started.run(tmp_path, JOB, "2x2", "ends_late", str(tmp_path), **variables)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_exception_is_shown_when_ranks_of_another_node_have_ended(tmp_path):
    done = started.run(
        tmp_path, JOB, "2x2", "raises_late", str(tmp_path), **started.TRANSPORTS[started.kind_of_mpi()]["tcp"]
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "KeyError: 'too late'" in done.stderr


@pytest.mark.parametrize("case", ["aborts", "in_message"])
def test_abort_reaches_collectives_and_messages_of_all_nodes(tmp_path, case):
    told = outcomes(tmp_path, case)
    assert [(one["kind"], one["rank"]) for one in told] == [("RankFailed", CULPRIT)] * RANKS
    assert all("rank 3 (node b) aborted: no more" in one["text"] for one in told)


def test_after_a_mistake_of_one_rank_the_group_goes_on(tmp_path):
    assert [one["kind"] for one in outcomes(tmp_path, "bad_argument")] == [""] * RANKS


def test_survivors_learn_of_a_killed_rank(tmp_path):
    """Where the launcher leaves them the time: MPICH's kills all ranks at once."""
    if started.kind_of_mpi() != "openmpi":
        pytest.skip("MPICH's mpiexec kills all ranks as soon as one has died")
    told = outcomes(tmp_path, "killed", [rank for rank in range(RANKS) if rank != CULPRIT])
    assert [(one["kind"], one["rank"]) for one in told] == [("RankFailed", CULPRIT)] * 3
    died = "rank 3 (node b) died: its process has ended; its last call, all_reduce #4, had returned"
    assert [one["text"] for one in told] == [died] * 3


def test_each_node_keeps_what_its_ranks_did(tmp_path, capsys):
    """SHMCOLL_DUMP: the ranks have their numbers in the job, and the nodes that cannot be seen are named."""
    kept = tmp_path / "kept"
    outcomes(tmp_path, "late", SHMCOLL_DUMP=str(kept))
    documents = sorted((json.loads(path.read_text()) for path in kept.glob("*/job.json")), key=lambda one: one["node"])
    assert [one["node"] for one in documents] == ["a", "b"]
    assert len({one["nonce"] for one in documents}) == 1
    assert [[rank["rank"] for rank in one["ranks"]] for one in documents] == [[0, 1], [2, 3]]
    assert [one["unseen"] for one in documents] == [[{"node": "b", "ranks": 2}], [{"node": "a", "ranks": 2}]]
    assert all(one["cause"]["kind"] == "timeout" for one in documents)
    assert all("no answer from node b" in one["verdict"] for one in documents)
    assert all("in all_reduce #5" in one["ranks"][0]["place"] for one in documents)
    assert {path.name for path in kept.glob("*/rank_*")} == {"rank_0", "rank_1", "rank_2", "rank_3"}
    assert verdict.show(str(kept), verbose=True) == 0
    assert capsys.readouterr().out.count("no answer from node b") == 2


def test_the_node_of_a_rank_that_raises_keeps_that(tmp_path):
    kept = tmp_path / "kept"
    outcomes(tmp_path, "raises", [rank for rank in range(RANKS) if rank != CULPRIT], SHMCOLL_DUMP=str(kept))
    found = [json.loads(path.read_text()) for path in kept.glob("*/job.json")]
    (cause,) = [one["cause"] for one in found if one["cause"]["kind"] == "exception"]
    assert cause["rank"] == CULPRIT and cause["text"].startswith("rank 3 raised KeyError: 'a bad sample'")
