"""Asynchronous operations: order, results, errors, and how blocking calls and threads queue beside them."""

import gc
import threading
import time
import weakref
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from shmcoll.errors import RankFailed
from shmcoll.runtime.work import Work
from tests.support import switches
from tests.support.calls import LONG, SHORT
from tests.support.waiting import until


def held(comm, board) -> None:
    """Rank 0 comes when the test says so; the others come at once."""
    if comm.rank == 0:
        until(lambda: board[0])


def test_results_come_by_wait_in_any_order(ranks):
    def many(comm) -> list[bool]:
        works = [comm.all_reduce(np.full(k + 1, comm.rank + k), async_op=True) for k in range(50)]
        n, total = comm.size, sum(range(comm.size))
        return [works[k].wait().tolist() == [total + n * k] * (k + 1) for k in reversed(range(50))]

    assert ranks(3, many) == [[True] * 50] * 3


def test_operations_run_in_the_order_they_were_issued(ranks):
    """Were they not, ranks would meet in different operations: CollectiveMismatch."""

    def mixed(comm) -> int:
        works = []
        for k in range(30):
            works.append(comm.barrier(async_op=True))
            works.append(comm.gather(np.full(k, comm.rank), k % comm.size, async_op=True))
            comm.all_reduce(np.full(k + 1, k))
            works.append(comm.all_to_all_v(np.arange(2 * comm.size), [2] * comm.size, async_op=True))
        return len([w.wait() for w in works])

    assert ranks(3, mixed) == [90] * 3


def test_done_and_a_limited_wait(ranks, board):
    def limited(comm) -> list:
        held(comm, board)
        work = comm.all_reduce(np.ones(3), async_op=True)
        told = []
        if comm.rank == 1:
            with pytest.raises(TimeoutError):
                work.wait(0.05)
            told = [work.done(), repr(work)]
            board[0] = 1
        result = work.wait().tolist()
        assert work.wait().tolist() == result
        return [*told, result, work.done(), repr(work)]

    told = ranks(2, limited)
    assert told[1][:2] == [False, "<shmcoll.Work pending>"]
    assert told[1][2:] == told[0] == [[2.0] * 3, True, "<shmcoll.Work done>"]


def test_a_blocking_call_queues_behind_pending_work(ranks, board):
    """Every blocking call in turn, as first call of its kind: nothing is loaded, x is a list, or not contiguous."""

    def queued(comm, call) -> object:
        held(comm, board)
        pending = comm.barrier(async_op=True)
        if comm.rank == 1:
            threading.Timer(0.05, lambda: board.__setitem__(0, 1)).start()
        result = call(comm)
        assert pending.done()
        return result

    calls = {
        "array": lambda comm: comm.all_reduce(np.full(3, 2, np.int16)).tolist(),
        "list": lambda comm: comm.all_reduce([1.5, 2]).tolist(),
        "strided": lambda comm: comm.all_reduce(np.arange(6)[::2], "max").tolist(),
        "exchange": lambda comm: comm.all_to_all(np.arange(4)[::-1]).tolist(),
        "gather": lambda comm: comm.gather([1]) is None,
        "counts": lambda comm: comm.all_to_all_v([1, 2], [1, 1])[0].tolist(),
    }
    for name, call in calls.items():
        board[0] = 0
        told = ranks(2, queued, call)
        wanted = {
            "array": [[4] * 3] * 2,
            "list": [[3.0, 4.0]] * 2,
            "strided": [[0, 2, 4]] * 2,
            "exchange": [[3, 2, 3, 2], [1, 0, 1, 0]],
            "gather": [False, True],
            "counts": [[1, 1], [2, 2]],
        }[name]
        assert told == wanted, name


def test_wrong_arguments_beside_pending_work(ranks, board):
    def wrong(comm) -> str:
        held(comm, board)
        pending = comm.barrier(async_op=True)
        told = ""
        if comm.rank == 1:
            with pytest.raises(ValueError, match="unknown op 'median'") as error:
                comm.all_reduce(np.ones(3), "median")
            told = str(error.value)
            board[0] = 1
        pending.wait()
        comm.barrier()
        return told

    assert "rank 1" in ranks(2, wrong)[1]


