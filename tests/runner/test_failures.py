"""Ranks that raise, die, or cannot answer: what the caller gets, and that the next call works."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmcoll
from shmcoll.runner import api
from tests.support.small_memory import with_little_memory

METHODS = ("fork", pytest.param("spawn", marks=pytest.mark.slow))


@pytest.fixture(autouse=True)
def the_next_run_works() -> Iterator[None]:
    yield
    assert shmcoll.run(lambda: float(shmcoll.init().all_reduce(np.ones(1))[0]), 3) == [3.0] * 3


def failure(fn: Callable[..., Any], nprocs: int, *args: Any, **options: Any) -> Any:
    with pytest.raises(BaseException) as caught:
        shmcoll.run(fn, nprocs, *args, **options)
    return caught.value


@pytest.mark.parametrize("method", METHODS)
def test_exception_comes_back_and_the_others_are_kept_aside(method: str) -> None:
    def fail() -> None:
        comm = shmcoll.init()
        if comm.rank == 2:
            raise KeyError("bad sample", 41)
        comm.barrier()

    error = failure(fail, 4, method=method)
    assert type(error) is KeyError
    assert error.args == ("bad sample", 41)
    assert error.__notes__ == ["raised by rank 2 of shmcoll.run"]
    text = str(error.__cause__)
    assert 'raise KeyError("bad sample", 41)' in text
    assert "runner/serve_calls.py" not in text
    assert sorted(error.others) == [0, 1, 3]
    for rank, other in error.others.items():
        assert type(other) is shmcoll.RankFailed
        assert str(other) == f"barrier #1 on rank {rank}: rank 2 raised KeyError: ('bad sample', 41)"
        assert other.__notes__ == [f"raised by rank {rank} of shmcoll.run"]


def test_consequence_that_ends_sooner_does_not_win() -> None:
    """Rank 0 wraps what it gets in an error of its own, and rank 1 takes long to end after its own failure."""

    def fail() -> None:
        comm = shmcoll.init()
        if comm.rank == 1:
            threading.Thread(target=time.sleep, args=(0.5,)).start()
            raise ValueError("the cause")
        try:
            comm.barrier()
        except shmcoll.RankFailed as e:
            raise RuntimeError("a consequence") from e

    error = failure(fail, 2)
    assert str(error) == "the cause"
    assert str(error.others[0]) == "a consequence"


def test_rank_that_raised_but_does_not_end_is_ended() -> None:
    def fail() -> None:
        threading.Thread(target=time.sleep, args=(600,)).start()
        raise ValueError("with a thread left")

    assert str(failure(fail, 2)) == "with a thread left"


def test_ranks_that_never_joined_are_ended() -> None:
    def fail() -> None:
        if os.environ["RANK"] == "0":
            raise ValueError("the cause")
        time.sleep(600)

    error = failure(fail, 2)
    assert str(error) == "the cause"
    assert str(error.others[1]) == (
        "rank 1 of shmcoll.run did not end in time after that and was killed by signal 15 (SIGTERM), without a result"
    )


@pytest.mark.parametrize("method", METHODS)
def test_killed_rank_is_named_with_its_signal(method: str) -> None:
    def die() -> None:
        comm = shmcoll.init()
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        comm.barrier()

    error = failure(die, 3, method=method)
    assert type(error) is shmcoll.RankFailed
    assert str(error) == "rank 1 of shmcoll.run was killed by signal 9 (SIGKILL), without a result"
    assert sorted(error.others) == [0, 2]
    assert "rank 1 was killed by signal 9 (SIGKILL)" in str(error.others[0])


@pytest.mark.parametrize("code", [0, 7])
def test_exit_without_a_result(code: int) -> None:
    def leave() -> None:
        comm = shmcoll.init()
        if comm.rank == 1:
            os._exit(code)
        comm.barrier()

    error = failure(leave, 2)
    assert type(error) is shmcoll.RankFailed
    assert str(error) == f"rank 1 of shmcoll.run exited with code {code}, without a result"


def test_system_exit_does_not_end_the_caller(capfd: pytest.CaptureFixture[str]) -> None:
    def leave() -> None:
        raise SystemExit("no more work")

    assert str(failure(leave, 1)) == "rank 0 of shmcoll.run exited with code 1, without a result"
    assert capfd.readouterr().err == "no more work\n"


def test_rank_that_returned_too_early() -> None:
    def leave() -> None:
        comm = shmcoll.init()
        if comm.rank:
            comm.barrier()

    error = failure(leave, 2)
    assert type(error) is shmcoll.RankFailed
    assert "rank 0 left the job without taking part" in str(error)
    assert error.__notes__ == ["raised by rank 1 of shmcoll.run"]


def test_mismatch_is_raised_as_such() -> None:
    def disagree() -> None:
        comm = shmcoll.init()
        comm.all_reduce(np.ones(3 + comm.rank))

    error = failure(disagree, 2)
    assert type(error) is shmcoll.CollectiveMismatch
    assert [type(e) for e in error.others.values()] == [shmcoll.CollectiveMismatch]


def test_result_that_cannot_be_pickled() -> None:
    def generate() -> Any:
        return (i for i in range(3)) if shmcoll.init().rank else None

    error = failure(generate, 2)
    assert type(error) is TypeError
    assert str(error).startswith("the result of rank 1, a generator, cannot be pickled: ")


def test_exceptions_that_cannot_be_sent() -> None:
    class Needy(Exception):
        def __init__(self, a: int, b: int):
            super().__init__("needs two")

    class Locked(Exception):
        def __init__(self) -> None:
            super().__init__("holds a lock")
            self.lock = threading.Lock()

    def fail(kind: int) -> None:
        raise Needy(1, 2) if kind else Locked()

    for kind, told in enumerate(("Locked: holds a lock", "Needy: needs two")):
        error = failure(fail, 1, kind)
        assert type(error) is shmcoll.RankFailed
        assert str(error).startswith("rank 0 raised ")
        assert f"{told} (the exception itself cannot be " in str(error)
        assert "in fail" in str(error.__cause__)


def test_function_that_cannot_be_sent() -> None:
    lock = threading.Lock()

    def inner(depth: int) -> Any:
        return lock if depth == 0 else outer(depth - 1)

    def outer(depth: int) -> Any:
        return inner(depth)

    name = "test_function_that_cannot_be_sent"
    variable = f"the variable 'lock' of {name}.<locals>"
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        (f"{variable}.<lambda>", (lambda: lock, 2), {}),
        (f"{variable}.inner", (outer, 2, 1), {}),
        ("argument 2", (print, 2, 1, lock), {}),
        ("end", (print, 2, 1), {"end": lock}),
        ("argument 1; make a list of it", (print, 2, (x for x in "ab")), {}),
    ]
    for where, args, kwargs in calls:
        with pytest.raises(TypeError, match="the function or an argument cannot be sent to the ranks: TypeError") as e:
            shmcoll.run(*args, **kwargs)
        assert str(e.value).partition("; it is in ")[2] == where


def test_result_that_cannot_be_read_here() -> None:
    class Odd:
        def __reduce__(self) -> Any:
            return (int, ("no number",))

    with pytest.raises(TypeError, match="the result of rank 0 cannot be unpickled here: ValueError: invalid literal"):
        shmcoll.run(lambda: Odd(), 1)


def test_fork_of_a_rank_that_returns_has_no_result() -> None:
    def fork() -> int:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        return child

    assert shmcoll.run(fork, 2)[0] > 0


@pytest.mark.slow
def test_too_little_memory_for_the_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in with_little_memory(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(tmp_path / "little")  # the server has the path of this process
    api.shutdown()  # the next one reads the environment
    try:
        with pytest.raises(shmcoll.ArenaError, match="too little shared memory for the arena of 4 ranks"):
            shmcoll.run(int, 4)
    finally:
        api.shutdown()


def test_too_few_processes() -> None:
    """RLIMIT_NOFILE of the server stands in for all limits that make a start fail half-way."""

    def limit(parent: int) -> None:
        import resource

        resource.prlimit(parent, resource.RLIMIT_NOFILE, (24, 24))

    [server] = shmcoll.run(os.getppid, 1)
    limit(server)
    with pytest.raises(shmcoll.ShmcollError, match=r"cannot start rank \d+ of 30: .*Too many open files"):
        shmcoll.run(time.sleep, 30, 60)
    assert shmcoll.run(os.getppid, 2) == [server, server]
    api.shutdown()  # it has the limit still


def test_ranks_do_not_run_ranks() -> None:
    def nested(join: bool) -> None:
        if join:
            shmcoll.init()
        shmcoll.run(int, 2)

    for join in (False, True):
        with pytest.raises(RuntimeError, match=r"shmcoll.run was called by rank \d of a job"):
            shmcoll.run(nested, 2, join)


def test_bad_timeout_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("SHMCOLL_TIMEOUT", "soon")
        with pytest.raises(ValueError, match="SHMCOLL_TIMEOUT='soon'"):
            shmcoll.run(int, 1)
