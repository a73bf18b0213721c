"""Who keeps the others waiting, across groups: the sentence below the table."""

import os
import re
import signal
import threading

import numpy as np
import pytest

from shmcoll.diagnostics.hang_report import look, report
from shmcoll.diagnostics.rank_status import standings
from shmcoll.errors import CollectiveTimeout
from tests.support.waiting import comes_true, until, until_ended


def sentence(job) -> str:
    return report(*look(job.arena, stacks=False), patience=0).splitlines()[-1]


def release(job, board) -> None:
    board[0] = 1
    assert [outcome.error for outcome in job.finish()] == [None] * job.size


def test_nobody_waits(ranks, board):
    job = ranks.start(2, lambda comm: comes_true(lambda: board[0], 20))
    assert sentence(job) == "No rank has waited for another for more than 0 s."
    release(job, board)


def test_a_chain_across_groups(ranks, board):
    """Rank 0 waits for rank 1, which waits within another group for rank 2, which does something else."""

    def chain(comm) -> None:
        pair = comm.subgroup([1, 2]) if comm.rank else None
        if comm.rank == 2:
            until(lambda: board[0])
        if pair:
            pair.barrier()
        comm.barrier()

    job = ranks.start(3, chain)
    job.until(lambda: [s.blames for s in standings(job.arena)][:2] == [(1, 2), (2,)], "ranks 0 and 1 wait")
    text = sentence(job)
    assert text.startswith("Rank 2 keeps ranks 0, 1 waiting, for ")
    assert "Rank 1" not in text
    assert [s.place for s in standings(job.arena)] == [
        "in barrier() #1",
        "in barrier() #1 of world ranks 1, 2",
        "has called nothing yet",
    ]
    release(job, board)


def test_a_circle_of_groups(ranks, board):
    """What two threads or two groups in different order do to one another."""

    def circle(comm) -> None:
        first, second = comm.split(0), comm.split(0)
        comm.barrier()
        for group in (first, second) if comm.rank else (second, first):
            group.barrier(async_op=True).wait(0.5) if board[0] else group.barrier()

    job = ranks.start(2, circle)
    place = "in barrier() #1 of world ranks 0, 1"  # before, they wait for one another in turn
    expected = [((1,), place), ((0,), place)]
    job.until(lambda: [(s.blames, s.place) for s in standings(job.arena)] == expected, "both wait")
    assert re.sub(r"[\d.]+ s", "T s", sentence(job)) == (
        "Ranks 0, 1 wait for one another in different groups, for T s: "
        "rank 0 in barrier() #1 of world ranks 0, 1 for rank 1; rank 1 in barrier() #1 of world ranks 0, 1 for rank 0."
    )
    job.kill()


def test_a_receive_names_who_has_sent_nothing(ranks, board):
    """Since when it waits does not change by messages that it is not for."""

    def receive(comm) -> None:
        if comm.rank == 1:
            for step in (1, 2):
                until(lambda step=step: board[0] >= step)
                comm.send(np.ones(1), 0, 3 + 2 * (step == 2))
        elif comm.rank == 0:
            assert comm.recv(source=1, tag=5)[1:] == (1, 5)
            board[1] = 1
            until(lambda: board[0] == 3)

    job = ranks.start(3, receive)
    job.until(lambda: [s.state for s in standings(job.arena)][:2] == ["waits", "outside"], "rank 0 waits")
    before = standings(job.arena)[0]
    assert (before.state, before.place) == ("waits", "in recv(source=1, tag=5)")
    text = sentence(job)
    assert text.startswith("Rank 1 keeps rank 0 waiting, for ")
    assert " s: it has sent nothing for recv(source=1, tag=5) of rank 0; it has called nothing yet, and is " in text
    board[0] = 1
    assert not comes_true(lambda: standings(job.arena)[0].message != before.message, 0.05)
    board[0] = 2
    until(lambda: board[1])
    assert standings(job.arena)[0].state == "outside"
    board[0] = 3
    assert [outcome.error for outcome in job.finish()] == [None] * 3


def test_receives_in_a_circle_and_of_anybody(ranks, board):
    def receive(comm) -> None:
        pair = comm.subgroup([1, 2]) if comm.rank else None
        if pair:  # with another thread, which could send: else they find out after a second that they wait forever
            threading.Thread(target=threading.Event().wait, daemon=True).start()
            pair.recv(source=1 - pair.rank)
        else:
            comm.recv(tag=7)

    job = ranks.start(3, receive)
    job.until(lambda: all(s.message for s in standings(job.arena)), "all wait")
    assert [s.blames for s in standings(job.arena)] == [(1, 2), (2,), (1,)]
    assert re.sub(r"[\d.]+ s", "T s", sentence(job)) == (
        "Ranks 0, 1, 2 wait for one another, for T s: rank 0 in recv(source=ANY, tag=7) for ranks 1, 2; "
        "rank 1 in recv(source=1 (world rank 2), tag=ANY) of world ranks 1, 2 for rank 2; "
        "rank 2 in recv(source=0 (world rank 1), tag=ANY) of world ranks 1, 2 for rank 1."
    )
    job.kill()


def test_a_posted_receive_keeps_no_rank(ranks, board):
    def post(comm) -> None:
        work = comm.recv(async_op=True)
        board[1 + comm.rank] = 1
        until(lambda: board[0])
        comm.send(np.ones(1), 1 - comm.rank)
        work.wait(20)

    job = ranks.start(2, post)
    job.until(lambda: board[1] and board[2] and job.parked(0) and job.parked(1), "both sleep")
    assert [s.state for s in standings(job.arena)] == ["outside"] * 2
    release(job, board)


def wait_in_vain(comm) -> str:
    comm.timeout = 0.3
    if comm.rank:
        until_ended(comm)
        return ""
    with pytest.raises(CollectiveTimeout) as error:
        comm.recv(source=1, tag=5)
    return error.value.__notes__[0]


def test_the_note_of_a_timeout_shows_the_receive(ranks):
    note = ranks(2, wait_in_vain)[0]
    line = next(line for line in note.splitlines() if "recv" in line)
    assert line.split()[0] == "0"
    assert "waits" in line and "in recv(source=1, tag=5)  1" in line


def test_a_rank_that_was_killed_and_one_that_has_not_joined(ranks, board):
    job = ranks.start(3, lambda comm: comm.rank or comes_true(lambda: board[0], 20))
    job.until(lambda: standings(job.arena)[0].state == "outside", "it has joined")
    job.until(lambda: job.ended(1) and job.ended(2), "two have left")
    os.kill(job.pids[0], signal.SIGKILL)
    job.until(lambda: job.ended(0), "it is dead")
    assert [s.state for s in standings(job.arena)] == ["gone", "ended", "ended"]
    job.kill()
