"""What is left when a rank, a node or a link of a network is lost, and what the survivors are told.

How a job ends where mpiexec cannot reach a node is mpiexec's: it waits for the node. These tests end it themselves.
"""

import contextlib
import os
import random
import re
import signal
import subprocess
import time

import psutil
import pytest

from tests.nodes import started
from tests.nodes.network import Network
from tests.support import kills
from tests.support.waiting import until

JOB = str(started.ROOT / "tests/nodes/network_job.py")
RANKS = 4
LIMIT = 2.0  # seconds of one wait
TO_END = 15.0  # seconds from the error of a rank to the end of its process, on a busy machine


class Running:
    """A job over a network that makes calls until one fails."""

    def __init__(self, folder, network, seed, case, options):
        self.folder, self.network = folder, network
        self._output = folder / "output"
        with self._output.open("w") as output:
            self.process = subprocess.Popen(
                started.command(JOB, "aabb", [case, str(folder), str(seed), str(LIMIT)], options, network),
                env=started.environment(network),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                start_new_session=True,
            )

    def wait_until_within(self, seconds=60.0):
        """Wait until all ranks make calls."""
        self.wait_for([f"at{rank}" for rank in range(RANKS)], seconds)

    def ranks(self, node):
        """Return the processes of ours on a node: ranks, and watchers."""
        return [pid for pid, line in self.network.processes(node).items() if "network_job" in line or "watcher" in line]

    def kill(self, rank):
        """Kill a rank, by the variable that mpiexec has given it."""
        lines = {pid: line for node in (0, 1) for pid, line in self.network.processes(node).items()}
        for pid in [pid for pid, line in lines.items() if "network_job" in line]:
            with contextlib.suppress(psutil.Error):
                variables = psutil.Process(pid).environ()
                if str(rank) in (variables.get("PMI_RANK"), variables.get("OMPI_COMM_WORLD_RANK")):
                    os.kill(pid, signal.SIGKILL)
                    return True
        return False

    def told_by_now(self):
        """Return what the ranks have raised, by rank."""
        return {rank: started.result(self.folder, rank) for rank in range(RANKS) if self._has_raised(rank)}

    def _has_raised(self, rank):
        return (self.folder / f"rank{rank}.json").exists()

    def told(self, ranks):
        """Return what these ranks have raised, when they have."""
        self.wait_for([f"rank{rank}.json" for rank in ranks], 2 * LIMIT + TO_END)
        return [started.result(self.folder, rank) for rank in ranks]

    def wait_for(self, names, seconds=kills.DEADLINE):
        """Wait until the ranks have made these files."""
        until(lambda: all((self.folder / name).exists() for name in names), f"not all of {names} are there", seconds)

    def said(self):
        return self._output.read_text()

    def nothing_is_left(self, *nodes):
        for node in nodes:
            until(lambda node=node: not self.ranks(node), f"ranks live on, on node {node}", TO_END)
            assert self.network.shared_names(node) == []

    def end(self):
        """End mpiexec, which waits for a node that it cannot reach. What it has started ends with the network."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def start(tmp_path, network, seed):
    made = []

    def run(case="calls", *, options=()):
        made.append(Running(tmp_path, network, seed, case, options))
        return made[-1]

    yield run
    for job in made:
        job.end()


def names_node(text, node):
    """Whether a timeout says that this node, or a rank of it, is what a rank has waited for."""
    return re.search(rf"\bnode {node}\b", text.partition(" timed out after ")[2]) is not None


@pytest.mark.parametrize(
    ("at", "case"),
    [("switch", "calls"), ("switch", "short"), pytest.param("node", "calls", marks=pytest.mark.stress)],
)
def test_a_link_that_goes_down_is_a_timeout_that_names_the_node(start, network, at, case):
    """In the case "short", most ranks have never sent each other anything: MPI has no connection between them."""
    job = start(case)
    job.wait_until_within()
    network.cut(1, at=at)
    told = job.told(range(RANKS))
    assert [one["kind"] for one in told] == ["CollectiveTimeout"] * RANKS, told
    for rank, one in enumerate(told):
        assert names_node(one["text"], "ab"[rank < 2]), one
        assert LIMIT <= one["seconds"] < 2 * LIMIT + 2, one
    job.nothing_is_left(0, 1)


def cut_within(job, network, folder):
    """Slow the network down, and cut it when half of the bytes are on their way; return what the ranks have raised."""
    job.wait_until_within()
    network.limit(20_000_000)  # bits a second: the message takes 7 s
    (folder / "slow").touch()
    job.wait_for(["sent"])
    time.sleep(0.5)  # its head travels
    network.cut(1)
    (folder / "cut").touch()
    told = job.told(range(RANKS))
    assert [one["kind"] for one in told] == ["CollectiveTimeout"] * RANKS, told
    job.nothing_is_left(0, 1)
    return told


@pytest.mark.any_mpi
def test_a_message_whose_bytes_do_not_come_is_a_timeout(start, network, tmp_path):
    told = cut_within(start("half_a_message"), network, tmp_path)
    assert "rank 3 (node b) has not sent all of its message" in told[0]["text"]


def test_a_root_whose_bytes_nobody_takes_names_the_node(start, network, tmp_path):
    told = cut_within(start("half_a_broadcast"), network, tmp_path)
    for rank, one in enumerate(told):
        assert names_node(one["text"], "ab"[rank < 2]), one


def check_verdicts(job, lost):
    """Check that each rank that has raised says who was lost. Open MPI itself ends ranks whose connection has broken;
    then the others of their node may name these."""
    for rank, one in job.told_by_now().items():
        ended_by_mpi = f"rank {rank ^ 1} (node {'ab'[rank // 2]}) died: its process has ended"
        by_mpi = one["text"].startswith(ended_by_mpi) and "An error occurred in Socket closed" in job.said()
        assert lost in one["text"] or by_mpi, one


def test_a_rank_that_is_killed_is_named_with_its_node(start, network):
    """By the survivors if mpiexec leaves them the time, else by the watcher of its node, or by Open MPI's mpiexec. Open
    MPI may end a rank whose connection has broken, and then all ranks, before that."""
    job = start()
    job.wait_until_within()
    assert job.kill(3)
    assert job.process.wait(kills.DEADLINE) != 0
    job.nothing_is_left(0, 1)
    by_mpi = ("process rank 3 with PID", "An error occurred in Socket closed")
    ended_by_mpi = started.kind_of_mpi() == "openmpi" and any(one in job.said() for one in by_mpi)
    assert "rank 3 (node b) died: " in job.said() or ended_by_mpi
    check_verdicts(job, "rank 3 (node b)")
    assert {one["kind"] for one in job.told_by_now().values()} <= {"RankFailed"}


def test_a_node_that_is_lost_leaves_nothing_on_the_other(start, network):
    job = start()
    job.wait_until_within()
    network.lose(1)
    job.process.wait(kills.DEADLINE)  # the exit code of Open MPI's mpiexec may be 0
    job.nothing_is_left(0)
    told = {rank: one["text"] for rank, one in job.told_by_now().items()}
    # Open MPI's mpiexec kills the ranks of the node that is left, one after the other
    killed = "(node a) died" if started.kind_of_mpi() == "openmpi" else "node b"
    assert all("node b" in text or killed in text for text in told.values()), told


@pytest.mark.stress
def test_losses_at_random_instants(tmp_path, seed):
    """A rank or a node is killed, from the first instant of a job on, or a link goes down when all ranks are within."""
    draw, times = random.Random(seed), 40
    for number in range(times):
        what = draw.choice(["rank", "node", "switch", "link"])
        instant, node, rank = draw.random(), draw.randrange(2), draw.randrange(RANKS)
        print(f"seed {seed}: loss {number}: {what} {rank if what == 'rank' else node}, at {instant:.4f}")
        folder = tmp_path / str(number)
        folder.mkdir()
        network = Network(folder)
        job = Running(folder, network, draw.randrange(1 << 30), "calls", ())
        try:
            _lose_at(job, what, instant, node, rank)
        finally:
            job.end()
            network.close()
    print(f"figure: {times} ranks, nodes and links lost at random instants: no process and no name left")


def _lose_at(job, what, instant, node, rank):
    if what in ("switch", "link"):
        job.wait_until_within()
        time.sleep(instant)
        job.network.cut(node, at="switch" if what == "switch" else "node")
        for here, one in enumerate(job.told(range(RANKS))):
            assert one["kind"] == "CollectiveTimeout", one
            assert names_node(one["text"], "ab"[here < 2]), one
            assert one["seconds"] < 2 * LIMIT + 2, one
        job.nothing_is_left(0, 1)
        return
    time.sleep(4 * instant)
    if what == "node":
        job.network.lose(node)
    else:
        until(lambda: job.kill(rank), f"there is no rank {rank}", kills.DEADLINE)
    job.process.wait(kills.DEADLINE)
    job.nothing_is_left(*({0, 1} - {node} if what == "node" else {0, 1}))
    lost = f"node {'ab'[node]}" if what == "node" else f"rank {rank} (node {'ab'[rank // 2]})"
    check_verdicts(job, lost)
