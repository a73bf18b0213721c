"""Ranks that wait for one another in receives learn it after a second; ranks that only seem to do so go on.

A wait looks for a circle after `DEADLOCK_SLICES` time slices. Here a time slice is short (`quick`), so that tests are.
"""

import contextlib
import os
import random
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

import shmcoll
from shmcoll.engine import layout
from shmcoll.engine.layout import WORD
from shmcoll.errors import CollectiveTimeout, Deadlock, RankFailed
from tests.support import switches
from tests.support.ranks import mailbox
from tests.support.waiting import until

SLICE = 2_000_000  # ns
LOOKS = switches.until_looks(SLICE)

X = np.arange(3)


def quick(comm: Any) -> Any:
    """Shorten the time slices of a communicator."""
    switches.set_slice(comm, SLICE)
    return comm


def line_of(text: str) -> str:
    """A call in a text without its line."""
    return text.rpartition(" at ")[0]


def caught(call: Any) -> tuple[str, str, Any, Any]:
    try:
        call()
    except shmcoll.ShmcollError as e:
        return type(e).__name__, str(e), e.missing, e.calls
    return "", "", None, None


def test_two_ranks(ranks):
    """Both say the same, with both lines; a later call says it again."""

    def run(comm) -> list:
        quick(comm)
        first = caught(lambda: comm.recv(source=1 - comm.rank, tag=5 + comm.rank))
        return [first, caught(comm.barrier)]

    told = ranks(2, run)
    (kind, text, missing, calls), _ = told[0]
    assert (kind, missing) == ("Deadlock", (1,))
    assert text.startswith("ranks 0, 1 wait for one another: rank 0 in recv(source=1, tag=5) at ")
    assert "; rank 1 in recv(source=0, tag=6) at " in text
    assert "nothing that they wait for is on its way. One of them must send first" in text
    assert text.count("test_deadlock.py:") == 2
    assert {rank: line_of(call) for rank, call in calls.items()} == {
        0: "recv(source=1, tag=5)",
        1: "recv(source=0, tag=6)",
    }
    assert [[one[:2] for one in outcome] for outcome in told] == [[(kind, text)] * 2] * 2
    assert told[1][0][2:] == ((0,), calls)
    assert issubclass(Deadlock, CollectiveTimeout) and shmcoll.Deadlock is Deadlock


