"""Jobs over a network: nodes with sockets between them, and host names, process numbers and /dev/shm of their own."""

import pytest

from tests.nodes import started
from tests.support.suite import judge
from tests.support.suites import SUITES

SUITES_JOB = str(started.ROOT / "tests/nodes/suites_job.py")
GROUPS_JOB = str(started.ROOT / "tests/nodes/groups_job.py")
JOINING_JOB = str(started.ROOT / "tests/nodes/joining_job.py")


def conform(folder, network, seed, layout, names):
    done = started.run(folder, SUITES_JOB, layout, str(seed), str(folder), *names, network=network)
    assert done.returncode == 0, done.stderr
    told = started.results(folder, len(started.LAYOUTS[layout]))
    for name in names:
        judge([tuple(rank[name]) for rank in told], at_least=SUITES[name].at_least)


def test_some_results_over_a_network(tmp_path, network, seed):
    conform(tmp_path, network, seed, "2x2", ["all_reduce", "all_to_all_v"])


@pytest.mark.any_mpi
@pytest.mark.slow
@pytest.mark.parametrize("layout", ["2x2", *(pytest.param(one, marks=pytest.mark.stress) for one in ("2+1", "cyclic"))])
def test_results_over_a_network_are_those_of_numpy(tmp_path, network, seed, layout):
    conform(tmp_path, network, seed, layout, list(SUITES))


def test_groups_messages_and_asynchronous_calls_where_mpiexec_is_on_one_of_the_nodes(tmp_path, network):
    """MPICH's mpiexec starts ranks of its own node in another way, with other variables."""
    network.addresses[1] = network.own_address
    done = started.run(tmp_path, GROUPS_JOB, "2x2", str(tmp_path), "2", network=network)
    assert done.returncode == 0, done.stderr
    assert started.results(tmp_path, 4) == [["ok", 2]] * 4
    assert network.shared_names(0) == []


def test_a_node_without_room_is_named_on_all_ranks(tmp_path, network):
    """Its /dev/shm is full; that of the other node is not."""
    done = started.run(tmp_path, JOINING_JOB, "2x2", "full", str(tmp_path), network=network)
    told = started.results(tmp_path, 4)
    assert [kind for kind, _ in told] == ["ShmcollError"] * 4, done.stderr
    assert all("(node b) cannot join: ArenaError: " in text for _, text in told), told
