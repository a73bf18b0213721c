"""Survivors of a failure agree on who they are, whoever dies meanwhile, and go on."""

import os
import random
import re
import signal
import time

import numpy as np
import pytest

from shmcoll.errors import CollectiveTimeout, RankFailed
from tests.support import switches
from tests.support.waiting import until


def go_on(comm, wanted: int) -> list:
    """Call collectives until so many ranks are left, shrinking after each failure."""
    ranks_of = [comm.ranks]
    while True:
        try:
            while comm.size > wanted:
                comm.all_reduce(np.ones(100_000))
            total = comm.all_reduce(np.array([comm._local_rank.rank]))[0]
            return [*ranks_of, int(total)]
        except RankFailed:
            comm = comm.shrink()
            ranks_of.append(comm.ranks)


def lose(ranks, seed: int, n: int, losses: int) -> None:
    """Kill ranks at random instants; those who are left agree, each time, and on the right ones in the end."""
    draw = random.Random(seed)
    victims = draw.sample(range(n), losses)
    job = ranks.start(n, go_on, n - losses, timeout=20)
    # who dies before it joins is missed by nobody but a launcher, and there is none here
    job.until(lambda: all(map(job.sequence, range(n))), "all have joined")
    for victim in victims:
        time.sleep(draw.random() * 0.02)
        os.kill(job.pids[victim], signal.SIGKILL)
    left = [rank for rank in range(n) if rank not in victims]
    told = [outcome for outcome in job.finish() if outcome.rank in left]
    for outcome in told:
        assert outcome.error is None, outcome.traceback
        assert outcome.value[-2:] == [left, sum(left)]


@pytest.mark.parametrize("losses", [1, 2, 3])
def test_survivors_go_on(ranks, seed, losses):
    lose(ranks, seed, 4, losses)


@pytest.mark.stress
def test_survivors_go_on_after_two_hundred_failures(ranks, seed):
    for instant in range(200):
        lose(ranks, seed + instant, 5, 1 + instant % 4)


def part_of_it(comm) -> list:
    """A subgroup in an order of its own loses its second rank; the world goes on without it, too."""
    group = comm.split(0 if comm.rank < 3 else None, key=-comm.rank)
    comm.barrier()  # a failure of a member of the parent ends a split that is under way
    if comm.rank == 1:
        os._exit(7)
    told = []
    if group:
        with pytest.raises(RankFailed):
            group.barrier()
        left = group.shrink()
        told = [left.ranks, int(left.all_reduce(np.array([comm.rank]))[0])]
        left.close()
    with pytest.raises(RankFailed):
        comm.barrier()
    return [*told, comm.shrink().ranks]


def test_groups_shrink_each_for_itself(ranks):
    told = ranks.start(4, part_of_it).finish()
    assert [t.value for t in told] == [[[2, 0], 2, [0, 2, 3]], None, [[2, 0], 2, [0, 2, 3]], [[0, 2, 3]]]


def too_early(comm) -> str:
    with pytest.raises(ValueError, match="no rank has failed") as caught:
        comm.shrink()
    comm.barrier()
    return str(caught.value)


def test_a_group_that_works_is_not_shrunk(ranks):
    assert (
        ranks(2, too_early)[1] == "shrink on rank 1: no rank has failed; use split or subgroup for a part of the ranks"
    )


def one_is_absent(comm, board) -> list[str]:
    comm.timeout = 0.5
    if comm.rank == 0:
        comm.abort("enough")
        until(lambda: board[0])
        return []
    with pytest.raises(RankFailed):
        comm.barrier()
    with pytest.raises(CollectiveTimeout) as caught:
        comm.shrink()
    board[0] = 1
    return [str(caught.value), *caught.value.__notes__]


def test_who_does_not_call_it_is_named(ranks, board):
    told, where = ranks(2, one_is_absent, board)[1]
    late = "rank 0 lives and has not called shrink; all survivors must"
    assert told == f"shrink on rank 1: timed out after 0.5 s; {late}"
    assert re.search(r"^ +0 +\d+ .*\n(.* in (_poll|until)\n)*.* in one_is_absent$", where, re.MULTILINE)


def one_has_closed_it(comm, closer: int, board) -> list:
    """A group loses its last rank; one of the survivors closes it instead of shrinking it."""
    group = comm.split(0)
    comm.barrier()  # a failure of a member of the parent ends a split that is under way
    if comm.rank == 3:
        os._exit(7)
    with pytest.raises(RankFailed):
        group.barrier()
    if comm.rank == closer:
        group.close()
        until(lambda: board[:3].sum() == 2)  # it lives on
        return []
    until(lambda: switches.has_closed(group, closer))
    try:
        left = group.shrink()
        return [left.ranks, int(left.all_reduce(np.array([comm.rank]))[0])]
    finally:
        board[comm.rank] = 1


@pytest.mark.parametrize("closer", [0, 1, 2])
def test_who_has_closed_the_group_is_neither_awaited_nor_taken_along(ranks, board, closer):
    """Whether it would have decided, or belonged to the group that another decides upon."""
    left = [rank for rank in range(3) if rank != closer]
    told = ranks.start(4, one_has_closed_it, closer, board, timeout=5).finish()
    for outcome in told[:3]:
        assert outcome.error is None, outcome.traceback
        assert outcome.value == ([] if outcome.rank == closer else [left, sum(left)])


def late(comm, board) -> list:
    """Rank 0 calls shrink when rank 1 has waited for it in vain, and tries again."""
    with pytest.raises(RankFailed):
        if comm.rank == 0:
            comm.abort("enough")
        comm.barrier()
    if comm.rank == 1:
        comm.timeout = 0.2
        for _ in range(2):
            with pytest.raises(CollectiveTimeout):
                comm.shrink()
        comm.timeout = 10
        board[0] = 1
    until(lambda: board[0])
    told = []
    for _ in range(2):  # the next one is another group, for all of them
        group = comm.shrink()
        told.append((group.ranks, int(group.all_reduce(np.array([1]))[0])))
    return told


def test_it_can_be_tried_again_after_a_timeout(ranks, board):
    assert ranks(2, late, board, timeout=10) == [[([0, 1], 2)] * 2] * 2
