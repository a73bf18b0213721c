"""Synchronous sends: they return only when the receiver has begun to receive the message."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import shmcoll
from shmcoll.errors import CollectiveTimeout, RankFailed
from tests.support import switches
from tests.support.patience import PATIENCE
from tests.support.waiting import until

LONG = 1 << 20  # elements: more than the rings hold


def receive_some_way(comm, way: str, tag: int):
    """Receive a message of rank 0 with this tag in one of the ways; return its first element."""
    if way == "posted":
        return comm.recv(source=0, tag=tag, async_op=True).wait()[0][0]
    if way == "any":
        return comm.recv(source=shmcoll.ANY, tag=tag)[0][0]
    if way == "into out":
        return comm.recv(np.zeros(LONG + 1, int), 0, tag)[0][0]
    if way == "mprobe":
        return comm.mprobe(0, tag).recv()[0]
    if way == "improbe":
        until(lambda: comm.iprobe(0, tag) is not None)
        return comm.improbe(0, tag).recv()[0]
    if way == "batch":
        return comm.batch([shmcoll.Recv(source=0, tag=tag)])[0].wait()[0][0]
    if way == "sendrecv":
        return comm.sendrecv(np.zeros(1), None, source=0, recvtag=tag)[0][0]
    return comm.recv(source=0, tag=tag)[0][0]


WAYS = ("recv", "posted", "any", "into out", "mprobe", "improbe", "batch", "sendrecv")


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "plain"])
@pytest.mark.parametrize("later", [False, True], ids=["blocking", "async"])
def test_it_returns_when_the_receive_has_begun(ranks, board, monkeypatch, later, fast):
    """Rank 1 first receives another message with another tag, looks at this one, and counts; then it receives."""
    if not fast:
        switches.use_entry(monkeypatch, fast=False)
    sizes = (1, 300, LONG)

    def work(comm) -> int:
        turn = 0
        for way in WAYS:
            for size in sizes:
                turn += 1
                if comm.rank == 0:
                    comm.send(np.zeros(2), 1, 2 * turn)
                    done = comm.send(np.full(size, turn), 1, 2 * turn + 1, synchronous=True, async_op=later)
                    if later:
                        done.wait()
                    assert board[0] == turn, "returned before the receive began"
                else:
                    comm.recv(source=0, tag=2 * turn)
                    assert comm.probe(0, 2 * turn + 1).shape == (size,), "looking does not count"
                    time.sleep(0.003)
                    board[0] = turn
                    assert receive_some_way(comm, way, 2 * turn + 1) == turn
        return turn

    assert ranks(2, work) == [len(WAYS) * len(sizes)] * 2


def test_objects(ranks, board):
    value = {"text": "x", "array": np.arange(30_000.0)}

    def work(comm) -> bool:
        for turn in range(1, 9):
            if comm.rank == 0:
                done = comm.send_object(value, 1, turn, synchronous=True, async_op=turn % 2 == 0)
                if done:
                    done.wait()
                assert board[0] >= turn
            else:
                time.sleep(0.002)
                board[0] = turn
                way = (comm.recv_object, lambda source, tag: comm.recv_object(source, tag, async_op=True).wait())
                received, *rest = way[turn // 4 % 2](0, turn)
                assert rest == [0, turn] and (received["array"] == value["array"]).all()
        return True

    assert ranks(2, work) == [True, True]


def test_both_wait_before_either_receives(ranks):
    """Neither keeps its own calls waiting: blocking sends beside posted receives, asynchronous ones before receives and
    collectives."""

    def work(comm) -> list:
        other = 1 - comm.rank
        told = []
        for size in (1, LONG):
            x = np.full(size, comm.rank)
            pending = [comm.send(x, other, tag, synchronous=True, async_op=True) for tag in range(20)]
            assert comm.all_reduce(1) == 2 and not any(one.done() for one in pending)
            total = comm.all_reduce(np.ones(3), async_op=True)
            for tag in reversed(range(20)):
                assert (comm.recv(source=other, tag=tag)[0] == other).all()
            shmcoll.wait_all(pending)
            assert total.wait()[0] == 2
            posted = comm.recv(source=other, tag=50, async_op=True)
            comm.send(x, other, 50, synchronous=True)
            told.append(int(posted.wait()[0][-1]))
        assert comm.send(np.ones(1), None, synchronous=True) is None
        assert comm.send(np.ones(1), None, synchronous=True, async_op=True).wait() is None
        assert comm.send_object("x", None, synchronous=True) is None
        return told

    assert ranks(2, work) == [[1, 1], [0, 0]]


def test_the_order_is_kept_among_other_messages(ranks):
    """Synchronous and other sends interleave, and the ring is used many times over while one of them waits."""

    def work(comm) -> list:
        n = 400
        if comm.rank == 0:
            waiting = comm.send(np.full(3, -1), 1, 9, synchronous=True, async_op=True)
            works = [comm.send(np.full(i, i), 1, synchronous=i % 3 == 0, async_op=True) for i in range(1, n)]
            shmcoll.wait_all(works)
            assert not waiting.done(), "its message waits still, though all behind it have been received"
            comm.send(np.zeros(1), 1, 8)
            waiting.wait()
            return []
        order = [int(comm.recv(tag=0)[0][0]) for _ in range(1, n)]
        comm.recv(tag=8)
        assert comm.recv(tag=9)[0].tolist() == [-1, -1, -1]
        return order

    assert ranks(2, work)[1] == list(range(1, 400))


def test_to_itself(ranks):
    def work(comm) -> str:
        later = comm.send(np.full(2, 1), 0, 1, synchronous=True, async_op=True)
        with pytest.raises(
            ValueError, match="cannot receive its own message while it waits; post a receive"
        ) as refused:
            comm.send(np.zeros(1), 0, 2, synchronous=True)
        with pytest.raises(ValueError, match=r"send_object\(dest=0, tag=2, synchronous=True\) on rank 0"):
            comm.send_object("x", 0, 2, synchronous=True)
        assert comm.iprobe(0, 2) is None and not later.done(), "nothing has been sent"
        assert comm.recv(source=0)[0].tolist() == [1, 1]
        later.wait(10)
        posted = comm.recv(source=0, tag=3, async_op=True)
        comm.send(np.full(LONG, 3.0), 0, 3, synchronous=True)
        assert posted.wait()[0][-1] == 3
        return str(refused.value)

    assert ranks(1, work)[0].startswith("send(dest=0, tag=2, synchronous=True) on rank 0: ")


def test_a_plan(ranks):
    def work(comm) -> list:
        x, told = np.zeros(2), []
        plan = comm.plan("send", x, 1, synchronous=True) if comm.rank == 0 else comm.plan("recv", x, 0)
        for i in range(3):
            if comm.rank == 0:
                x[:] = i
                plan() if i else plan.start().wait()
            else:
                told.append(plan()[0].tolist())
        return told

    assert ranks(2, work)[1] == [[0, 0], [1, 1], [2, 2]]


def test_another_thread_of_the_sender_receives_meanwhile(ranks):
    """A blocking send keeps no other thread out."""

    def work(comm) -> int:
        if comm.rank == 1:
            comm.send(np.full(1, 5), 0, 5)
            comm.recv(source=0, tag=6)
            return int(comm.recv(source=0, tag=4)[0][0])
        thread = threading.Thread(target=comm.send, args=(np.full(1, 4), 1, 4), kwargs={"synchronous": True})
        thread.start()
        answer = int(comm.recv(source=1, tag=5)[0][0])
        comm.send(np.zeros(1), 1, 6)
        thread.join()
        return answer

    assert ranks(2, work) == [5, 4]


@pytest.mark.parametrize("way", ["blocking", "async", "async object"])
def test_the_limit_passes(ranks, board, way):
    def work(comm) -> str:
        if comm.rank == 1:
            until(lambda: board[0])
            return ""
        comm.timeout = 0.2
        send = comm.send_object if way == "async object" else comm.send
        with pytest.raises(CollectiveTimeout) as told:
            work = send(np.zeros(3), 1, 7, synchronous=True, async_op=way != "blocking")
            work.wait(20)
        with pytest.raises(CollectiveTimeout):
            comm.barrier()
        board[0] = 1
        assert told.value.missing == (1,)
        return str(told.value)

    name = "send_object" if way == "async object" else "send"
    told = ranks(2, work)[0]
    assert told.startswith(f"{name}(dest=1, tag=7) on rank 0") and "has not begun to receive this synchronous" in told


@pytest.mark.parametrize("later", [False, True], ids=["blocking", "async"])
def test_the_receiver_leaves(ranks, board, later):
    """A message that it has received before it left counts."""

    def work(comm) -> str:
        group = comm.split(0)
        if comm.rank == 1:
            group.recv(source=0, tag=1)
            group.close()
            board[0] = 1
            comm.barrier()
            return ""
        received = group.send(np.zeros(1), 1, 1, synchronous=True, async_op=True)
        until(lambda: board[0])
        received.wait(10)
        with pytest.raises(RankFailed, match="rank 1 has closed the group") as told:
            work = group.send(np.zeros(1), 1, 2, synchronous=True, async_op=later)
            work.wait(20)
        comm.barrier()
        return str(told.value)

    assert ranks(2, work)[0].startswith("send(dest=1, tag=2) on rank 0")


def test_an_interrupt_leaves_the_message(ranks):
    """Ctrl-C ends the wait. The message is received, and the group goes on."""

    def work(comm) -> list:
        if comm.rank == 1:
            comm.recv(source=0, tag=2)
            return comm.recv(source=0, tag=1)[0].tolist()
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            comm.send(np.full(2, 4), 1, 1, synchronous=True)
        comm.send(np.zeros(1), 1, 2)
        return []

    assert ranks(2, work)[1] == [4, 4]


@pytest.mark.parametrize("later", [False, True], ids=["blocking", "async"])
@pytest.mark.parametrize("launched", [False, True])
def test_the_receiver_is_killed(ranks, board, later, launched):
    """The sender learns of it with and without a launcher. What was received before counts."""

    def work(comm) -> None:
        if comm.rank == 2:
            comm.barrier()
        if comm.rank == 1:
            comm.recv(source=0, tag=1)
            until(lambda: board[0])
            time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGKILL)
        comm.send(np.zeros(1), 1, 1, synchronous=True)
        board[0] = 1
        if work := comm.send(np.zeros(1), 1, 2, synchronous=True, async_op=later):
            work.wait(20)

    for outcome in ranks.outcomes(3, work, tell=launched)[::2]:
        assert type(outcome.error) is RankFailed and outcome.error.rank == 1, outcome
    assert board[0]


def test_a_third_rank_is_killed(ranks):
    def work(comm) -> None:
        if comm.rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if comm.rank == 1:
            comm.recv(source=0, tag=3)
        comm.send(np.zeros(1), 1, 1, synchronous=True)

    for outcome in ranks.outcomes(3, work)[:2]:
        assert type(outcome.error) is RankFailed and outcome.error.rank == 2, outcome


def test_a_group_that_is_closed_meanwhile(ranks):
    def work(comm) -> str:
        group = comm.split(0)
        if comm.rank == 1:
            group.probe(0)
            comm.barrier()
            comm.barrier()
            group.close()
            return ""
        pending = group.send(np.zeros(1), 1, synchronous=True, async_op=True)
        comm.barrier()
        group.close()
        with pytest.raises(shmcoll.CallNotAllowed) as told:
            pending.wait(10)
        comm.barrier()
        return str(told.value)

    assert "this communicator is closed" in ranks(2, work)[0]


def test_a_program_that_waits_for_its_end_says_why(tmp_path):
    """After three seconds it names the line of the send; the receiver comes after that."""
    script = tmp_path / "late.py"
    script.write_text(
        "import time\nimport numpy as np, shmcoll\ncomm = shmcoll.init()\n"
        "if comm.rank == 0:\n    comm.send(np.ones(1), 1, synchronous=True, async_op=True)\n"
        "else:\n    time.sleep(4)\n    comm.recv()\n"
    )
    command = [sys.executable, "-m", "shmrun", "-n", "2", str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0
    assert "this program ends when its synchronous sends have been received: " in ended.stderr
    assert "late.py:5\n" in ended.stderr
