"""`Work.test`, `result` and `exception`; `wait_all`, `wait_any` and `wait_some` over calls of all kinds."""

import signal
import sys
import threading
import time

import numpy as np
import pytest

import shmcoll
from shmcoll.errors import Cancelled, CollectiveMismatch
from shmcoll.runtime.work import Latch, _Bell
from tests.support.waiting import until


def test_a_test_looks_for_the_message(ranks, monkeypatch):
    """The worker is not asked: a program that only tests makes progress."""

    def look(comm) -> list:
        monkeypatch.setattr(comm._dispatcher.worker, "start", lambda operation: None)
        work = comm.recv(source=0, tag=1, async_op=True)
        told = [work.test(), work.done()]
        comm.send(np.arange(2), 0, 1)
        return [*told, work.done(), work.test(), work.done(), work.result()[0].tolist()]

    assert ranks(1, look) == [[False, False, False, True, True, [0, 1]]]


def test_the_error_of_a_call(ranks):
    def fail(comm) -> list:
        other = comm.dup()  # which the mismatch does not end
        with pytest.raises(TimeoutError):
            comm.recv(source=comm.rank, tag=77, async_op=True).exception(0.01)
        works = [comm.all_reduce(np.ones(2 + comm.rank * bad), async_op=True) for bad in (0, 1)]
        errors = [work.exception() for work in works]
        with pytest.raises(CollectiveMismatch):
            works[1].result()
        cancelled = other.recv(source=0, async_op=True)
        cancelled.cancel()
        with pytest.raises(Cancelled):
            cancelled.exception()
        return [type(error).__name__ for error in errors]

    assert ranks(2, fail) == [["NoneType", "CollectiveMismatch"]] * 2


def test_all_calls_of_several_communicators(ranks):
    def wait(comm) -> bool:
        pair, other = comm.split(comm.rank % 2), (comm.rank + 1) % comm.size
        works = [
            comm.recv(source=shmcoll.ANY, tag=3, async_op=True),
            pair.all_reduce([comm.rank], async_op=True),
            comm.send(np.full(3, comm.rank), other, 3, async_op=True),
            comm.barrier(async_op=True),
        ]
        (received, source, _), total, *nothing = shmcoll.wait_all(works, timeout=30)
        assert shmcoll.wait_all([]) == [] and nothing == [None, None]
        return received.tolist() == [source] * 3 and source == (comm.rank - 1) % 4 and total == [(0, 4)[0] + sum(
            rank for rank in range(4) if rank % 2 == comm.rank % 2
        )]  # fmt: skip

    assert ranks(4, wait) == [True] * 4


def test_an_error_comes_when_all_have_ended(ranks):
    def fail(comm) -> list:
        works = [comm.all_reduce(np.ones(2 + comm.rank), async_op=True), comm.barrier(async_op=True)]
        with pytest.raises(CollectiveMismatch):
            shmcoll.wait_all(works)
        return [work.done() for work in works]

    assert ranks(2, fail) == [[True, True]] * 2


def test_any_and_some(ranks, board):
    """Of many receives, those whose messages have come; the others stay."""

    def take(comm) -> list[int]:
        if comm.rank:
            until(lambda: board[0])
            comm.send(np.array([comm.rank]), 0, comm.rank)
            return []
        works = [comm.recv(source=rank, async_op=True) for rank in range(1, comm.size)]
        with pytest.raises(TimeoutError, match=r"none of 3 calls has ended within 0\.02 s"):
            shmcoll.wait_some(works, timeout=0.02)
        board[0] = 1
        order, left = [], dict(enumerate(works, 1))
        while left:
            keys = list(left)
            some = shmcoll.wait_some(list(left.values()))
            assert shmcoll.wait_any(list(left.values())) == some[0]
            order += [int(left.pop(keys[i]).wait()[0][0]) for i in some]
        assert all(work._latch._calls == [] for work in works)
        return sorted(order)

    assert ranks(4, take)[0] == [1, 2, 3]


def test_any_of_a_receive_and_a_collective(ranks, board):
    """Of two communicators, because a collective that waits keeps everything else of its communicator waiting."""

    def wait(comm) -> list[int]:
        own = comm.dup()
        works = [comm.recv(source=comm.rank, tag=1, async_op=True), own.barrier(async_op=True)]
        told = [shmcoll.wait_any(works)]  # the barrier: nobody has sent anything
        comm.send(np.ones(1), comm.rank, 1)
        shmcoll.wait_all(works)
        if comm.rank == 1:  # the message: this rank comes to the barrier only when rank 0 has received it
            comm.send(np.ones(1), 0, 2)
            until(lambda: board[0])
            own.barrier()
        else:
            works = [comm.recv(source=1, tag=2, async_op=True), own.barrier(async_op=True)]
            told.append(shmcoll.wait_any(works))
            board[0] = 1
            shmcoll.wait_all(works)
        own.close()
        return told

    assert ranks(2, wait) == [[1, 0], [1]]


def test_what_is_no_call_is_refused():
    for wait in (shmcoll.wait_all, shmcoll.wait_any, shmcoll.wait_some):
        with pytest.raises(TypeError, match=r"works\[0\] must be what a call with async_op=True returns, got NoneType"):
            wait([None])


def test_nothing_to_wait_for():
    with pytest.raises(ValueError, match="there is no call to wait for"):
        shmcoll.wait_any([])


def test_a_limit_of_all(ranks):
    def wait(comm) -> float:
        works = [comm.recv(source=comm.rank, tag=i, async_op=True) for i in range(3)]
        comm.send(np.ones(1), comm.rank, 1)
        begun = time.monotonic()
        with pytest.raises(TimeoutError, match=r"[23] of 3 calls have not ended within 0.05 s"):
            shmcoll.wait_all(works, timeout=0.05)
        for work in works:
            work.cancel()
        return time.monotonic() - begun

    assert ranks(1, wait)[0] >= 0.05


def test_an_interrupt_that_another_thread_takes():
    """It does not wake the main thread. Neither does a signal that comes just before the main thread sleeps."""
    main = threading.get_ident()

    def interrupt() -> None:
        until(lambda: sys._current_frames()[main].f_code is _Bell.wait.__code__)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        Latch().wait()
    thread.join()
