"""Batches: what goes the quick way and what is posted, in which order, and what an error or an interrupt leaves."""

import signal
from typing import Any

import numpy as np
import pytest

import shmcoll
from shmcoll import Recv, RecvObject, Send, SendObject
from shmcoll.engine.messages.recv import SOON
from tests.support import switches


def posted_by(comm, monkeypatch) -> list[int]:
    """How many receives each batch posts from now on."""
    counts: list[int] = []
    enter = comm._dispatcher.posted.enter
    monkeypatch.setattr(comm._dispatcher.posted, "enter", lambda *ones: counts.append(len(ones)) or enter(*ones))
    return counts


def test_short_messages_that_are_there_are_not_posted(ranks, monkeypatch):
    def exchange(comm) -> tuple[list[int], list[Any]]:
        counts, me = posted_by(comm, monkeypatch), comm.rank
        other = 1 - me
        comm.send(np.array([me, 7]), other, 1)
        comm.send(np.array([[me], [8]]), other, 2)
        comm.barrier()
        out = np.zeros(5, int)
        works = comm.batch([Recv(out, other, 1), Send(np.array([me]), me, 3), Recv(source=other, tag=2), Recv(tag=3)])
        results = [work.wait() for work in works]
        assert results[0][0].base is out and results[1] is None
        return counts, [(array.tolist(), *rest) for array, *rest in (results[0], *results[2:])]

    for me, (counts, results) in enumerate(ranks(2, exchange)):
        other = 1 - me
        assert counts == []
        assert results == [([other, 7], other, 1), ([[other], [8]], other, 2), ([me], me, 3)]


def test_a_receive_behind_one_that_waits_takes_nothing_before_it(ranks, monkeypatch, board):
    """Both receives fit both messages. The first message comes when the batch polls no longer."""

    def exchange(comm) -> list[int]:
        if comm.rank == 1:
            comm.barrier()
            comm.send(np.array([1]), 0, 5)
            comm.send(np.array([2]), 0, 5)
            return []
        counts = posted_by(comm, monkeypatch)
        works = comm.batch([Send(np.zeros(1), 0, 9), Recv(source=1), Recv(source=1, tag=5), Recv(tag=9)])
        comm.barrier()
        results = [work.wait() for work in works[1:]]
        return [*counts, *(int(array[0]) for array, *_ in results)]

    assert ranks(2, exchange)[0] == [3, 1, 2, 0]


def test_what_a_batch_sends_does_not_overtake(ranks):
    """A long message is on its way to the same rank, which reads it later."""

    def exchange(comm) -> list[int]:
        if comm.rank == 1:
            comm.barrier()
            return [comm.recv(source=0)[0].size for _ in range(3)]
        first = comm.send(np.zeros(1 << 21), 1, async_op=True)
        works = comm.batch([Send(np.zeros(1), 1), Send(np.zeros(2), 1)])
        comm.barrier()
        shmcoll.wait_all([first, *works])
        return []

    assert ranks(2, exchange)[1] == [1 << 21, 1, 2]


def test_long_messages_both_ways_in_any_order(ranks, monkeypatch):
    def exchange(comm) -> list[int]:
        counts, other = posted_by(comm, monkeypatch), 1 - comm.rank
        sizes = switches.PART_BYTES // 8, switches.PART_BYTES // 8 + 1, 1 << 20
        messages: list[Any] = [Send(np.full(size, comm.rank), other, i) for i, size in enumerate(sizes)]
        messages += [Recv(source=other, tag=i) for i in range(3)]
        results = shmcoll.wait_all(comm.batch(messages))[3:]
        assert all((array == other).all() for array, *_ in results)
        return [*counts, *(array.size for array, *_ in results)]

    sizes = [switches.PART_BYTES // 8, switches.PART_BYTES // 8 + 1, 1 << 20]
    assert ranks(2, exchange, environment=switches.heap("4M")) == [[3, *sizes]] * 2


def test_a_message_that_does_not_fit_is_an_error_of_its_work_and_stays(ranks):
    def exchange(comm) -> str:
        short, other = np.zeros(1, int), comm.rank
        works = comm.batch(
            [Send(np.arange(3), other, 1), Recv(short, other, 1), Send(np.ones(1), other, 2), Recv(tag=2)]
        )
        with pytest.raises(ValueError, match="has 3 x int64, out has room for 1") as refused:
            works[1].wait()
        assert works[3].wait()[0].tolist() == [1.0] and comm.recv(tag=1)[0].tolist() == [0, 1, 2]
        return str(refused.value)

    assert "recv(source=0, tag=1) on rank 0" in ranks(1, exchange)[0]


def test_objects_and_arrays_in_one_batch(ranks):
    def exchange(comm) -> list[Any]:
        other = 1 - comm.rank
        value = {"rank": comm.rank, "long": np.arange(10_000)}
        works = comm.batch(
            [RecvObject(other, 1), SendObject(value, other, 1), Send(np.ones(2), other, 2), Recv(source=other, tag=2)]
        )
        (received, source, tag), sent, _, (array, *_) = shmcoll.wait_all(works)
        assert (received["long"] == np.arange(10_000)).all() and array.tolist() == [1, 1] and sent is None
        return [received["rank"], source, tag]

    assert ranks(2, exchange) == [[1, 1, 1], [0, 0, 1]]


def test_an_object_that_cannot_be_pickled_is_an_error_of_its_work(ranks):
    def exchange(comm) -> str:
        works = comm.batch([SendObject(lambda: 1, 0), SendObject("other", 0), RecvObject()])
        assert works[2].wait()[0] == "other" and works[1].wait() is None
        return type(works[0].exception()).__name__

    assert ranks(1, exchange) == ["TypeError"]


@pytest.mark.parametrize("wrong", [SendObject(1, 3), SendObject(1, 0, -1), RecvObject(4), Send(np.ones(1), 2), Recv(5)])
def test_a_wrong_message_is_refused_before_anything_begins(ranks, wrong):
    def exchange(comm) -> bool:
        with pytest.raises((ValueError, TypeError)):
            comm.batch([SendObject("first", 0), Send(np.ones(1), 0), Recv(), wrong])
        return comm.iprobe() is None and not switches.posted(comm)

    assert ranks(1, exchange) == [True]


def test_an_interrupt_before_a_result_is_kept_ends_the_group(ranks, monkeypatch):
    """The message has been read by then, so no later receive would get it."""

    def exchange(comm) -> str:
        group, other = comm.dup(), 1 - comm.rank
        group.send(np.ones(1), other)
        group.barrier()
        if comm.rank == 0:
            entry = group._dispatcher.routine("recv")

            def interrupted(*arguments: Any) -> int:
                status = entry(*arguments)
                if arguments[2] == SOON:
                    signal.raise_signal(signal.SIGINT)
                return status

            monkeypatch.setitem(group._dispatcher._routines, "recv", interrupted)
            with pytest.raises(KeyboardInterrupt):
                group.batch([Send(np.ones(1), other), Recv()])
        with pytest.raises(shmcoll.ShmcollError) as failed:
            while True:
                group.barrier()
        return type(failed.value).__name__

    signal.signal(signal.SIGINT, signal.default_int_handler)
    assert ranks(2, exchange) == ["RankFailed", "RankFailed"]
