"""Asynchronous calls with real signals, timers, event loops and threads."""

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

from shmcoll.errors import CallNotAllowed, Cancelled, CollectiveTimeout, RankFailed
from tests.support import switches
from tests.support.waiting import comes_true, until, until_asleep

DEADLINE = 20.0


def test_a_receive_can_be_withdrawn_until_its_message_comes(ranks):
    def withdraws(comm) -> list:
        if comm.rank == 1:
            comm.barrier()
            comm.send(np.arange(3), 0, 7)
            return []
        first, second = (comm.recv(None, 1, 7, async_op=True) for _ in range(2))
        with pytest.raises(TimeoutError):
            first.wait(0.01)
        assert first.cancel() and first.cancel() and first.done()
        with pytest.raises(Cancelled):
            first.wait()
        comm.barrier()
        array, *where = second.wait()
        assert not second.cancel()
        barrier = comm.barrier(async_op=True)
        assert comm.size == 2 and not barrier.cancel()
        return [array.tolist(), *where, repr(first), repr(second)]

    def both(comm) -> list:
        told = withdraws(comm)
        if comm.rank == 1:
            comm.barrier()
        return told

    told = ranks(2, both)[0]
    assert told == [[0, 1, 2], 1, 7, "<shmcoll.Work cancelled>", "<shmcoll.Work done>"]


def test_a_race_of_cancel_and_message_loses_nothing(ranks, seed):
    """Each message is received once: by the receive, or, if that was withdrawn, by the next one."""

    def races(comm) -> int:
        import random

        draw, withdrawn = random.Random(seed), 0
        for k in range(300):
            comm.barrier()
            if comm.rank == 1:
                comm.send(np.full(3, k), 0, k % 5)
                continue
            work = comm.recv(None, 1, k % 5, async_op=True)
            time.sleep(draw.choice([0, 0, 1e-5, 1e-4, 1e-3]))
            if work.cancel():
                withdrawn += 1
                array, *_ = comm.recv(None, 1, k % 5)
            else:
                array, *_ = work.wait()
            assert array.tolist() == [k] * 3
        assert not switches.posted(comm) or comm.rank == 1
        return withdrawn

    print("withdrawn:", ranks(2, races)[0])


def test_close_withdraws_receives_and_says_which(ranks, capfd):
    def closes(comm) -> float:
        group = comm.split(0)
        own = group.recv(source=group.rank, async_op=True)
        other = group.recv(source=1 - group.rank, async_op=True)
        begin = time.monotonic()
        group.close()
        spent = time.monotonic() - begin
        for work in (own, other):
            with pytest.raises(Cancelled):
                work.wait()
        return spent

    assert all(spent < DEADLINE for spent in ranks(2, closes, timeout=60.0))
    told = capfd.readouterr().err
    assert told.count("withdraws receives without a message: ") >= 2
    assert "test_async.py:" in told


@pytest.mark.parametrize("how", ["wait_for", "task group", "posted"])
def test_a_cancelled_await_ends_the_await_alone(ranks, board, how):
    def cancels(comm) -> list:
        def begin():
            return comm.recv(None, 1, 1, async_op=True) if how == "posted" else comm.barrier(async_op=True)

        async def main():
            work = begin()
            if how == "task group":
                with contextlib.suppress(BaseExceptionGroup):
                    async with asyncio.TaskGroup() as group:
                        group.create_task(awaited(work))
                        group.create_task(fails())
            else:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(awaited(work), 0.05)
            return work

        async def awaited(work):
            return await work

        async def fails():
            await asyncio.sleep(0.05)
            raise ValueError

        if comm.rank == 0:
            work = asyncio.run(main())
            assert not work.done()
            board[0] = 1
            work.wait()
        else:
            until(lambda: board[0], seconds=DEADLINE)
            comm.send(np.ones(1), 0, 1) if how == "posted" else comm.barrier()
        comm.barrier(async_op=True).wait()
        return comm.all_reduce([1]).tolist()

    assert ranks(2, cancels, timeout=DEADLINE) == [[2]] * 2


def test_awaits_get_results_and_errors(ranks):
    def awaits(comm) -> list:
        async def main():
            works = [comm.all_reduce([k], async_op=True) for k in range(20)]
            received = comm.recv(None, 1 - comm.rank, async_op=True)
            comm.send(np.arange(2), 1 - comm.rank)
            results = await asyncio.gather(*map(wait, works), wait(received))
            with pytest.raises(ValueError):
                await comm.all_reduce([1], "median", async_op=True)
            withdrawn = comm.recv(None, comm.rank, async_op=True)
            asyncio.get_running_loop().call_later(0.02, withdrawn.cancel)
            with pytest.raises(Cancelled):
                await withdrawn
            return [one.tolist() for one in results[:-1]] + [results[-1][0].tolist()]

        async def wait(work):
            return await work

        return asyncio.run(main())

    assert ranks(2, awaits) == [[[2 * k] for k in range(20)] + [[0, 1]]] * 2


