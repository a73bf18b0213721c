"""No limit of a wait passes while a rank of the job compiles; none waits for ever for one that has stopped to."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import shmcoll
from shmcoll.engine import layout
from shmcoll.engine.memory import records
from tests.support.waiting import until, until_ended

LIMIT = 0.75  # seconds, in which a rank gets a core on a busy machine


def compile_for(comm, seconds: float, board: np.ndarray) -> None:
    with comm._dispatcher.local_rank.compiling():
        board[0] = 1
        time.sleep(seconds)


def a_collective(comm) -> None:
    comm.barrier()


def a_message(comm) -> None:
    if comm.rank == 1:
        comm.send(np.ones(1), 0)
    else:
        comm.recv(source=1)


def a_posted_receive(comm) -> None:
    if comm.rank == 1:
        comm.send(np.ones(1), 0)
    else:
        comm.recv(source=1, async_op=True).wait()


def a_probe(comm) -> None:
    if comm.rank == 1:
        comm.send(np.ones(1), 0)
    else:
        comm.recv(source=comm.probe(1).source)


@pytest.mark.parametrize("wait", [a_collective, a_message, a_posted_receive, a_probe])
def test_a_peer_that_compiles_keeps_nobody_from_waiting(ranks, board, wait):
    def call(comm) -> None:
        wait(comm)  # loads what it needs
        if comm.rank == 1:
            compile_for(comm, 2 * LIMIT, board)
        else:
            until(lambda: board[0])
        comm.timeout = LIMIT
        wait(comm)

    ranks(2, call)


def test_a_peer_of_a_peer_that_compiles(ranks, board):
    """Rank 0 waits for rank 1, and that for rank 2 in another group."""

    def call(comm) -> bool:
        group = comm.subgroup([1, 2]) if comm.rank else None
        if comm.rank == 2:
            compile_for(comm, 2 * LIMIT, board)
        else:
            until(lambda: board[0])
        comm.timeout = LIMIT
        if group:
            group.timeout = LIMIT
            group.barrier()
        comm.barrier()
        return True

    assert ranks(3, call) == [True] * 3


def test_two_threads_compile_at_once(ranks, board):
    """The one that ends first does not say that the other one has."""

    def call(comm) -> list[bool]:
        arena, ended = comm._dispatcher.group.arena, threading.Event()
        thread = threading.Thread(target=lambda: [compile_for(comm, 0.05, board), ended.set()])
        with comm._dispatcher.local_rank.compiling():
            thread.start()
            ended.wait()
            said = [records.some_rank_compiles(arena)]
        thread.join()
        return [*said, records.some_rank_compiles(arena)]

    assert ranks(1, call) == [[True, False]]


def test_a_word_that_is_too_old_is_not_believed(ranks):
    """A rank that was stopped in the midst of compiling."""

    def call(comm) -> str:
        comm.barrier()
        comm.timeout = LIMIT
        if comm.rank == 1:
            where = layout.record_offset(2, 1, layout.BY_RANK) + layout.RECORD_COMPILING
            comm._dispatcher.group.arena.store(where, time.monotonic_ns() - layout.LONGEST_COMPILATION - 1)
            until_ended(comm)
            return ""
        with pytest.raises(shmcoll.CollectiveTimeout):
            comm.barrier()
        return "limit"

    assert ranks(2, call)[0] == "limit"


def test_a_rank_that_is_killed_while_it_compiles_is_named_at_once(ranks):
    def call(comm) -> str:
        comm.barrier()
        comm.timeout = 60
        if comm.rank == 1:
            with comm._dispatcher.local_rank.compiling():
                os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(shmcoll.RankFailed) as failed:
            comm.barrier()
        return str(failed.value)

    assert (
        "rank 1 left the job without taking part: its process has ended"
        in ranks.outcomes(2, call, timeout=20.0)[0].value
    )


def test_a_dead_rank_does_not_compile(ranks):
    """Its word stays; ranks that do not need it wait as long as ever."""

    def call(comm) -> str:
        group = comm.subgroup([0, 1]) if comm.rank < 2 else None
        if comm.rank == 2:
            with comm._dispatcher.local_rank.compiling():
                os.kill(os.getpid(), signal.SIGKILL)
        assert group
        arena = group._dispatcher.group.arena
        until(lambda: records.how_ended(arena, 2))
        records.write(arena, 2, layout.BY_LAUNCHER, records.FAILED, records.KILLED, 9)
        group.timeout = LIMIT
        if comm.rank:
            until_ended(group)
            return ""
        with pytest.raises(shmcoll.CollectiveTimeout):
            group.barrier()
        return "limit"

    assert ranks.outcomes(3, call, timeout=20.0)[0].value == "limit"
