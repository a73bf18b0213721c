"""Who keeps the others waiting, across groups: the sentence below the table."""

import os
import signal

from ranks import poll

from shmcoll.inquest import inquest
from shmcoll.standings import standings


def sentence(job) -> str:
    return inquest(job.arena, stacks=False, patience=0).splitlines()[-1]


def release(job, board) -> None:
    board[0] = 1
    assert [outcome.error for outcome in job.finish()] == [None] * job.size


def test_nobody_waits(ranks, board):
    job = ranks.start(2, lambda comm: poll(lambda: board[0], 20))
    assert sentence(job) == "No rank has waited for another for more than 0 s."
    release(job, board)


def test_a_chain_across_groups(ranks, board):
    """Rank 0 waits for rank 1, which waits within another group for rank 2, which does something else."""

    def chain(comm) -> None:
        pair = comm.subgroup([1, 2]) if comm.rank else None
        if comm.rank == 2:
            assert poll(lambda: board[0], 20)
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
        "in barrier() #1 of ranks 1, 2",
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
    job.until(lambda: [s.blames for s in standings(job.arena)] == [(1,), (0,)], "both wait")
    assert sentence(job) == (
        "Ranks 0, 1 wait for one another in different groups: "
        "rank 0 in barrier() #1 of ranks 0, 1 for rank 1; rank 1 in barrier() #1 of ranks 0, 1 for rank 0."
    )
    job.kill()


def test_a_rank_that_was_killed_and_one_that_has_not_joined(ranks, board):
    job = ranks.start(3, lambda comm: comm.rank or poll(lambda: board[0], 20))
    job.until(lambda: job.ended(1) and job.ended(2), "two have left")
    os.kill(job.pids[0], signal.SIGKILL)
    job.until(lambda: job.ended(0), "it is dead")
    assert [s.state for s in standings(job.arena)] == ["gone", "ended", "ended"]
    job.kill()
