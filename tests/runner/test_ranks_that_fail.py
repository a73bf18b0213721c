"""Ranks that stay and fail: what the caller gets, whether they still stay, and that nothing hangs or is left."""

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmcoll
from tests.support.waiting import until

pytestmark = pytest.mark.slow


def failure(r: Any, fn: Callable[..., Any], *args: Any, **options: Any) -> Any:
    with pytest.raises(BaseException) as caught:
        r.run(fn, *args, **options)
    return caught.value


def refused(r: Any) -> str:
    """What the next call raises."""
    error = failure(r, int)
    assert type(error) is shmcoll.RankFailed
    text = str(error)
    assert text.startswith("these ranks take no more calls: ")
    assert text.endswith("; open others with shmcoll.ranks")
    return text.removeprefix("these ranks take no more calls: ").removesuffix("; open others with shmcoll.ranks")


def test_they_stay_after_an_exception_that_leaves_nobody_waiting() -> None:
    def fail(ranks: tuple[int, ...]) -> int:
        comm = shmcoll.init()
        comm.barrier()
        if comm.rank in ranks:
            raise KeyError("bad sample", comm.rank)
        time.sleep(0.3)  # it takes longer than the failure
        return comm.rank

    with shmcoll.ranks(3) as r:
        pids = r.run(os.getpid)
        for ranks in ((0, 1, 2), (1,)):
            error = failure(r, fail, ranks)
            assert type(error) is KeyError
            rank = error.args[1]
            assert error.__notes__ == [f"raised by rank {rank} of shmcoll.ranks"]
            assert 'raise KeyError("bad sample", comm.rank)' in str(error.__cause__)
            assert "shmcoll/runner" not in str(error.__cause__)
            assert sorted([rank, *error.others]) == list(ranks)
        assert r.run(fail, ()) == [0, 1, 2]
        assert r.run(os.getpid) == pids


def test_a_rank_that_raises_while_others_wait_for_it_ends_them() -> None:
    def fail() -> None:
        comm = shmcoll.init()
        comm.barrier()
        if comm.rank == 1:
            raise ValueError("bad sample")
        comm.all_reduce(np.ones(3))

    with shmcoll.ranks(3) as r:
        error = failure(r, fail)
        assert (type(error), str(error)) == (ValueError, "bad sample")
        for rank, other in error.others.items():
            assert str(other) == f"all_reduce #2 on rank {rank}: rank 1 raised ValueError: bad sample"
        assert sorted(error.others) == [0, 2]
        assert refused(r) == "rank 1 raised ValueError: bad sample"


def waits_for_a_message(rank: int) -> None:
    comm = shmcoll.init()
    if comm.rank == 0:
        comm.recv(np.empty(1), source=rank)


def waits_in_a_group(_: int) -> None:
    comm = shmcoll.init()
    group = comm.split(comm.rank % 2)
    if comm.rank == 0:
        group.barrier()


def waits_for_the_world(_: int) -> None:
    comm = shmcoll.init()
    if comm.rank == 0:
        comm.barrier()


def waits_for_ranks_that_never_joined(_: int) -> None:
    if os.environ["RANK"] == "0":
        shmcoll.init().barrier()


def waits_for_anybody(_: int) -> None:
    comm = shmcoll.init()
    if comm.rank == 0:
        comm.recv(np.empty(1), source=shmcoll.ANY)


WAITS = (
    waits_for_a_message,
    waits_for_anybody,
    waits_in_a_group,
    waits_for_the_world,
    waits_for_ranks_that_never_joined,
)


@pytest.mark.parametrize("wait", WAITS)
def test_a_rank_that_returns_while_others_wait_for_it_ends_them(wait: Callable[[int], None]) -> None:
    with shmcoll.ranks(3) as r:
        error = failure(r, wait, 2)
        assert type(error) is shmcoll.RankFailed
        assert "has returned from its function, and takes part in no more of this call" in str(error)
        assert error.__notes__ == ["raised by rank 0 of shmcoll.ranks"]
        assert "has returned from its function" in refused(r)


def test_a_rank_that_is_late_is_waited_for() -> None:
    """The others wait for a rank that has not answered, however long."""

    def dawdle(late: int) -> float:
        comm = shmcoll.init()
        if comm.rank == late:
            time.sleep(1.5)
        if comm.rank == 0:
            return 0.0
        if comm.rank == late:
            comm.send(np.ones(1), dest=2)
            return 0.0
        comm.recv(x := np.empty(1), source=late)
        return float(x[0])

    with shmcoll.ranks(3) as r:
        assert r.run(dawdle, 1) == [0.0, 0.0, 1.0]
        assert r.run(int) == [0, 0, 0]