INTERRUPTED = {
    "array": lambda comm, out: comm.all_reduce(np.ones(50_000), out=out),
    "lists": lambda comm, out: comm.all_to_all([np.ones(25_000), np.ones(25_000)]),
    "counts": lambda comm, out: comm.all_to_all_v(np.ones(50_000), [25_000] * 2, out=out),
    "object": lambda comm, out: comm.send_object([bytes(300_000), np.ones(50_000)], 1 - comm.rank),
    "recv": lambda comm, out: comm.recv(out, 1 - comm.rank, 1),
    "sendrecv": lambda comm, out: comm.sendrecv(np.ones(50_000), 1 - comm.rank, out, 1 - comm.rank),
}


@pytest.mark.parametrize("call", INTERRUPTED)
def test_an_interrupted_call_that_has_queued_is_over_when_the_exception_comes(ranks, board, call):
    """Its frames are gone, their memory is used again: nobody reads or writes there, and `out` stays as it is."""

    def interrupted(comm) -> str:
        if call in ("array", "lists", "counts"):  # so that what it needs is loaded when the signal comes
            INTERRUPTED[call](comm, np.zeros(50_000))
        if comm.rank == 1:
            until(lambda: board[0], seconds=DEADLINE)
            with contextlib.suppress(RankFailed):
                comm.barrier()
                INTERRUPTED[call](comm, np.zeros(50_000))
            return ""
        out = np.zeros(50_000)
        pending = comm.barrier(async_op=True)
        posted = comm.recv(None, 1, 99, async_op=True)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        signal.signal(signal.SIGALRM, interrupt)
        with pytest.raises(KeyboardInterrupt):
            INTERRUPTED[call](comm, out)
        after = out.copy()
        board[0] = 1
        rubbish = [bytes(300_000) for _ in range(20)]
        for work in (pending, posted):
            with contextlib.suppress(RankFailed):
                work.wait()
        assert (out == after).all() and rubbish
        with pytest.raises(RankFailed) as told:
            comm.barrier()
        return str(told.value)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    told = ranks(2, interrupted, timeout=DEADLINE)[0]
    assert "rank 0 was interrupted in" in told


def test_a_wait_that_is_interrupted_can_be_repeated(ranks, board):
    def waits(comm) -> list:
        if comm.rank == 1:
            until(lambda: board[0], seconds=DEADLINE)
            comm.barrier()
            comm.send(np.arange(100_000), 0, 1)
            return []

        class Alarm(Exception):
            pass

        def alarm(*_: object) -> None:
            raise Alarm

        signal.signal(signal.SIGALRM, alarm)
        works = [comm.barrier(async_op=True), comm.recv(None, 1, 1, async_op=True)]
        interrupts = 0
        for work in works * 10:
            signal.setitimer(signal.ITIMER_REAL, 0.003)
            try:
                work.wait()
            except Alarm:
                interrupts += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
        board[0] = 1
        return [interrupts, works[0].wait(), works[1].wait()[0].sum()]

    assert ranks(2, waits, timeout=DEADLINE)[0] == [20, None, sum(range(100_000))]


def test_a_timer_that_calls_asynchronously_disturbs_nothing(ranks):
    """Handlers come every millisecond, within blocking calls, waits and posts."""

    def busy(comm) -> bool:
        works: list = []

        def handle(*_: object) -> None:
            work = comm.recv(None, comm.rank, 500, async_op=True)
            with contextlib.suppress(CallNotAllowed, TimeoutError):
                work.wait(0)
            with contextlib.suppress(CallNotAllowed, TimeoutError):
                works[-1].wait(0) if works else None
            assert work.cancel()

        signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        peer = 1 - comm.rank
        try:
            go_round(comm, works, peer)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return comes_true(lambda: not switches.posted(comm), 5)

    def go_round(comm, works: list, peer: int) -> None:
        for k in range(150):
            works.append(comm.all_reduce([k], async_op=True))
            received = comm.recv(None, peer, 1, async_op=True)
            comm.send(np.full(3, k), peer, 1)
            assert comm.all_reduce([1]).tolist() == [2]
            assert received.wait()[0].tolist() == [k] * 3
            assert works[-1].wait().tolist() == [2 * k]

    assert ranks(2, busy, timeout=DEADLINE) == [True] * 2


