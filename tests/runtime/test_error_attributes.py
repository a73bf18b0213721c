"""What a program reads from an error without reading its text; also after it has been pickled."""

import os
import pickle
import signal
from typing import Any

import numpy as np

from shmcoll.errors import CollectiveMismatch, ShmcollError

NAMES = ("operation", "rank", "signal", "exitcode", "missing", "calls")


def facts(error: BaseException | None) -> dict[str, Any]:
    """The attributes that are known, of the error and of its pickled copy."""
    assert isinstance(error, ShmcollError)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))
    assert [getattr(again, name) for name in NAMES] == [getattr(error, name) for name in NAMES]
    return {name: value for name in NAMES if (value := getattr(error, name)) is not None}


def caught(call: Any) -> dict[str, Any]:
    try:
        call()
    except ShmcollError as e:
        return facts(e)
    return {}


def test_a_killed_rank(ranks):
    def run(comm) -> list[dict[str, Any]]:
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return [caught(comm.barrier), caught(lambda: comm.all_reduce(1))]

    first, _, last = ranks.outcomes(3, run, tell=True)
    killed = {"operation": "barrier", "rank": 1, "signal": 9}
    assert [first.value[0], last.value[0]] == [killed] * 2
    assert first.value[1] == killed  # the call that has ended the group


def test_ranks_of_a_group_have_their_numbers_in_it(ranks):
    def run(comm) -> dict[str, Any]:
        half = comm.split(comm.rank % 2)
        comm.barrier()  # a failure of a member of the parent ends a split that is under way
        if comm.rank == 3:
            os._exit(7)
        return caught(half.barrier) if comm.rank == 1 else {}

    assert ranks.outcomes(4, run, tell=True)[1].value == {"operation": "barrier", "rank": 1, "exitcode": 7}


def test_a_rank_that_has_left(ranks):
    def run(comm) -> dict[str, Any]:
        return caught(lambda: comm.recv(source=1)) if comm.rank == 0 else {}

    assert ranks(2, run)[0] == {"operation": "recv", "rank": 1}


def test_ranks_that_do_not_come(ranks, board):
    def run(comm) -> dict[str, Any]:
        if comm.rank in (1, 3):
            while board[0] < 2:
                pass
            return {}
        found = caught(lambda: comm.all_reduce(np.ones(3)))
        board[0] += 1
        return found

    first, _, second, _ = ranks(4, run, timeout=0.3)
    assert first == second == {"operation": "all_reduce", "missing": (1, 3)}


def test_a_message_that_does_not_come(ranks, board):
    def run(comm) -> dict[str, Any]:
        if comm.rank == 0:
            found = caught(lambda: comm.recv(source=1, tag=5))
            board[0] = 1
            return found
        while not board[0]:
            pass
        return {}

    assert ranks(2, run, timeout=0.3)[0] == {"operation": "recv", "missing": (1,)}


def test_a_mismatch_has_the_calls_of_all_ranks(ranks):
    def run(comm) -> dict[str, Any]:
        if comm.rank == 1:
            return caught(comm.barrier)
        return caught(lambda: comm.all_reduce(np.ones(3, np.float32)))

    for found in ranks(3, run):
        assert {rank: call.rpartition(" at ")[0] for rank, call in found.pop("calls").items()} == {
            0: "all_reduce(float32[3], sum)",
            1: "barrier()",
            2: "all_reduce(float32[3], sum)",
        }
        assert found in ({"operation": "barrier"}, {"operation": "all_reduce"})


def test_a_mismatch_cites_the_first_refused_call(ranks):
    """Not the last one, and none from before the ranks last agreed."""

    def run(comm) -> str:
        def refused(call: Any) -> None:
            if comm.rank == 1:
                try:
                    call()
                except TypeError:
                    return
                raise AssertionError

        refused(lambda: comm.gather(object()))
        for _ in range(3):
            comm.barrier()
        refused(lambda: comm.broadcast(object()))
        refused(lambda: comm.all_reduce(object()))
        try:
            comm.gather(1) if comm.rank == 1 else comm.broadcast(np.ones(3))
            comm.barrier()  # a root of few bytes learns of it here
        except CollectiveMismatch as e:
            return str(e)
        return ""

    for text in ranks(2, run):
        assert ". Before that, rank 1's call of broadcast at " in text
        assert "was refused (and 1 more after it): TypeError" in text
        assert text.count("was refused") == 1