def test_errors_come_by_wait(ranks):
    def failing(comm) -> str:
        bad = comm.all_reduce(np.ones(3), "median", async_op=True)
        good = comm.all_reduce(np.ones(3), async_op=True)
        with pytest.raises(ValueError, match="median"):
            bad.wait()
        assert good.wait().tolist() == [2.0] * 3
        if comm.rank == 1:
            comm.abort("enough")
        lost = [comm.barrier(async_op=True) for _ in range(3)]
        texts = []
        for work in lost:
            with pytest.raises(RankFailed) as told:
                work.wait()
            texts.append(str(told.value).partition(": ")[2])
        return texts

    assert ranks(2, failing) == [["rank 1 aborted: enough"] * 3] * 2


def test_work_that_nobody_waits_for_is_completed_at_exit(ranks, board):
    def leave(comm) -> None:
        out = board[8 * (comm.rank + 1) : 8 * (comm.rank + 2)]
        for _ in range(20):
            comm.all_reduce(out, out=out, async_op=True)
        comm.all_reduce(np.full(8, comm.rank + 5), "max", out=out, async_op=True)

    assert ranks(3, leave) == [None] * 3
    assert board[8:32].tolist() == [7] * 24


def test_arguments_live_as_long_as_the_work(ranks):
    def drop(comm) -> bool:
        works = [comm.all_reduce(np.full(50_000, k), async_op=True) for k in range(20)]
        return all((w.wait() == comm.size * k).all() for k, w in enumerate(works))

    assert ranks(2, drop) == [True] * 2


def in_threads(comm, names: list[str], rounds: int) -> list[str]:
    """The same calls in several threads at once, each with a communicator of its own."""
    errors: list[str] = []
    groups = [comm.dup() for _ in range(3)]

    def work(name: str, group: Any) -> None:
        try:
            for _ in range(rounds):
                (SHORT | LONG)[name](group)
        except Exception as error:
            errors.append(f"{name}: {type(error).__name__}: {error}")

    for name in names:
        threads = [threading.Thread(target=work, args=(name, group)) for group in groups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return errors


@pytest.mark.parametrize("fast", [True, False], ids=["fast", "plain"])
def test_threads_of_one_rank_call_at_once(ranks, monkeypatch, fast):
    if not fast:
        switches.use_entry(monkeypatch, fast=False)
    assert ranks(2, in_threads, [*SHORT], 30, timeout=20.0) == [[]] * 2
    assert ranks(2, in_threads, [*LONG], 3, timeout=20.0) == [[]] * 2


def test_the_common_case_has_no_thread(ranks):
    def blocking(comm) -> int:
        for call in SHORT.values():
            call(comm)
        return threading.active_count()

    assert ranks(2, blocking) == [1, 1]


def test_a_work_is_what_an_asynchronous_call_returns(ranks):
    def kinds(comm) -> list[bool]:
        works = [
            comm.barrier(async_op=True),
            comm.all_reduce(1, async_op=True),
            comm.all_to_all(np.zeros(2), async_op=True),
            comm.gather(1, async_op=True),
            comm.all_to_all_v(np.zeros(2), [1, 1], async_op=True),
        ]
        begins = [time.monotonic() for w in works if w.wait() is None or True]
        return [isinstance(w, Work) for w in works] + [a <= b for a, b in pairwise(begins)]

    assert all(all(told) for told in ranks(2, kinds))


def test_a_closed_communicator_takes_no_asynchronous_work(ranks):
    def call(comm) -> None:
        group = comm.split(0)
        group.barrier(async_op=True).wait(20)
        group.close()
        for late in (lambda: group.barrier(async_op=True), lambda: group.recv(async_op=True)):
            with pytest.raises(RuntimeError, match=f"rank.* {comm.rank}: this communicator is closed"):
                late()

    ranks(2, call)


@pytest.mark.slow
def test_a_group_that_has_worked_asynchronously_leaves_nothing(ranks):
    def use(comm) -> None:
        for _ in range(2):
            handlers = len(threading._threading_atexits)
            for _ in range(3):
                group = comm.split(0)
                group.barrier(async_op=True).wait(20)
                posted = group.recv(source=comm.rank, async_op=True)
                group.send(np.ones(1), comm.rank)
                posted.wait(20)
                group.close()
                dispatcher = weakref.ref(group._dispatcher)
                del group, posted
                gc.collect()
                assert dispatcher() is None
        assert len(threading._threading_atexits) == handlers

    ranks(2, use)
