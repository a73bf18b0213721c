"""What a torch program sees of a failure: errors that are shmcoll's and torch's, by name, and no rank that waits on."""

import os
import signal
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

import torch.distributed as dist  # noqa: E402

import shmcoll  # noqa: E402
import shmcoll.torch  # noqa: E402
from tests.support.waiting import until  # noqa: E402

LIMIT = timedelta(seconds=30)


def begin(comm: Any, store: Path, timeout: timedelta = LIMIT) -> int:
    dist.init_process_group(
        "shmcoll", store=dist.FileStore(str(store), comm.size), rank=comm.rank, world_size=comm.size, timeout=timeout
    )
    return int(comm.rank)


def failing(call: Any) -> Any:
    try:
        call()
    except dist.DistBackendError as error:
        return isinstance(error, shmcoll.ShmcollError), type(error).__name__, str(error), error.rank, error.missing
    return "nothing"


def a_rank_dies(comm: Any, store: Path) -> Any:
    rank = begin(comm, store)
    dist.barrier()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    tensor = torch.ones(3)
    now = failing(lambda: dist.all_reduce(tensor))
    later = dist.all_reduce(tensor, async_op=True)
    again = failing(later.wait)
    future = dist.all_reduce(tensor, async_op=True).get_future()
    try:
        future.wait()
    except RuntimeError as error:
        text = str(error)
    dist.destroy_process_group()
    return now, again, text, later.is_success(), type(later.exception()).__name__


def test_a_rank_that_dies_is_named(ranks: Any, tmp_path: Path) -> None:
    survivor, dead = ranks.outcomes(2, a_rank_dies, tmp_path / "store")
    assert dead.status == -signal.SIGKILL
    assert survivor.error is None, survivor.traceback
    now, again, text, success, kind = survivor.value
    assert now[:2] == again[:2] == (True, "RankFailed") and now[3] == 1
    assert "rank 1" in now[2] and "RankFailed" in text and "rank 1" in text
    assert (success, kind) == (False, "RankFailed")


def a_callback_waits_for_what_does_not_come(comm: Any, store: Path) -> Any:
    rank, never = begin(comm, store, timedelta(seconds=1)), torch.futures.Future[Any]()
    beside = dist.new_group(timeout=LIMIT)
    if rank == 1:
        dist.barrier(beside)  # until rank 0 has registered its callback
    future = dist.all_reduce(torch.ones(2), async_op=True).get_future()
    if rank == 0:
        chained = future.then(lambda _: never.wait())
        dist.barrier(beside)
        with pytest.raises(RuntimeError, match="a callback of a future has waited 1 s for another future"):
            chained.wait()
    dist.barrier(beside)
    dist.barrier()  # the group goes on
    dist.destroy_process_group()


def test_a_callback_waits_no_longer_than_the_timeout(ranks: Any, tmp_path: Path) -> None:
    ranks(2, a_callback_waits_for_what_does_not_come, tmp_path / "store")


def a_step_without_a_peer(comm: Any, store: Path) -> Any:
    rank = begin(comm, store)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        model(torch.ones(1, 2)).sum().backward()
    except RuntimeError as error:
        return str(error)
    return "nothing"


def test_a_step_of_ddp_without_its_peer_raises(ranks: Any, tmp_path: Path) -> None:
    survivor, _ = ranks.outcomes(2, a_step_without_a_peer, tmp_path / "store")
    assert survivor.error is None, survivor.traceback
    assert "RankFailed" in survivor.value and "rank 1" in survivor.value


class Late:
    """A store that answers late: the process that serves it could have ended before."""

    def __init__(self, store: Any):
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name == "multi_get":
            time.sleep(0.3)
        return getattr(self._store, name)


def is_gone(store: Any) -> bool:
    try:
        store.add("beside", 1)
    except dist.DistNetworkError:
        return True
    return False


