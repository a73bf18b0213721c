"""Every schedule of small jobs over nodes in which nodes run ahead, and random ones where ranks share a node.

Equal calls have exact results, also if MPI takes no message before it is asked for. If calls differ, all ranks are told
the first one that does. Nobody waits for ever, and MPI keeps no more messages than `running_ahead.py` says.
"""

import random

import pytest

from shmcoll.engine import context as c
from tests.schedule.explorer.channels import ANY, NONE
from tests.schedule.explorer.program import Violation
from tests.schedule.explorer.scenarios_over_nodes import (
    ALONE,
    DIFFERENT,
    EQUAL,
    MOST_KEPT,
    SCENARIOS_OVER_NODES,
    SHARED,
    SHARING,
    THREE,
    TWO,
    random_job,
)
from tests.schedule.explorer.search import exhaust, sample
from tests.support import tally

RUNS = 3  # random schedules of each large job
COUNTED = ["one gather more on a node of 3", "another operation on a node of 3"]  # which takes ten times as long


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        *((name, kept) for name in EQUAL for kept in (MOST_KEPT, NONE)),
        *((name, MOST_KEPT if job.sizes == TWO else ANY) for name, job in DIFFERENT.items()),
        *((name, MOST_KEPT) for name in COUNTED),
    ],
)
def test_every_schedule(name: str, kept: int) -> None:
    report = exhaust(SCENARIOS_OVER_NODES[name].machine(kept))
    print(report.states, "states,", report.transitions, "transitions")
    tally.count("small jobs over nodes of which every schedule was tried")
    tally.count("states of these", report.states)


@pytest.mark.parametrize("name", SHARING)
def test_random_schedules_where_ranks_share_a_node(name: str, seed: int) -> None:
    sample(SCENARIOS_OVER_NODES[name].machine(), seed, runs=RUNS)


@pytest.mark.parametrize(("sizes", "jobs"), [(TWO, 10), (THREE, 5), (SHARED, 3)])
def test_random_jobs(sizes: tuple[int, ...], jobs: int, seed: int) -> None:
    """Rows of calls, some of which differ on a rank."""
    chance = random.Random(seed)
    for _ in range(jobs):
        job = random_job(sizes, chance)
        print(job)
        machine = job.machine(ANY)
        if sizes == SHARED:
            sample(machine, seed, runs=1)
        else:
            exhaust(machine)


def test_a_leader_that_finds_another_call_and_waits_alone_ends_the_job() -> None:
    report = exhaust(SCENARIOS_OVER_NODES[ALONE].machine(slices=1))
    assert report.outcomes == {(c.INTERRUPTED, c.OK)}


def test_calls_that_differ_need_an_mpi_that_takes_short_messages_at_once() -> None:
    """If it waited for their receivers, leaders of different calls would wait for each other, up to their limits."""
    with pytest.raises(Violation, match="deadlock: rank 0, rank 1 cannot go on"):
        exhaust(SCENARIOS_OVER_NODES["a barrier in the place of a call"].machine(NONE))
