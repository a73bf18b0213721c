"""A fork that user code makes and that comes back into ours ends there. It takes no items, answers nothing, and does no
work of the rank's; a fork of the caller does not go on with the caller's call.

Every call has all results, and the exit codes of the forks are a program's.
"""

import functools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import shmcoll


@pytest.fixture
def forks(tmp_path: Path) -> Iterator[Callable[[], None]]:
    """`forks()` makes three forks: one returns, one raises, one exits. Each has ended as a program of its own would
    before the process goes on."""
    ended = tmp_path / "ended"

    def fork() -> None:
        for way in ("returns", "raises", "exits"):
            if child := os.fork():
                with ended.open("a") as file:
                    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=file)
                continue
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            if way == "raises":
                raise ValueError("in the fork")
            if way == "exits":
                sys.exit(7)
            return

    yield fork
    assert set(ended.read_text().split()) == {"0", "1", "7"}


class AtPickling:
    """Forks when it is pickled, or when it is unpickled, on ranks only."""

    def __init__(self, forks: Callable[[], None], sends: bool, caller: int, data: bytes = b""):
        self.forks, self.sends, self.caller, self.data = forks, sends, caller, data

    def __getstate__(self) -> dict[str, Any]:
        if self.sends and os.getpid() != self.caller:
            self.forks()
        return vars(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if not self.sends and os.getpid() != self.caller:
            self.forks()


def test_items(forks: Any) -> None:
    def work(item: int) -> int:
        if item == 2:
            forks()
        return item * item

    assert shmcoll.map(work, range(10), n=2) == [item * item for item in range(10)]


def test_items_that_fork_when_they_arrive(forks: Any) -> None:
    given = [AtPickling(forks, False, os.getpid()), 1, 2]
    assert shmcoll.map(lambda item: item if type(item) is int else 0, given, n=1) == [0, 1, 2]


def test_a_fork_forgets_an_iterator(capfd: pytest.CaptureFixture[str]) -> None:
    with shmcoll.ranks(1) as ranks:
        for imap in (functools.partial(shmcoll.imap, n=1), ranks.imap):
            results = imap(abs, range(10_000), chunk=1)
            assert next(results) == 0
            if not (child := os.fork()):
                del results
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            assert list(results) == list(range(1, 10_000))
    assert capfd.readouterr().err == ""


@pytest.fixture(params=["fork", "ranks", pytest.param("spawn", marks=pytest.mark.slow)])
def run(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "ranks":
        with shmcoll.ranks(2) as ranks:
            yield ranks.run
    else:
        yield lambda fn, *args: shmcoll.run(fn, 2, *args, method=request.param)


def test_functions_arguments_and_results(forks: Any, run: Any) -> None:
    caller, data = os.getpid(), os.urandom(300_000)  # a pickle longer than the buffer of the file

    def work(item: Any) -> Any:
        forks()
        return shmcoll.init().rank, AtPickling(forks, True, caller, data)

    results = run(work, AtPickling(forks, False, caller))
    assert [(rank, result.data == data) for rank, result in results] == [(0, True), (1, True)]


def test_asynchronous_calls(forks: Any, run: Any) -> None:
    def add(x: int, y: int) -> int:
        forks()
        return x + y

    def work() -> int:
        comm = shmcoll.init().dup()
        return comm.all_reduce_object(comm.rank + 1, add, async_op=True).wait()

    assert run(work) == [3, 3]


def test_a_fork_of_the_caller_while_it_pickles() -> None:
    class Forks:
        def __reduce__(self) -> Any:
            nonlocal child
            if child is None:
                child = os.fork()
            return bytes, (data,)

    data, child, caller = os.urandom(300_000), None, os.getpid()
    try:
        result: Any = shmcoll.run(len, 2, Forks())
    except BaseException as e:
        result = e
    if os.getpid() != caller:
        text = f"process {os.getpid()} is a fork of {caller}, whose call it does not go on with"
        os._exit(40 if type(result) is shmcoll.CallNotAllowed and str(result) == text else 41)
    assert result == [300_000] * 2
    assert child
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 40
