"""Several threads of a rank on one communicator: a thread that waits for a message keeps no other thread from calling.

Each way to wait meets each other call. The other thread begins when the first sleeps in its wait. What the first waits
for comes only after the other call.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.support import switches
from tests.support.threaded import CALLS, WAITS, X, in_thread, take_all
from tests.support.waiting import comes_true, until, until_asleep


def raised(call: Callable[[], Any]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None


def test_every_wait_beside_every_call(ranks):
    """The main thread makes the calls; then it sends what the other rank's thread waits for."""

    def run(comm: Any) -> list[str]:
        other, wrong, group = 1 - comm.rank, [], comm.dup()
        for way, wait in WAITS.items():
            for name, call in CALLS.items():
                found = in_thread(lambda wait=wait: wait(group, other))
                until_asleep(group)
                comm.barrier()
                call(group, other)
                (group.send_object if way == "recv_object" else group.send)(X, other, 7)
                if found().tolist() != X.tolist():
                    wrong.append(f"{way} beside {name}")
                take_all(group)
                comm.barrier()
        return wrong

    assert ranks(2, run, timeout=10.0) == [[]] * 2


def test_servers(ranks):
    """On each rank a thread answers requests of anybody, until each rank says that it needs no more."""

    def run(comm: Any) -> list[list[int]]:
        def serve() -> None:
            left = comm.size
            while left:
                number, source, _ = comm.recv_object(tag=1)
                if number is None:
                    left -= 1
                else:
                    comm.send(np.full(1 + number * 200, number * comm.rank), source, 2)

        served, answers = in_thread(serve), []
        for number in range(60):
            server = number % comm.size
            comm.send_object(number, server, 1)
            array, source, _ = comm.recv(tag=2) if number % 2 else comm.recv(source=server, tag=2)
            answers.append([source, array.size, int(array[0])])
        for server in range(comm.size):
            comm.send_object(None, server, 1)
        served()
        return answers

    wanted = [[n % 3, 1 + n * 200, n * (n % 3)] for n in range(60)]
    assert ranks(3, run) == [wanted] * 3


def test_messages_of_a_rank_to_itself(ranks):
    """Another thread may send, and receive."""

    def run(comm: Any) -> list[Any]:
        told = []
        for wait in WAITS["recv"], WAITS["probe"], WAITS["mprobe"], WAITS["recv from any"]:
            found = in_thread(lambda wait=wait: wait(comm, comm.rank))
            comm.send(X, comm.rank, 7, synchronous=True)
            told.append(found().tolist() == X.tolist())
        alone = [
            type(raised(call)).__name__
            for call in (lambda: comm.recv(source=comm.rank), lambda: comm.send(X, comm.rank, synchronous=True))
        ]
        comm.barrier()  # a rank that has left sends nothing to ANY
        return told + alone

    for n in 1, 2:
        assert ranks(n, run) == [[True] * 4 + ["ValueError"] * 2] * n


def test_two_threads_of_each_rank(ranks):
    """Each has a tag of its own, and plays with the thread of that tag: messages of all lengths, in their order."""

    def run(comm: Any) -> list[int]:
        other = 1 - comm.rank

        def play(tag: int) -> int:
            for turn in range(40):
                x = np.full((3, 20_000, 1)[(turn + tag) % 3], turn)
                if comm.rank == tag % 2:
                    comm.send(x, other, tag, synchronous=turn % 5 == 0)
                assert comm.recv(source=other, tag=tag)[0].tolist() == x.tolist()
                if comm.rank != tag % 2:
                    comm.send(x, other, tag)
            return tag

        return [result() for result in [in_thread(lambda tag=tag: play(tag)) for tag in range(3)]]

    assert ranks(2, run) == [[0, 1, 2]] * 2


def test_a_receive_that_has_begun_comes_before_those_that_are_posted_later(ranks, board):
    """It gives way to the worker, which serves the posted receive, and goes on before that."""

    def run(comm: Any) -> list[int]:
        if comm.rank == 1:
            until(lambda: board[0])
            for i in range(2):
                comm.send(np.array([i]), 0)
            return []
        found = in_thread(lambda: int(comm.recv(source=1)[0][0]))
        until_asleep(comm)
        posted = comm.recv(source=1, async_op=True)
        until(lambda: switches.posted(comm) == 2)
        board[0] = 1
        return [found(), int(posted.wait()[0][0])]

    assert ranks(2, run)[0] == [0, 1]


def test_close_waits_for_a_receive_that_has_given_way(ranks, board):
    def run(comm: Any) -> list[float]:
        group = comm.dup()
        if comm.rank == 1:
            group.recv(source=0)
            until(lambda: board[0])
            group.send(X, 0)
            return []
        found = in_thread(lambda: group.recv(source=1)[0].tolist())
        until_asleep(group)
        group.send(X, 1)
        until(lambda: switches.posted(group))
        worker = group._dispatcher.worker
        ended = in_thread(lambda: (comes_true(lambda: worker._is_over), board.__setitem__(0, 1)))
        group.close()
        ended()
        return found()

    assert ranks(2, run)[0] == X.tolist()


def test_a_limit_that_passes_after_a_receive_has_given_way(ranks, board):
    def run(comm: Any) -> str:
        if comm.rank == 1:
            comm.recv(source=0)
            until(lambda: board[0])
            return ""
        comm.timeout = 0.3
        told = in_thread(lambda: raised(lambda: comm.recv(source=1, tag=3)))
        until_asleep(comm)
        comm.send(X, 1)
        text = str(told())
        board[0] = 1
        return text

    told = ranks(2, run)[0]
    assert told.startswith("recv(source=1, tag=3) on rank 0 at ") and "timed out after 0.3 s; rank 1 has sent" in told
