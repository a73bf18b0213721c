"""What a rank starts is no rank: its children can neither take part, nor hang there, nor disturb the job.

A forked child has all that its rank has in memory, even a lock that another thread of the rank held at that moment.
"""

import contextlib
import multiprocessing
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import shmcoll
from tests.support import switches
from tests.support.waiting import comes_true

pytestmark = pytest.mark.slow

PATIENCE = 10.0  # seconds that a child may take: it needs none
NO_RANK = "this process was forked by rank"


def in_a_child(function: Callable[[], Any]) -> str:
    """What the function returns in a fork of this process, or raises there, as text; 'it hangs' where it does."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(2 * int(PATIENCE))  # where nobody is left who would end it
        try:
            text = str(function())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode() or b"nothing")
        os._exit(0)
    os.close(write)
    if not select.select([read], [], [], PATIENCE)[0]:
        os.kill(pid, signal.SIGKILL)
    text = os.read(read, 1 << 16).decode() or "it hangs"
    os.close(read)
    os.waitpid(pid, 0)
    return text


GROUP: list[Any] = []

#: what a child may try: on the communicator, a plan and asynchronous work that its rank has made
TRIED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "barrier": lambda comm, plan, work: comm.barrier(),
    "all_reduce": lambda comm, plan, work: comm.all_reduce(np.ones(3)),
    "asynchronous": lambda comm, plan, work: comm.barrier(async_op=True).wait(),
    "all_gather_v": lambda comm, plan, work: comm.all_gather_v(np.ones(3)),
    "an object": lambda comm, plan, work: comm.broadcast_object("x"),
    "send": lambda comm, plan, work: comm.send(np.ones(3), 0),
    "recv": lambda comm, plan, work: comm.recv(),
    "posted recv": lambda comm, plan, work: comm.recv(async_op=True).wait(),
    "a plan": lambda comm, plan, work: plan(),
    "a started plan": lambda comm, plan, work: plan.start().wait(),
    "wait": lambda comm, plan, work: work.wait(),
    "empty": lambda comm, plan, work: comm.empty(3),
    "a shared result": lambda comm, plan, work: comm.all_gather(np.ones(3), shared=True),
    "views": lambda comm, plan, work: comm.views(comm.empty(3)),
    "split": lambda comm, plan, work: comm.split(0),
    "subgroup": lambda comm, plan, work: comm.subgroup([0, 1]),
    "shrink": lambda comm, plan, work: comm.shrink(),
    "init": lambda comm, plan, work: shmcoll.init(),
}


@contextlib.contextmanager
def held_by_another_thread(locks: list[Any]) -> Iterator[None]:
    held, enough = threading.Event(), threading.Event()

    def hold() -> None:
        with contextlib.ExitStack() as stack:
            for lock in locks:
                stack.enter_context(lock)
            held.set()
            enough.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    yield
    enough.set()
    thread.join()


def fork_and_try(comm: Any, locked: bool) -> dict[str, str]:
    """Each of them in a child of its own, while asynchronous work is pending; then the job goes on."""
    GROUP[:] = [comm.subgroup([0, 1])]
    plan = comm.plan("all_reduce", np.ones(2))
    comm.barrier(async_op=True).wait()  # there is a worker now
    told = {}
    for name, attempt in TRIED.items():
        comm.barrier()
        work = comm.recv(tag=1, async_op=True)
        locks = (
            [comm._local_rank.lock, comm._local_rank.heap._lock, comm._dispatcher.worker.turns.guard] if locked else []
        )
        with held_by_another_thread(locks):
            told[name] = in_a_child(lambda attempt=attempt, work=work: attempt(comm, plan, work))
        comm.send(np.arange(3), 1 - comm.rank, 1)
        assert work.wait()[0].tolist() == [0, 1, 2]
        assert comm.all_reduce(np.ones(2)).tolist() == [2, 2]
    assert in_a_child(GROUP[0].close) == "None"
    assert GROUP[0].all_reduce(1) == 2
    return told


@pytest.mark.parametrize("locked", [False, True], ids=["", "locked"])
def test_a_forked_child_is_told_whatever_it_tries(ranks: Any, locked: bool) -> None:
    for told in ranks(2, fork_and_try, locked):
        wrong = {name: text for name, text in told.items() if not text.startswith(f"RuntimeError: {NO_RANK}")
                 and f": {NO_RANK}" not in text}  # fmt: skip
        assert wrong == {}


def test_what_a_child_writes_into_shared_arrays_is_its_own(ranks: Any, tmp_path: Any) -> None:
    """And where it opens files, the arena's descriptor is not mistaken for one of them."""

    def write(comm: Any) -> None:
        shared = comm.full(1000, comm.rank)
        comm.barrier()
        held = switches.held_by_ranks(comm)

        def disturb() -> str:
            path = tmp_path / f"file{comm.rank}"
            files = [path.open("w+") for _ in range(100)]  # one of them gets the number that the arena had
            shared[:] = 7
            comm.abort("in the child")
            with pytest.raises(RuntimeError, match=NO_RANK):
                comm.empty(1000)
            assert path.stat().st_size == 0
            return f"{len(files)} files"

        assert in_a_child(disturb) == "100 files"
        assert (shared == comm.rank).all()
        assert switches.held_by_ranks(comm) == held
        comm.barrier()

    ranks(2, write)


def exit_with(code: int) -> None:
    sys.exit(code)


def raise_bad() -> None:
    raise ValueError("in the child")


ENDS: dict[str, Callable[[], Any]] = {
    "exit": lambda: exit_with(3),
    "exception": raise_bad,
    "_exit": lambda: os._exit(3),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_of_multiprocessing_end_as_they_like(ranks: Any, method: str) -> None:
    """While another thread of the rank calls collectives all the time."""

    def start_them(comm: Any) -> list[int | None]:
        stop = False

        def go_on() -> None:
            while not comm.all_reduce(np.array([stop]), "lor")[0]:
                pass

        thread = threading.Thread(target=go_on)
        thread.start()
        context = multiprocessing.get_context(method)
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - what the exception prints
        os.dup2(sys.stderr.fileno(), 2)
        ends = ENDS.values() if method == "fork" else [raise_bad]
        children = [context.Process(target=end) for end in ends]
        for child in children:
            child.start()
        for child in children:
            child.join(2 * PATIENCE)
        stop = comm.rank == 1
        thread.join()
        comm.barrier()
        return [child.exitcode for child in children]

    expected = [3, 1, 3, -9] if method == "fork" else [1]
    assert ranks(2, start_them) == [expected] * 2


def test_a_subprocess_inherits_nothing_of_the_job(ranks: Any) -> None:
    """Even where all descriptors are handed on."""

    def start(comm: Any) -> str:
        comm.barrier()
        comm.barrier(async_op=True).wait()
        return subprocess.check_output(["ls", "-l", "/proc/self/fd"], close_fds=False, text=True)

    for told in ranks(2, start):
        assert "->" in told
        assert "shm" not in told and "memfd" not in told and "pidfd" not in told


def test_a_child_that_outlives_its_rank_hides_nothing(ranks: Any, board: np.ndarray) -> None:
    def leave(comm: Any) -> str:
        if comm.rank == 1:
            if os.fork() == 0:
                comes_true(lambda: board[0], 2 * PATIENCE)
            os._exit(5)
        with pytest.raises(shmcoll.RankFailed) as told:
            comm.barrier()
        board[0] = 1
        return str(told.value)

    outcomes = ranks.outcomes(2, leave)
    assert "rank 1 left the job without taking part: its process has ended" in outcomes[0].value