@pytest.mark.slow
def test_a_limit_passes_while_another_thread_holds_the_gil(ranks, board):
    """Each time for longer than a stopped process would sleep."""

    def late(comm) -> bool:
        if comm.rank == 1:
            return comes_true(lambda: board[0], 50)
        comm.timeout = 1.0
        sys.setswitchinterval(0.4)
        is_over = threading.Event()

        def hog() -> None:
            while not is_over.is_set():
                sum(range(1000))

        threading.Thread(target=hog).start()
        work = comm.recv(None, 1, async_op=True)
        try:
            with pytest.raises(CollectiveTimeout):
                work.wait()
            return True
        finally:
            is_over.set()
            board[0] = 1

    assert ranks(2, late) == [True, True]


def test_a_stopped_process_has_not_waited(ranks, board):
    def waits(comm) -> str:
        comm.timeout = 1.0
        if comm.rank == 1:
            board[0] = 1
            until(lambda: board[1], seconds=DEADLINE)
            comm.send(np.ones(1), 0)
            return ""
        work = comm.recv(None, 1, async_op=True)
        until(lambda: board[0], seconds=DEADLINE)
        until_asleep(comm)
        board[2] = 1
        return str(work.wait()[0].tolist())

    job = ranks.start(2, waits)
    job.until(lambda: board[2], "rank 0 waits")
    os.kill(job.pids[0], signal.SIGSTOP)
    time.sleep(1.5)
    board[1] = 1
    os.kill(job.pids[0], signal.SIGCONT)
    assert job.finish()[0].value == "[1.0]"


@pytest.mark.parametrize("method", ["_serve", "_attend"])
def test_time_in_which_nobody_could_look_has_not_been_waited(ranks, board, method):
    """As when the process is stopped before it looks for messages, or between a sleep and the look at the clock."""

    def waits(comm) -> str:
        comm.timeout = 2.0
        if comm.rank == 1:
            until(lambda: board[0], seconds=DEADLINE)
            until_asleep(comm, 0)
            comm.send(np.ones(1), 0)
            return ""
        posted = comm._dispatcher.posted
        right = getattr(posted, method)

        def stopped(*args, **options):
            status = right(*args, **options) if method == "_attend" else None
            if not board[0]:  # longer than the limit
                time.sleep(2.5)
                board[0] = 1
            return right(*args, **options) if method == "_serve" else status

        setattr(posted, method, stopped)
        return str(comm.recv(None, 1, async_op=True).wait()[0].tolist())

    assert ranks(2, waits)[0] == "[1.0]"


@pytest.mark.parametrize("what", ["async", "close", "subgroup", "wait"])
def test_a_handler_during_close_does_not_hang(ranks, board, what):
    """close waits for a call; a handler of its own thread comes meanwhile."""

    def closes(comm) -> str:
        group = comm.split(0)
        if comm.rank == 1:
            until(lambda: board[0], seconds=DEADLINE)
            group.barrier()
            group.close()
            return ""
        told = []

        def handle(*_: object) -> None:
            try:
                {
                    "async": lambda: group.barrier(async_op=True),
                    "close": group.close,
                    "subgroup": lambda: comm.subgroup([0]).close(),
                    "wait": lambda: pending.wait(0.01),
                }[what]()
                told.append("done")
            except (CallNotAllowed, TimeoutError) as error:
                told.append(type(error).__name__)
            board[0] = 1

        pending = group.barrier(async_op=True)
        signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        group.close()
        return told[0]

    wanted = {"async": "CallNotAllowed", "close": "CallNotAllowed", "subgroup": "done", "wait": "TimeoutError"}[what]
    assert ranks(2, closes, timeout=DEADLINE)[0] == wanted


def test_a_thread_that_calls_beside_close_ends(ranks):
    def closes(comm) -> list:
        told = []
        for _ in range(10):
            group = comm.split(0)

            def call(group=group) -> None:
                try:
                    while True:
                        group.barrier(async_op=True)
                        group.send(np.ones(1), group.rank, 1)
                        group.recv(None, group.rank, 1)
                except RuntimeError as error:
                    told.append(str(error))

            threads = [threading.Thread(target=call) for _ in range(2)]
            for thread in threads:
                thread.start()
            time.sleep(0.01)
            group.close()
            for thread in threads:
                thread.join(DEADLINE)
                assert not thread.is_alive()
        return told

    for told in ranks(1, closes, timeout=DEADLINE):
        assert len(told) == 20
        assert all("closed" in text for text in told), set(told)


def test_a_fork_of_a_rank_with_pending_work_drops_it_in_silence(ranks, capfd):
    def forks(comm) -> int:
        work = comm.recv(None, comm.rank, async_op=True)
        failed = comm.all_reduce([1], "median", async_op=True)
        until(failed.done, seconds=DEADLINE)
        pid = os.fork()
        if pid == 0:
            del work, failed
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        with pytest.raises(ValueError):
            failed.wait()
        assert work.cancel()
        return status

    assert ranks(1, forks) == [0]
    assert capfd.readouterr().err == ""