ENDS: dict[str, tuple[Callable[[], Any], str]] = {
    "killed": (lambda: os.kill(os.getpid(), signal.SIGKILL), "was killed by signal 9 (SIGKILL)"),
    "exit": (lambda: os._exit(7), "exited with code 7"),
    "exit 0": (lambda: os._exit(0), "exited with code 0"),
    "SystemExit": (lambda: exec("raise SystemExit(3)"), "exited with code 3"),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_rank_that_ends_ends_them(how: str) -> None:
    end, words = ENDS[how]

    def work() -> None:
        comm = shmcoll.init()
        comm.barrier()
        if comm.rank == 1:
            end()
        comm.barrier()

    with shmcoll.ranks(3) as r:
        error = failure(r, work)
        assert type(error) is shmcoll.RankFailed
        assert str(error) == f"rank 1 of shmcoll.ranks {words}, without a result"
        assert {rank: str(other) for rank, other in error.others.items()} == {
            rank: f"barrier #2 on rank {rank}: rank 1 {words}" for rank in (0, 2)
        }
        assert refused(r) == f"rank 1 {words}"


def test_a_rank_that_ends_between_calls() -> None:
    with shmcoll.ranks(2) as r:
        [pid, other] = r.run(os.getpid)
        os.kill(pid, signal.SIGKILL)
        until(lambda: _has_gone(other))
        assert refused(r) == "rank 0 was killed by signal 9 (SIGKILL)"


def _has_gone(pid: int) -> bool:
    from shmcoll.engine.system.processes import process_start

    return process_start(pid) == 0


def test_the_end_of_the_group_ends_them() -> None:
    def disagree() -> None:
        comm = shmcoll.init()
        comm.all_reduce(np.ones(3 + comm.rank))

    with shmcoll.ranks(2) as r:
        error = failure(r, disagree)
        assert type(error) is shmcoll.CollectiveMismatch
        assert [type(e) for e in error.others.values()] == [shmcoll.CollectiveMismatch]
        assert "all_reduce" in refused(r)


def test_a_time_limit_ends_them_and_shows_where_they_were() -> None:
    def dawdle() -> None:
        comm = shmcoll.init()
        if comm.rank == 1:
            time.sleep(600)
        comm.barrier()

    with shmcoll.ranks(2) as r:
        assert r.run(int, timeout=60) == [0, 0]
        error = failure(r, dawdle, timeout=1.5)
        assert type(error) is TimeoutError
        assert str(error) == "shmcoll.ranks: 1.5 s are over; still running: ranks 0, 1 of 2"
        [note] = error.__notes__
        assert note.startswith("shmcoll.ranks: where the ranks were:\nrank ")
        assert "Rank 1 keeps rank 0 waiting" in note
        assert refused(r) == "the time limit of a call was over"


def test_a_time_limit_does_not_count_between_calls() -> None:
    with shmcoll.ranks(1) as r:
        assert r.run(int, timeout=1.5) == [0]
        time.sleep(1.6)
        assert r.run(int) == [0]


def test_a_killed_server() -> None:
    with shmcoll.ranks(2) as r:
        error = failure(r, lambda: os.kill(os.getppid(), signal.SIGKILL) or time.sleep(600))
        assert str(error) == (
            "the server of shmcoll.ranks was killed by signal 9 (SIGKILL), and all 2 ranks with it; open other ranks"
        )
        assert refused(r) == "their server was killed by signal 9 (SIGKILL)"


def test_a_program_that_closes_what_the_rank_answers_through(capfd: pytest.CaptureFixture[str]) -> None:
    with shmcoll.ranks(2) as r:
        error = failure(r, lambda: os.closerange(3, 1000))
        assert "exited with code 1, without a result" in str(error)
        assert "cannot answer: its program has closed descriptors" in capfd.readouterr().err
        assert "exited with code 1" in refused(r)


def test_a_fork_of_a_rank_that_returns_has_no_result() -> None:
    def fork() -> int:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        return child

    with shmcoll.ranks(2) as r:
        assert min(r.run(fork)) > 0
        assert r.run(int) == [0, 0]
