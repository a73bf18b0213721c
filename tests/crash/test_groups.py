"""A rank is killed while groups are made, used and closed: whoever needs it learns so, the others make new groups."""

import os
import random
import select
import signal
import time

import numpy as np
import pytest

from shmcoll.engine.protocol import wait
from shmcoll.errors import RankFailed
from tests.support import switches
from tests.support.patience import PATIENCE
from tests.support.waiting import comes_true, until, until_asleep

RANKS = 4


def churn(comm, board, seed: int, victim: int) -> list:
    """Make, use and close groups until the dead rank is needed, which is soon; then go on among the living."""
    draw = random.Random(seed)  # the same on all ranks: they agree on which groups there are
    board[1 + comm.rank] = 1
    try:
        while True:
            everybody, part = comm.subgroup(range(RANKS)), comm.split(draw.choice((comm.rank, comm.rank % 2, 0)))
            for group in (part, everybody):
                assert group.all_reduce(np.ones(3))[0] == group.size
                if draw.random() < 0.7:
                    group.close()
    except RankFailed as error:
        late = (time.monotonic_ns() - int(board[0])) / 1e9
        living = comm.subgroup([rank for rank in range(RANKS) if rank != victim])
        return [late, str(error), int(living.all_reduce(np.array([comm.rank]))[0])]


def kill_while_grouping(ranks, board, allowed, seed: int) -> None:
    draw = random.Random(seed)
    victim = draw.randrange(RANKS)
    job = ranks.start(RANKS, churn, board, seed, victim, timeout=20)
    job.until(lambda: board[1 : 1 + RANKS].all(), "all have begun")
    time.sleep(draw.random() * 0.05)
    board[0] = time.monotonic_ns()
    os.kill(job.pids[victim], signal.SIGKILL)
    outcomes = job.finish()
    for outcome in outcomes:
        if outcome.rank != victim:
            assert outcome.value is not None, outcome.traceback
            late, text, total = outcome.value
            assert late < allowed(1), text
            assert "rank" in text
            assert total == sum(range(RANKS)) - victim


def wait_for_who_knows(comm, board, members: int, everywhere: bool, call: str) -> str | None:
    """Rank 0 dies. The last rank loses it in a pair, and does not come to the larger group, where the others wait."""
    last = members - 1
    larger = comm if everywhere else comm.subgroup(range(members))
    pair = comm.subgroup([0, last]) if comm.rank in (0, last) else None
    larger.barrier()
    board[1 + comm.rank] = 1
    with pytest.raises(RankFailed) as error:
        if pair:
            while True:
                pair.barrier()
        comes_true(lambda: board[0])
        begun = time.monotonic()
        if call == "barrier":
            larger.barrier()
        elif call == "recv":
            larger.recv(source=last)
        else:
            larger.recv(source=last, async_op=True).wait()
    late = time.monotonic() - begun if pair is None else 0
    if pair:
        until(lambda: board[31 : 30 + last].all())
        return str(error.value)
    board[30 + comm.rank] = 1
    return f"{late < 2} {error.value}"


#: each call in groups of each kind, by the launcher's word or without it in turn; the long forms try both
ELSEWHERE = [
    pytest.param(members, everywhere, call, tell, marks=() if (i + j) % 2 == tell else pytest.mark.stress)
    for i, (members, everywhere) in enumerate(((3, False), (4, True), (12, False)))
    for j, call in enumerate(("barrier", "recv", "posted"))
    for tell in (False, True)
]


@pytest.mark.parametrize(("members", "everywhere", "call", "tell"), ELSEWHERE)
def test_nobody_waits_for_who_has_lost_a_third_rank_elsewhere(ranks, board, members, everywhere, call, tell):
    job = ranks.start(members, wait_for_who_knows, board, members, everywhere, call, tell=tell, timeout=15)
    job.until(lambda: board[1 : 1 + members].all(), "all have begun")
    os.kill(job.pids[0], signal.SIGKILL)
    board[0] = 1
    for outcome in job.finish()[1:]:
        assert outcome.value is not None, outcome.traceback
        assert outcome.rank == members - 1 or outcome.value.startswith("True ")
        assert "rank 0 " in outcome.value


@pytest.mark.parametrize("instant", range(6))
def test_a_kill_while_groups_come_and_go(ranks, board, allowed, seed, instant):
    kill_while_grouping(ranks, board, allowed, seed + instant)


@pytest.mark.stress
def test_a_hundred_kills_while_groups_come_and_go(ranks, board, allowed, seed):
    for instant in range(100):
        board[:] = 0
        kill_while_grouping(ranks, board, allowed, seed + 1000 + instant)


def receive_from_who_is_left(comm, board) -> int:
    """Rank 2 has closed the group before it fails, so the group does not mind."""
    group = comm.subgroup(range(3))
    group.barrier()
    if comm.rank == 2:
        group.close()
        os._exit(3)
    if comm.rank == 1:
        until(lambda: board[0])
        until_asleep(group, 0)
        group.send(np.array([5]), 0)
        return 0
    board[0] = 1
    return group.recv()[0].item()


@pytest.mark.parametrize("tell", [False, True])
def test_who_has_closed_the_group_may_fail(ranks, board, tell):
    outcomes = ranks.outcomes(3, receive_from_who_is_left, board, tell=tell)
    assert outcomes[0].value == 5, outcomes[0].traceback


def look_while_one_leaves(comm, board) -> int:
    """Rank 2 ends properly while rank 0 looks whether its process has."""
    comm.barrier()
    if comm.rank == 0:
        pid = switches.pid_of(comm, 2)
        pidfd = os.pidfd_open(pid)

        def look(_ctx: int, peer: int) -> int:
            if peer != 2:
                return 0
            board[0] = 1
            has_ended = bool(select.select([pidfd], [], [], PATIENCE)[0])
            board[1] = 1
            return int(has_ended)

        wait.process_has_ended = look
        return comm.recv(source=1)[0].item()
    until(lambda: board[0])
    if comm.rank == 1:
        until(lambda: board[1])
        comm.send(np.array([5]), 0)
    return 0


def test_who_ends_properly_has_not_failed(ranks, board):
    outcomes = ranks.outcomes(
        3, look_while_one_leaves, board, tell=True, environment=switches.fault(0, "stop", 1000000)
    )
    assert outcomes[0].value == 5, outcomes[0].traceback


def wait_for_who_has_left(comm) -> str:
    """Rank 0 dies, and rank 2 leaves because of that before rank 1 waits for it."""
    group = comm.subgroup(range(3))
    group.barrier()
    if comm.rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if comm.rank == 2:
        return ""
    until(lambda: switches.is_recorded_by_launcher(comm, 0))
    until(lambda: switches.has_left(comm, 2))
    with pytest.raises(RankFailed) as error:
        group.recv(source=2)
    return str(error.value)


def test_who_has_failed_is_named_and_not_who_left_because_of_that(ranks):
    outcome = ranks.outcomes(3, wait_for_who_has_left, tell=True)[1]
    assert outcome.value is not None, outcome.traceback
    assert outcome.value.endswith("rank 0 was killed by signal 9")
