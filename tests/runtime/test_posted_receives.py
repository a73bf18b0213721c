"""Posted receives: what goes on beside them without taking turns, and what is said when they fail."""

import threading

import numpy as np
import pytest

import shmcoll
from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.layout import WORD
from shmcoll.engine.messages.recv import MARK
from shmcoll.engine.messages.ring_buffers import PART_BYTES
from shmcoll.runtime import lost_failures, waiting
from tests.support import switches
from tests.support.patience import PATIENCE
from tests.support.waiting import until


def test_calls_that_read_no_messages_need_no_turn(ranks, monkeypatch):
    """Collectives and short sends enter at once while a receive is posted; receives and long sends queue."""

    def calls(comm) -> list[bool]:
        monkeypatch.setattr(comm._dispatcher.worker, "start", lambda operation: None)  # it would take turns, too
        posted = comm.recv(source=comm.rank, tag=9, async_op=True)
        turns, told = comm._dispatcher.worker.turns, []
        queued = turns.run
        monkeypatch.setattr(turns, "run", lambda *arguments: told.append(True) or queued(*arguments))
        long = np.zeros(PART_BYTES + 1, np.uint8)

        def takes_a_turn(call) -> bool:
            told.clear()
            call()
            return bool(told)

        sent = [
            takes_a_turn(lambda: comm.all_reduce(np.ones(3))),
            takes_a_turn(lambda: comm.send(long[:PART_BYTES], comm.rank, 1)),
            takes_a_turn(lambda: comm.send(long[:8], comm.rank, 2, async_op=True).wait()),
            takes_a_turn(lambda: comm.send(long, comm.rank, 3)),
        ]
        assert comm._dispatcher.words.item(c.OWNER // WORD) == c.RECEIVES_POSTED
        comm.send(np.ones(1), comm.rank, 9)
        posted.wait()
        assert comm._dispatcher.words.item(c.OWNER // WORD) == 0
        assert comm.recv(tag=3)[0].size == PART_BYTES + 1
        return sent

    assert ranks(2, calls) == [[False, False, False, True]] * 2


def test_a_short_send_beside_receives_takes_its_turn_for_memory(ranks):
    """The heap is full: only a thread that reads for the posted receives meanwhile may wait for room."""

    def exchange(comm) -> tuple[int, int]:
        other, number = 1 - comm.rank, 2000
        works = [comm.recv(source=other, tag=i, async_op=True) for i in range(number)]
        for i in range(number):
            comm.send(np.full(1 << 10, i), other, i)
        return number, sum(int(work.wait()[0][-1]) == i for i, work in enumerate(works))

    assert ranks(2, exchange, environment=switches.heap("2M")) == [(2000, 2000)] * 2


def test_while_a_thread_attends_the_context_names_the_first_receive(ranks, board):
    """An error that ends the wait quotes the call from there."""

    def wait(comm) -> tuple[int, ...]:
        if comm.rank == 1:
            until(lambda: board[0])
            comm.send(np.ones(1), 0, 5)
            return ()
        work = comm.recv(source=1, tag=5, async_op=True)
        thread = threading.Thread(target=work.wait)
        thread.start()
        group = comm._dispatcher.group
        until(lambda: group.arena.load(group.mailbox(0) + layout.PARKED))
        told = tuple(comm._dispatcher.words.item(word // WORD) for word in (c.ARGUMENT, c.ARGUMENT_2))
        board[0] = 1
        thread.join()
        return told

    assert ranks(2, wait)[0] == (1, 5)


def test_a_batch_is_made_of_tuples(ranks):
    """The descriptions can be kept, compared and taken apart; a batch without messages is empty."""

    def batch(comm) -> list:
        one = shmcoll.Send([1.5, 2.5], 0, 3)
        works = comm.batch(iter([one, shmcoll.Recv(tag=3), shmcoll.Recv(np.zeros(1), 0, 4), shmcoll.Send([4.0], 0, 4)]))
        assert comm.batch([]) == [] and one == shmcoll.Send([1.5, 2.5], 0, 3)
        return [None if (told := work.wait()) is None else (told[0].tolist(), *told[1:]) for work in works]

    assert ranks(1, batch) == [[None, ([1.5, 2.5], 0, 3), ([4.0], 0, 4), None]]


def test_a_look_costs_the_same_for_many_receives(ranks, monkeypatch):
    """One native call finds the next message, and whether a source has left is asked once."""

    def look(comm) -> tuple[int, int, int]:
        monkeypatch.setattr(comm._dispatcher.worker, "start", lambda operation: None)  # it would look, too
        posted, other = comm._dispatcher.posted, 1 - comm.rank
        works = [comm.recv(source=other, tag=i, async_op=True) for i in range(50)]
        comm.send(np.ones(1), other, 41)
        comm.barrier()
        tries, asked = [], []
        enter, has_left = posted._enter, posted._has_left
        monkeypatch.setattr(posted, "_enter", lambda *call, **options: tries.append(call) or enter(*call, **options))
        monkeypatch.setattr(posted, "_has_left", lambda source: asked.append(source) or has_left(source))
        status, found = posted._find(patiently=False)
        assert status == c.FOUND
        first_look = len(tries)
        posted._enter(None, MARK)  # lets other calls enter
        posted._look_for_the_late(lost=False)
        comm.barrier()  # until now the source has not left
        for work in works:
            work.cancel()
        comm._dispatcher.words[c.OWNER // WORD] = 0
        return works.index(found), first_look, len(asked)

    assert ranks(2, look) == [(41, 1, 1)] * 2


def test_an_error_that_a_look_finds_quotes_a_receive(ranks, monkeypatch):
    """The look is for a message of any kind; the group has ended before it."""

    def look(comm) -> str:
        monkeypatch.setattr(comm._dispatcher.worker, "start", lambda operation: None)
        posted = comm._dispatcher.posted
        work = comm.recv(source=0, tag=7, async_op=True)
        comm._dispatcher.group.abort()
        status, found = posted._find(patiently=True)
        assert status == c.ABORTED and found is None
        error = posted._error(work, status)
        work.cancel()
        return str(error)

    assert "recv(source=0, tag=7)" in ranks.outcomes(1, look, timeout=20.0)[0].value


def leave_a_long_message(comm) -> list[int]:
    """Return how much of the list the probes of a thread count as served: before a long message has come, and after."""
    long = np.zeros(PART_BYTES + 1, np.uint8)
    if comm.rank == 1:
        comm.recv(source=0, tag=4)
        sent = comm.send(long, 0, 1, async_op=True)
        comm.send(long[:8], 0, 2)
        sent.wait()
        return []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comm._dispatcher.worker, "start", lambda operation: None)  # it would take turns, too
        posted = comm.recv(source=1, tag=1, async_op=True)
        told, served = [], comm._dispatcher.posted
        for has_come in (False, True):
            if has_come:
                comm.send(long[:8], 1, 4)
                until(lambda: comm.iprobe(1, 2))
            before = served.served
            comm.iprobe(1, 3)
            told.append(served.served - before)
    comm._dispatcher.worker.start("recv")
    assert posted.wait()[0].size == PART_BYTES + 1
    comm.recv(source=1, tag=2)
    return told


def test_a_thread_that_leaves_a_message_to_the_worker_does_not_count_as_serving(ranks):
    """The worker leaves the list to threads that serve it, so nobody would read the message."""
    before, after = ranks(2, leave_a_long_message)[0]
    assert before > after == 0


def test_a_blocking_receive_that_fails_is_not_lost(ranks):
    """Its thread raises the failure. A daemon thread that the interpreter has left behind in it cannot."""

    def unseen(comm) -> list[bool]:
        if comm.rank == 1:
            return []
        receives = [comm.recv(source=1, tag=9, async_op=True) for _ in range(2)]
        receives[0].is_awaited = True
        until(lambda: all(receive.done() for receive in receives))
        kept = [receive._failure in lost_failures._unseen for receive in receives]
        with pytest.raises(shmcoll.RankFailed):
            receives[1].wait()
        return kept

    assert ranks(2, unseen)[0] == [False, True]


def test_a_test_waits_for_a_short_message_that_another_thread_reads(ranks):
    """So a program that knows from its synchronous sender that the message is taken finds it received."""

    def use(comm) -> bool:
        if comm.rank == 0:
            comm.send(np.arange(3), 1, synchronous=True)
            comm.barrier()
            return True
        waiting.READING = PATIENCE
        posted, reads, goes_on = comm._dispatcher.posted, threading.Event(), threading.Event()
        read = posted._read

        def slowly(receive, *, briefly: bool) -> None:
            reads.set()
            goes_on.wait(PATIENCE)
            read(receive, briefly=briefly)

        posted._read = slowly
        work = comm.recv(np.zeros(3, int), source=0, async_op=True)
        assert reads.wait(PATIENCE)  # the worker
        threading.Timer(0.01, goes_on.set).start()
        assert work.test()
        comm.barrier()
        return work.wait()[0].tolist() == [0, 1, 2]

    assert ranks(2, use) == [True, True]