def the_rank_with_the_store_ends(comm: Any, board: Any, is_early: bool) -> Any:
    rank = comm.rank
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, 3, True, LIMIT, wait_for_workers=False)
        board[0] = store.port
    while not board[0]:
        os.sched_yield()
    if rank:
        store = dist.TCPStore("127.0.0.1", int(board[0]), 3, False, LIMIT)
    create = partial(shmcoll.torch.join.join, Late(store) if rank == 1 else store, rank, 3, [], LIMIT)
    if is_early:
        made = create()
        return os._exit(0) if rank == 0 else made.size
    dist.init_process_group("shmcoll", store=store, rank=rank, world_size=3, timeout=LIMIT)
    group = dist.new_group([1, 2])
    dist.barrier()
    if rank == 0:
        os._exit(0)
    until(lambda: is_gone(store))
    tensor, message = torch.ones(2), torch.zeros(1)
    dist.all_reduce(tensor, group=group)
    if rank == 1:
        dist.send(torch.ones(1), group=group, group_dst=1)
    else:
        dist.recv(message, group=group, group_src=0)
    dist.barrier(group=group)
    return tensor.tolist()


@pytest.mark.parametrize("is_early", [True, False])
def test_a_group_outlives_the_rank_that_serves_the_store(ranks: Any, board: Any, is_early: bool) -> None:
    outcomes = ranks.outcomes(3, the_rank_with_the_store_ends, board, is_early)[1:]
    assert [one.value for one in outcomes] == [3 if is_early else [2.0, 2.0]] * 2, [one.traceback for one in outcomes]


def a_rank_is_late(comm: Any, store: Path, board: Any) -> Any:
    rank = begin(comm, store, timedelta(milliseconds=300))
    found = None
    if rank == 0:
        found = failing(lambda: shmcoll.torch.monitored_barrier(timeout=timedelta(milliseconds=200)))
        board[0] = 1
    while not board[0]:
        os.sched_yield()
    dist.destroy_process_group()
    # and again, after a failure, with a group of its own
    begin(comm, store.with_name("again"))
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    dist.destroy_process_group()
    return found, tensor.tolist()


def test_a_rank_that_is_late_is_named_and_torch_may_start_again(ranks: Any, tmp_path: Path, board: Any) -> None:
    (found, after), (_, other) = ranks(2, a_rank_is_late, tmp_path / "store", board)
    assert found[:2] == (True, "CollectiveTimeout") and found[4] == (1,)
    assert after == other == [2.0, 2.0]


def ranks_disagree(comm: Any, store: Path) -> Any:
    rank = begin(comm, store)
    return failing(lambda: dist.all_reduce(torch.ones(3 + rank)))


def test_ranks_that_disagree_are_told_so(ranks: Any, tmp_path: Path) -> None:
    for found in ranks(2, ranks_disagree, tmp_path / "store"):
        assert found[:2] == (True, "CollectiveMismatch") and "float32[3]" in found[2] and "float32[4]" in found[2]


def one_stays_away(comm: Any, store: Path) -> Any:
    if comm.rank == 1:
        return "away"
    return failing_join(comm, store)


def failing_join(comm: Any, store: Path) -> Any:
    try:
        begin(comm, store, timedelta(seconds=1))
    except dist.DistBackendError as error:
        return str(error)
    return "nothing"


def test_a_rank_that_does_not_come_is_named(ranks: Any, tmp_path: Path) -> None:
    text, _ = ranks(2, one_stays_away, tmp_path / "store")
    assert "rank 0: ranks [1] of 2 have not joined to make the group within 1 s" in text


def an_aborted_group(comm: Any, store: Path) -> Any:
    begin(comm, store)
    group = dist.new_group()
    dist.barrier(group=group)
    if comm.rank == 1:
        group.abort()
        found = None
    else:
        found = failing(lambda: dist.barrier(group=group))
    dist.barrier()  # the default group goes on
    return found


def test_abort_ends_one_group(ranks: Any, tmp_path: Path) -> None:
    found, _ = ranks(2, an_aborted_group, tmp_path / "store")
    assert found[:2] == (True, "RankFailed") and "has aborted the group" in found[2]
