"""Signals that reach a rank while it waits in a collective."""

import os
import signal
import time

import numpy as np
import pytest

from shmcoll.errors import RankFailed
from tests.support import switches
from tests.support.calls import COMPOSITE, SHORT, all_reduce
from tests.support.waiting import until


def interrupted(comm, board, operation: str) -> tuple[str, str]:
    if comm.rank == 0:
        until(lambda: board[0])
    with pytest.raises((KeyboardInterrupt, RankFailed)) as told:
        while True:
            (SHORT | COMPOSITE)[operation](comm)
    with pytest.raises(RankFailed) as again:
        comm.barrier()
    return type(told.value).__name__, str(again.value)


@pytest.mark.parametrize("operation", [*SHORT, *COMPOSITE])
@pytest.mark.parametrize("fast", [True, False], ids=["fast", "plain"])
def test_ctrl_c_ends_the_wait_and_the_group(ranks, board, monkeypatch, operation, fast):
    if not fast:
        switches.use_entry(monkeypatch, fast=False)
    job = ranks.start(3, interrupted, board, operation)
    job.until(lambda: job.parked(1), "rank 1 waits")
    os.kill(job.pids[1], signal.SIGINT)
    job.until(lambda: job.arena.load(job.arena.world), "the group ends")
    board[0] = 1
    told = [o.value for o in job.finish()]
    assert [kind for kind, _ in told] == ["RankFailed", "KeyboardInterrupt", "RankFailed"]
    assert all(f"rank 1 was interrupted in {operation} #1" in text for _, text in told)


def test_a_handler_that_returns_lets_the_wait_go_on(ranks, board):
    def handled(comm) -> list[None]:
        def count(*_: object) -> None:
            board[1] += 1

        signal.signal(signal.SIGUSR2, count)
        board[2 + comm.rank] = 1
        if comm.rank == 0:
            until(lambda: board[0])
        return [call(comm) for call in SHORT.values()]

    job = ranks.start(3, handled)
    job.until(lambda: job.parked(1) and job.parked(2), "the others wait")
    for k in range(3):
        os.kill(job.pids[1], signal.SIGUSR2)
        job.until(lambda k=k: board[1] == k + 1, "the handler runs while its rank waits")
    board[0] = 1
    assert [o.value for o in job.finish()] == [[None] * len(SHORT)] * 3


def test_a_handler_cannot_call_a_collective_meanwhile(ranks, board):
    def nested(comm) -> str:
        signal.signal(signal.SIGUSR2, lambda *_: comm.barrier())
        board[2 + comm.rank] = 1
        if comm.rank == 0:
            until(lambda: board[0])
        try:
            while True:
                comm.barrier()
        except (RuntimeError, RankFailed) as error:
            return str(error)

    job = ranks.start(2, nested)
    job.until(lambda: job.parked(1), "rank 1 waits")
    os.kill(job.pids[1], signal.SIGUSR2)
    job.until(lambda: job.arena.load(job.arena.world), "the group ends")
    board[0] = 1
    first, second = (o.value for o in job.finish())
    assert second.startswith("barrier on rank 1: called by a signal handler, or a finaliser, in the midst of barrier")
    assert "rank 1 was interrupted" in first


@pytest.mark.parametrize("natively", [True, False])
def test_a_rank_without_memory_for_its_result_ends_the_group(ranks, monkeypatch, natively):
    """all_to_all_v makes its result when the counts are known: by then the peers count on it."""

    def starved(comm) -> str:
        units = 200_000
        x = np.ones(comm.size * units) if natively else np.ones(comm.size * units * 2)[::2]
        if comm.rank == 1:

            def no_memory(*_: object) -> None:
                raise MemoryError("no room for the result")

            monkeypatch.setattr("shmcoll.communicator.communicator.np.zeros", no_memory)
        with pytest.raises((MemoryError, RankFailed)) as told:
            comm.all_to_all_v(x, [units] * comm.size)
        monkeypatch.undo()
        with pytest.raises(RankFailed) as again:
            all_reduce(comm)
        return f"{type(told.value).__name__}: {again.value}"

    told = ranks(3, starved, timeout=20.0)
    assert [text.partition(":")[0] for text in told] == ["RankFailed", "MemoryError", "RankFailed"]
    assert all("rank 1 was interrupted in all_to_all_v #1" in text for text in told)


def test_abort_ends_the_group_for_all(ranks, board):
    def aborted(comm) -> str:
        if comm.rank == 1:
            comm.abort("enough")
        begin = time.monotonic()
        with pytest.raises(RankFailed) as told:
            while True:
                comm.barrier()
        assert time.monotonic() - begin < comm.timeout / 2
        with pytest.raises(RankFailed, match="aborted: enough"):
            comm.all_reduce(np.ones(3))
        return str(told.value)

    assert all("aborted: enough" in text for text in ranks(3, aborted))
    assert "aborted: enough" in ranks(1, aborted_alone)[0]


def aborted_alone(comm) -> str:
    comm.abort("enough")
    with pytest.raises(RankFailed) as told:
        comm.barrier()
    return str(told.value)
