"""A rank that is alive but does not come: no error before the limit; at the limit `CollectiveTimeout` naming it."""

import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from shmcoll.errors import CollectiveTimeout
from tests.support import switches
from tests.support.calls import LONG, SHORT
from tests.support.waiting import until

LIMIT = 0.6  # seconds
STOPPED = 100  # on the board


def named(text: str) -> set[int]:
    """The ranks that a message complains about."""
    return {int(r) for r in re.findall(r"rank (\d+) (?:did not arrive|arrived but|at \S+ this rank was)", text)}


def late_or_waiting(comm, board, operation: str, victim: int):
    call = SHORT[operation]
    call(comm)
    if comm.rank == victim:
        board[1] = 1
        until(lambda: board[0])  # stopped meanwhile
        comm.timeout = 20
    else:
        until(lambda: board[STOPPED])
        comm.timeout = LIMIT
    begin = time.monotonic()
    try:
        call(comm)
    except CollectiveTimeout as error:
        waited = time.monotonic() - begin
        board[2 + comm.rank] = 1
        with pytest.raises(CollectiveTimeout) as again:
            call(comm)
        assert not hasattr(again.value, "__notes__")
        return waited, str(error), str(again.value), getattr(error, "__notes__", [])
    return None


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def stop(job, rank: int) -> None:
    os.kill(job.pids[rank], signal.SIGSTOP)
    job.until(lambda: stopped(job.pids[rank]), f"rank {rank} stops")


@pytest.mark.parametrize(
    ("n", "operation"), [(2, "barrier"), (3, "all_reduce"), (4, "all_to_all"), (3, "gather"), (3, "scatter")]
)
def test_a_stopped_rank_is_named_at_the_limit(ranks, board, allowed, n, operation):
    victim = n - 2
    job = ranks.start(n, late_or_waiting, board, operation, victim)
    job.until(lambda: board[1], "the rank is there")
    stop(job, victim)
    board[STOPPED] = 1
    survivors = [r for r in range(n) if r != victim]
    job.until(lambda: all(board[2 + r] for r in survivors), "the others have given up")
    board[0] = 1
    os.kill(job.pids[victim], signal.SIGCONT)
    outcomes = job.finish()
    for outcome in outcomes:
        assert outcome.error is None, outcome.traceback
    waits = [outcomes[r].value[0] for r in survivors]
    assert LIMIT <= max(waits) < LIMIT + allowed(1.0)
    for r in survivors:
        _, first, again, _ = outcomes[r].value
        assert named(first) == {victim}, first
        assert again == first
    # One of those that gave up shows where all were, for all
    (note,) = [note for r in survivors for note in outcomes[r].value[3]]
    *_, verdict = note.splitlines()
    assert verdict.startswith(f"Rank {victim} keeps rank")
    assert f"its process is stopped (kill -CONT {job.pids[victim]} continues it)" in verdict
    assert note.count("test_stop.py:") >= len(survivors)


def test_a_rank_that_goes_on_before_the_limit_is_only_slow(ranks, board):
    def come(comm) -> list[None]:
        comm.timeout = 20
        return [call(comm) for call in SHORT.values()]

    def wait_then_come(comm):
        if comm.rank == 2:
            board[1] = 1
            until(lambda: board[0])
        return come(comm)

    job = ranks.start(4, wait_then_come)
    job.until(lambda: board[1], "the rank is there")
    stop(job, 2)
    job.until(lambda: all(job.parked(r) for r in (0, 1, 3)), "the others sleep")
    board[0] = 1
    os.kill(job.pids[2], signal.SIGCONT)
    assert [o.value for o in job.finish()] == [[None] * len(SHORT)] * 4


def until_it_ends(comm, board, operation: str, victim: int) -> str:
    if comm.rank != victim:
        comm.timeout = 3 * LIMIT  # they are all within before one is stopped, also on a busy machine
    try:
        while True:
            LONG[operation](comm)
    except CollectiveTimeout as error:
        board[2 + comm.rank] = 1
        return str(error)


IN_ROUNDS = switches.IN_ROUNDS | switches.slices(4096)


@pytest.mark.slow
@pytest.mark.parametrize("operation", LONG)
def test_a_rank_that_stops_within_an_operation_is_named(ranks, board, seed, operation):
    n = 4
    victim = seed % n
    job = ranks.start(n, until_it_ends, board, operation, victim, environment=IN_ROUNDS, timeout=20)
    seen: set[int] = set()

    def enough() -> bool:
        seen.add(job.progress(victim))
        return len(seen) > 10

    job.until(enough, f"rank {victim} makes some steps")
    stop(job, victim)
    job.until(lambda: all(board[2 + r] for r in range(n) if r != victim), "the others have given up")
    os.kill(job.pids[victim], signal.SIGCONT)
    for outcome in job.finish():
        assert outcome.error is None, outcome.traceback
        assert victim in named(outcome.value), outcome.value
        if "arrived but" in outcome.value:  # else: of the next operation, which those that wait for it miss too
            assert named(outcome.value) == {victim}, outcome.value


def receive_while_stopped(comm, board, posted: bool) -> int:
    """The time for which rank 0 is stopped does not count for its limit."""
    if comm.rank == 1:
        until(lambda: board[1])
        comm.send(np.array([5]), 0)
        return 5
    comm.timeout = LIMIT
    board[0] = 1
    got = comm.recv(source=1, async_op=True).wait() if posted else comm.recv(source=1)
    return got[0].item()


@pytest.mark.parametrize("posted", [False, True])
def test_a_receiver_that_was_stopped_has_all_its_time(ranks, board, posted):
    job = ranks.start(2, receive_while_stopped, board, posted)
    job.until(lambda: board[0], "rank 0 is there")
    job.until(lambda: job.parked(0), "it sleeps")
    stop(job, 0)
    time.sleep(2 * LIMIT)
    os.kill(job.pids[0], signal.SIGCONT)
    board[1] = 1
    assert [outcome.value for outcome in job.finish()] == [5, 5]