def test_a_circle_in_a_group_and_who_waits_for_it(ranks):
    """Three of a group of four wait for one another, one of them for an object; the fourth waits for one of them. The
    world goes on."""

    def run(comm) -> Any:
        half = quick(comm.split(comm.rank // 4))
        if comm.rank < 4:
            found = caught(lambda: half.barrier())
        elif half.rank == 3:
            found = caught(lambda: half.recv(source=0))
        elif half.rank == 1:
            found = caught(lambda: half.recv_object(source=2))
        else:
            found = caught(lambda: half.recv(source=(half.rank + 1) % 3))
        return found, int(comm.all_reduce(1))

    told = ranks(8, run)
    assert [total for _, total in told] == [8] * 8
    found = [one for one, _ in told]
    assert [kind for kind, *_ in found] == [""] * 4 + ["Deadlock"] * 3 + ["RankFailed"]
    assert [missing for *_, missing, _ in found[4:7]] == [(1,), (2,), (0,)]
    text = found[4][1]
    assert "rank 1 (world rank 5) in recv_object(source=2 (world rank 6), tag=0) at " in text or (
        "rank 1 (world rank 5) in recv_object(source=2 (world rank 6), tag=ANY) at " in text
    )
    assert [one[1] for one in found[4:7]] == [text] * 3
    assert found[7][1].endswith(text) and found[7][1].startswith("recv(source=0 (world rank 4), tag=ANY) on rank 3")


def test_messages_that_do_not_fit_and_other_communicators_do_not_help(ranks):
    """A message with another tag has come, and another thread has sent on a copy of the communicator."""

    def run(comm) -> Any:
        other, ended, sent = comm.dup(), threading.Event(), 0
        comm.send(X, 1 - comm.rank, tag=9)

        def work() -> None:
            nonlocal sent
            while not ended.is_set() and sent < 100_000:
                other.sendrecv(X, 1 - comm.rank, None, 1 - comm.rank)
                sent += 1
                if sent == 20:
                    enough.set()

        def quietly() -> None:
            with contextlib.suppress(shmcoll.ShmcollError):  # the other rank has ended its copy
                work()

        enough = threading.Event()
        thread = threading.Thread(target=quietly)
        thread.start()
        enough.wait(20)
        found = caught(lambda: quick(comm).recv(source=1 - comm.rank, tag=8))
        ended.set()
        other.abort("seen enough")
        thread.join()
        return found[0], found[1], sent >= 20

    for kind, text, sent in ranks(2, run):
        assert (kind, sent) == ("Deadlock", True)
        assert text.count("(waiting to be received: from rank ") == 2 and "with tag 9" in text


def test_another_thread_is_no_proof(ranks):
    """It sends late, on each rank. A thread of this package does not count."""

    def run(comm) -> Any:
        quick(comm)
        late = threading.Timer(4 * LOOKS, comm.send, [X, 1 - comm.rank])
        late.start()
        found = comm.recv(source=1 - comm.rank)[0].tolist()
        late.join()
        comm.all_reduce(X, async_op=True).wait()
        until(lambda: threading.active_count() == 2)  # the worker
        return found, caught(lambda: comm.recv(source=1 - comm.rank))[0]

    assert ranks(2, run) == [(X.tolist(), "Deadlock")] * 2


def test_a_receive_from_anybody_is_no_proof(ranks, board):
    """Rank 1 could receive from rank 2, which sends late. Then all go on."""

    def run(comm) -> list[int]:
        quick(comm)
        if comm.rank == 0:
            return [comm.recv(source=1)[1]]
        if comm.rank == 1:
            found = comm.recv(source=shmcoll.ANY)[1]
            comm.send(X, 0)
            return [found]
        time.sleep(4 * LOOKS)
        comm.send(X, 1)
        return []

    assert ranks(3, run) == [[1], [2], []]


def test_a_chain_is_no_circle(ranks):
    """Rank 2 computes; rank 1 waits for it, rank 0 for rank 1."""

    def run(comm) -> int:
        quick(comm)
        if comm.rank == 2:
            time.sleep(4 * LOOKS)
            comm.send(X, 1)
            return comm.recv(source=0)[1]
        found = comm.recv(source=comm.rank + 1)[1]
        comm.send(X, (comm.rank - 1) % 3)
        return found

    assert ranks(3, run) == [1, 2, 0]


def test_a_stopped_rank_may_have_its_message(ranks, board):
    """Rank 1 is stopped in its receive. Rank 0 sends to it, and waits for the answer: rank 1 still looks asleep."""

    def run(comm) -> int:
        quick(comm)
        if comm.rank == 0:
            until(lambda: board[0])
            comm.send(X, 1)
            board[1] = 1
            return comm.recv(source=1)[1]
        found = comm.recv(source=0)[1]
        comm.send(X, 0)
        return found

    job = ranks.start(2, run)
    receives = mailbox(job.arena, 1) + layout.RECEIVES
    job.until(lambda: job.arena.load(receives) % 2 == 1 and job.parked(1), "rank 1 sleeps")
    os.kill(job.pids[1], signal.SIGSTOP)
    job.until(lambda: stopped(job.pids[1]), "rank 1 is stopped")
    board[0] = 1
    job.until(lambda: board[1], "rank 0 has sent")
    job.until(lambda: job.arena.load(mailbox(job.arena, 0) + layout.RECEIVES) % 2 == 1, "rank 0 sleeps")
    time.sleep(4 * LOOKS)
    assert not job.arena.load(job.arena.world + layout.ABORT)
    os.kill(job.pids[1], signal.SIGCONT)
    assert [outcome.value for outcome in job.finish()] == [1, 0]


def stopped(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"


def test_a_circle_with_a_stopped_rank_is_found(ranks, board):
    """The others need not wait for it: its mailbox says enough, unless it was stopped as it looked around."""

    def run(comm) -> str:
        quick(comm)
        if comm.rank == 0:
            until(lambda: board[0])
        return caught(lambda: comm.recv(source=1 - comm.rank, tag=3))[1]

    job = ranks.start(2, run)
    job.until(lambda: job.arena.load(mailbox(job.arena, 1) + layout.RECEIVES) % 2 == 1, "rank 1 sleeps")
    os.kill(job.pids[1], signal.SIGSTOP)
    board[0] = 1
    job.until(lambda: job.arena.load(job.arena.world + layout.ABORT), "rank 0 finds the circle")
    job.until(lambda: job.ended(0), "rank 0 has ended")
    os.kill(job.pids[1], signal.SIGCONT)
    first, second = (outcome.value for outcome in job.finish())
    assert "rank 1 in recv(source=0, tag=3); nothing" in first, "its line is not known"
    assert "rank 1 in recv(source=0, tag=3) at " in second


def test_messages_in_the_last_moment(ranks, seed):
    """Of two ranks that wait for each other's message in turn, one computes for about as long as it takes to look."""
    rounds = 40

    def run(comm) -> int:
        switches.set_slice(comm, 100_000)
        chance, got = random.Random(seed + comm.rank), 0
        for _ in range(rounds):
            for sender in (0, 1):
                if comm.rank == sender:
                    time.sleep(chance.uniform(0.8, 1.6) * switches.until_looks(100_000))
                    comm.send(X, 1 - sender)
                else:
                    got += int(comm.recv(source=sender)[0][1])
        return got

    print("seed", seed)
    assert ranks(2, run) == [rounds] * 2


def test_collectives_and_messages_in_the_last_moment(ranks, seed):
    """One rank computes for about as long as it takes to look, then sends to another one. That one, and the third, come
    to a collective, long or short, before or after."""
    rounds = 30

    def run(comm) -> int:
        switches.set_slice(comm, 100_000)
        chance, got = random.Random(seed), 0
        for i in range(rounds):
            late, long = i % 3, np.ones(chance.choice([1, 100_000]))
            nap = chance.uniform(0.8, 1.6) * switches.until_looks(100_000)
            if comm.rank == late:
                time.sleep(nap)
                comm.send(X, (late + 1) % 3)
            elif comm.rank == (late + 1) % 3:
                got += int(comm.recv(source=late)[0][1])
            got += int(comm.all_reduce(long)[0]) == 3
        return got

    print("seed", seed)
    assert ranks(3, run) == [rounds + rounds // 3] * 3


def test_a_collective_and_a_receive_of_a_rank_with_threads(ranks, board):
    """A rank in a collective is in a circle whatever threads it has: they come after it."""

    def run(comm) -> Any:
        quick(comm)
        thread = None
        if comm.rank == 0:
            thread = threading.Thread(target=lambda: until(lambda: board[0]))
            thread.start()
        found = caught(lambda: comm.recv(source=0) if comm.rank else comm.all_reduce(X))
        board[0] = 1
        if thread:
            thread.join()
        return found

    (kind, text, missing, calls), other = ranks(2, run)
    assert kind == "Deadlock" and missing == (1,) and (other[0], other[1]) == (kind, text)
    assert text.startswith("ranks 0, 1 wait for one another: rank 0 in all_reduce #1 at ")
    assert {rank: line_of(call) for rank, call in calls.items()} == {0: "all_reduce #1", 1: "recv(source=0, tag=ANY)"}


def test_a_handler_that_raises_ends_a_receive_of_a_circle(ranks, board):
    """Before anybody looks: the handler's exception comes out, and the other rank learns of that."""

    def run(comm) -> str:
        def handler(*_: Any) -> None:
            raise KeyError("by hand")

        signal.signal(signal.SIGUSR1, handler)
        if comm.rank == 0:
            with pytest.raises(KeyError):
                comm.recv(source=1)
            return ""
        with pytest.raises(RankFailed) as error:
            comm.recv(source=0)
        return str(error.value)

    job = ranks.start(2, run)
    asleep = [mailbox(job.arena, rank) + layout.RECEIVES for rank in (0, 1)]
    job.until(lambda: all(job.arena.load(word) % 2 == 1 for word in asleep), "both sleep")
    os.kill(job.pids[0], signal.SIGUSR1)
    assert "rank 0 was interrupted in recv" in job.finish()[1].value


def test_a_handler_that_returns_changes_nothing(ranks):
    def run(comm) -> str:
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
        try:
            return caught(lambda: quick(comm).recv(source=1 - comm.rank))[0]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    assert ranks(2, run) == ["Deadlock"] * 2


def test_a_mailbox_that_makes_no_sense_is_no_circle(ranks, board):
    """What another process has overwritten leads nowhere."""

    def run(comm) -> int:
        quick(comm)
        if comm.rank == 0:
            return comm.recv(source=1)[1]
        arena, box = comm._local_rank.arena, mailbox(comm._local_rank.arena, 1)
        for words in ((0, -8, 1), (0, 1 << 60, 1), (0, 12, 1), (77, 0, 1 << 40), (-3, 0, 1 << 40), (0, 3, 1)):
            for i, value in enumerate(words):
                arena.store(box + layout.RECEIVES_FROM + i * WORD, value)
            arena.store(box + layout.RECEIVES, 1)
            time.sleep(2 * LOOKS)
        arena.store(box + layout.RECEIVES, 2)
        comm.send(X, 0)
        return 0

    assert ranks(2, run) == [1, 0]
