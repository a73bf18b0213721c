"""Jobs that Slurm's srun starts, on one node and on two."""

import subprocess
import sys

import pytest

from tests.nodes import started
from tests.nodes.failures_job import CULPRIT
from tests.support.suite import judge
from tests.support.suites import SUITES

TESTS = started.ROOT / "tests/nodes"


@pytest.fixture
def srun(tmp_path, network, slurm):
    """`srun(nodes, script, argument...)` runs a job to its end. mpi: what srun offers the MPI of its ranks."""
    if started.kind_of_mpi() != "mpich":
        pytest.skip("the Open MPI of Python's package does not know the PMIx of Debian's Slurm")

    def run(nodes, script, *arguments, mpi="pmi2", **variables):
        program = [sys.executable, str(TESTS / script), *arguments]
        done = subprocess.run(
            slurm.command(nodes, program, mpi),
            capture_output=True,
            text=True,
            timeout=started.DEADLINE,
            env=started.environment(network, **variables),
            cwd=tmp_path,
            check=False,
        )
        assert [network.shared_names(node) for node in (0, 1)] == [[], []]
        return done

    return run


@pytest.mark.parametrize(
    ("nodes", "mpi"), [("aa", "none"), ("aa", "pmi2"), ("aabb", "pmi2"), ("abab", "pmi2"), ("aab", "pmi2")]
)
def test_results_under_srun_are_those_of_numpy(tmp_path, srun, seed, nodes, mpi):
    names = ["all_reduce", "all_to_all_v"]
    done = srun(nodes, "suites_job.py", str(seed), str(tmp_path), *names, mpi=mpi)
    assert done.returncode == 0, done.stderr
    told = started.results(tmp_path, len(nodes))
    for name in names:
        judge([tuple(rank[name]) for rank in told], at_least=SUITES[name].at_least)


def test_groups_messages_and_asynchronous_calls_under_srun(tmp_path, srun):
    done = srun("aabb", "groups_job.py", str(tmp_path), "2")
    assert done.returncode == 0, done.stderr
    assert started.results(tmp_path, 4) == [["ok", 2]] * 4


def test_without_a_way_for_ranks_to_find_each_other_each_says_which_option_of_srun_is_missing(srun):
    done = srun("ab", "suites_job.py", "0", "nowhere", "all_reduce", mpi="none")
    assert done.returncode == 1
    assert done.stderr.count("ShmcollError: srun has started 2 ranks, and the MPI of mpi4py (") == 2, done.stderr
    assert done.stderr.count("srun --mpi=pmi2") == 2


def survivors(folder):
    return [started.result(folder, rank) for rank in range(4) if rank != CULPRIT]


def test_survivors_name_a_rank_that_was_killed_and_the_job_ends(tmp_path, srun):
    """srun kills nobody, so every other rank can tell; MPI would wait for the dead one at its end."""
    done = srun("aabb", "failures_job.py", "killed", str(tmp_path), SHMCOLL_TIMEOUT="5")
    assert "task 3: Killed" in done.stderr
    died = "rank 3 (node b) died: its process has ended; its last call, all_reduce #4, had returned"
    assert [(one["kind"], one["text"]) for one in survivors(tmp_path)] == [("RankFailed", died)] * 3


def test_a_job_ends_when_a_whole_node_has_been_killed(tmp_path, srun):
    """A rank that wants to tell a dead rank of another node, to which MPI has no connection, ends as well."""
    srun("aabb", "failures_job.py", "node_killed", str(tmp_path), SHMCOLL_TIMEOUT="2")
    for rank in (0, 1):
        one = started.result(tmp_path, rank)
        assert one["kind"] == "CollectiveTimeout", one
        assert "no answer from node b (ranks 2, 3)" in one["text"]


def test_a_job_ends_when_a_rank_was_killed_that_nobody_waits_for(tmp_path, srun):
    srun("aabb", "failures_job.py", "killed_at_last", str(tmp_path), SHMCOLL_TIMEOUT="2")
    assert [one["kind"] for one in survivors(tmp_path)] == [""] * 3
