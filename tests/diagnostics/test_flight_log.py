"""The flight recorder: what a rank did last, as another process reads it."""

import time

import numpy as np
import pytest

from shmcoll.diagnostics.flight_log import flights, last_call
from shmcoll.engine import layout
from shmcoll.engine.memory.group import Group
from shmcoll.errors import CollectiveTimeout
from tests.support.waiting import until


def told(group: Group, rank: int) -> list[tuple[int, str, str]]:
    return [(f.sequence, f.words(), f.outcome) for f in flights(group, rank)]


def test_what_was_called_and_how_it_ended(ranks):
    def calls(comm) -> list:
        comm.barrier()
        comm.all_reduce(np.ones((2, 3), np.float32), "max")
        with pytest.raises(ValueError, match="median"):
            comm.all_reduce(np.ones(3), "median")
        comm.gather(np.ones(4, np.int16), root=1)
        comm.scatter_v(np.arange(2) if comm.rank == 0 else None, send_counts=[1, 1])
        return told(comm._dispatcher.group, comm.rank)

    for rank, entries in enumerate(ranks(2, calls)):
        array = "None" if rank else "2 x int64"
        assert entries == [
            (1, "barrier()", "done"),
            (2, "all_reduce(6 x float32, max)", "done"),
            (3, "gather(4 x int16, root=1)", "done"),
            (4, f"scatter_v({array}, root=0)", "done"),
        ]


def test_the_last_ones_of_many(ranks):
    def many(comm) -> list[int]:
        for _ in range(layout.FLIGHT_ENTRIES + 9):
            comm.barrier()
        return [f.sequence for f in flights(comm._dispatcher.group, 1 - comm.rank)][:-1]

    for sequences in ranks(2, many):
        assert sequences == list(range(sequences[0], sequences[0] + layout.FLIGHT_ENTRIES - 1))


def test_each_group_has_its_own(ranks):
    def split(comm) -> tuple[list, list]:
        half = comm.split(comm.rank % 2)
        half.barrier()
        return told(half._dispatcher.group, half.rank), told(comm._dispatcher.group, comm.rank)[1:]

    assert ranks(4, split) == [([(1, "barrier()", "done")], [(2, "split()", "done")])] * 4  # its second part


def test_a_rank_that_waits_is_in_it(ranks, board):
    def wait(comm) -> None:
        if comm.rank:
            until(lambda: board[0])
        comm.all_reduce(np.ones((2, 3)))

    before = time.monotonic()
    job = ranks.start(2, wait)
    job.until(lambda: job.parked(0), "rank 0 sleeps")
    group = Group.world(job.arena)
    (flight,) = flights(group, 0)
    assert (flight.sequence, flight.outcome, flight.flying) == (1, "in it", True)
    assert last_call(group, 0, flight) == "all_reduce(float64[2, 3], sum)"
    assert flights(group, 1) == []
    board[0] = 1
    job.until(lambda: not flights(group, 0)[0].flying, "rank 0 goes on")
    flight = flights(group, 0)[0]
    assert before - 0.01 < flight.started / 1e9 <= flight.woken / 1e9 <= time.monotonic()
    assert flight.since < time.monotonic() - before
    job.finish()


def test_a_call_that_failed_says_so(ranks, board):
    def fail(comm) -> list:
        if comm.rank == 0:
            comm.timeout = 0.1
            with pytest.raises(CollectiveTimeout):
                comm.barrier()
            board[0] = 1
        until(lambda: board[0])
        return told(comm._dispatcher.group, 0)

    assert ranks(2, fail) == [[(1, "barrier()", "timed out")]] * 2
