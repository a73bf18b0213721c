"""Ranks of several threads (SHMCOLL_THREADS): every collective gives the same bits, and fails as with one thread."""

import hashlib
import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmcoll
from shmcoll.engine import context as c
from shmcoll.engine.kernels.dtypes import DTYPES, REDUCTIONS
from shmcoll.engine.kernels.kernels import has_kernel
from shmcoll.engine.layout import WORD
from shmcoll.runtime import thread_team
from tests.support.suite import judge, run_cases
from tests.support.suites import ALGORITHMS, mixed
from tests.support.waiting import comes_true

THREADS = {n: {"SHMCOLL_THREADS": str(n)} for n in (1, 2, 3)}
TWO = THREADS[2]
RAISING = shmcoll.op(lambda a, b: a // 0 if b > 5000 else a, dtypes=[])


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few lines are shared, by as many threads as one likes."""
    monkeypatch.setattr(thread_team, "usable_cores", lambda: 3)
    for name, value in (("PIECE_BYTES", 256), ("PART_BYTES", 128), ("ARRAY_BYTES", 256)):
        monkeypatch.setattr(thread_team, name, value)


def helpers() -> list[str]:
    """Return the blocked signals of each helper of this process."""
    told = []
    for task in Path("/proc/self/task").iterdir():
        lines = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
        if lines["Name"].strip() == "shmcoll-helper":
            told.append(lines["SigBlk"].strip())
    return told


def values(rank: int, dtype: np.dtype, count: int) -> np.ndarray:
    """Return bits of all kinds, NaN among them."""
    random = np.random.default_rng(rank)
    if dtype.kind == "b":
        return random.integers(0, 2, count).astype(bool)
    return np.frombuffer(bytearray(random.bytes(count * dtype.itemsize)), dtype)


def digests(comm: Any) -> dict[str, str]:
    """Return what every reduction and move of odd lengths gives, as hashes."""
    told = {}
    for one in DTYPES:
        x = values(comm.rank, one.numpy, 4099)
        for reduction in REDUCTIONS:
            if has_kernel(one, reduction):
                for name in ("all_reduce", "reduce"):
                    result = getattr(comm, name)(x, op=reduction)
                    told[f"{name} {reduction} {one.name}"] = "" if result is None else digest(result)
        for name in ("all_gather", "broadcast"):
            told[f"{name} {one.name}"] = digest(getattr(comm, name)(x))
        told[f"scan {one.name}"] = digest(comm.scan(x, op="lor" if one.numpy.kind == "b" else "max"))
    told["helpers"] = str(len(helpers()))
    return told


def digest(array: np.ndarray) -> str:
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes(), digest_size=8).hexdigest()


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow)])
def test_no_bit_depends_on_the_number_of_threads(ranks: Any, parts: None, size: int) -> None:
    told = {n: ranks(size, digests, environment=THREADS[n]) for n in THREADS}
    for n in told:
        assert [one.pop("helpers") for one in told[n]] == [str(n - 1)] * size
    assert told[1] == told[2] == told[3]


def mixed_cases(comm: Any, seed: int) -> tuple[int, list[str]]:
    return run_cases(comm, mixed(seed, comm.size, 300))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["usual", "ring"])
def test_results_of_all_are_those_of_numpy(ranks: Any, parts: None, seed: int, algorithm: str) -> None:
    shared = {"SHMCOLL_DIRECT_BYTES": "1", "SHMCOLL_EXCHANGE_BYTES": "1024"}
    judge(ranks(2, mixed_cases, seed, environment=THREADS[3] | shared | ALGORITHMS[algorithm]), at_least=140)


def many_things(comm: Any) -> list[str]:
    x, told = np.arange(9001.0), []
    (blocked,) = helpers()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGUSR2):
        told.append(f"{number:d} blocked: {int(blocked, 16) >> (number - 1) & 1}")
    told.append(f"fault blocked: {int(blocked, 16) >> (signal.SIGSEGV - 1) & 1}")
    child = os.fork()
    if child == 0:
        os._exit(0 if thread_team._made == {} and not helpers() else 1)
    told.append(f"child: {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}")
    told.append(f"threads of Python: {threading.active_count()}")
    group = comm.split(0)  # it has the same team
    assert group._dispatcher.words[c.TEAM // WORD] == comm._dispatcher.words[c.TEAM // WORD] != 0
    told.append(str(group.all_reduce(x)[-1]))
    with pytest.raises((ZeroDivisionError, shmcoll.RankFailed)):
        group.all_reduce(x, RAISING)
    told.append(str(comm.all_reduce(x)[-1]))
    return told


def test_errors_signals_forks_and_groups(ranks: Any, parts: None) -> None:
    wanted = [*(f"{n} blocked: 1" for n in (2, 15, 14, 12)), "fault blocked: 0", "child: 0", "threads of Python: 1"]
    assert ranks(2, many_things, environment=TWO) == [[*wanted, "18000.0", "18000.0"]] * 2


def two_callers(comm: Any) -> bool:
    """Two threads of a rank call on two groups at once."""
    groups, x, right = [comm.split(0), comm.split(0)], np.arange(30_001.0), []

    def call(group: Any) -> None:
        right.append(all((group.all_reduce(x) == 2 * x).all() for _ in range(50)))

    threads = [threading.Thread(target=call, args=(group,)) for group in groups]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return right == [True, True]


def test_two_threads_want_the_team(ranks: Any, parts: None) -> None:
    assert ranks(2, two_callers, environment=TWO) == [True, True]


def until_the_end(comm: Any) -> None:
    x, calls = np.ones(1 << 20), [0]

    def kill() -> None:
        comes_true(lambda: calls[0] > 20)
        os.kill(os.getpid(), signal.SIGKILL)

    if comm.rank == 1:
        threading.Thread(target=kill).start()
    while True:
        comm.all_gather(x)
        calls[0] += 1


def test_a_rank_that_is_killed_in_the_middle(ranks: Any, parts: None) -> None:
    first, second = ranks.outcomes(2, until_the_end, environment=TWO, tell=True)
    assert isinstance(first.error, shmcoll.RankFailed), first
    assert second.status == -signal.SIGKILL


def leaves(comm: Any) -> None:
    """The interpreter ends at once after long calls, while helpers poll."""
    comm.all_reduce(np.ones(1 << 20))


def test_the_end_of_a_rank(ranks: Any, parts: None) -> None:
    assert ranks(2, leaves, environment=TWO) == [None, None]


@pytest.mark.parametrize(
    ("ranks", "cores", "threads"), [(1, 3, 3), (2, 3, 1), (2, 16, 3), (2, 4, 2), (4, 2, 1), (1, 1, 1)]
)
def test_auto_is_the_part_of_a_rank(
    monkeypatch: pytest.MonkeyPatch, parts: None, ranks: int, cores: int, threads: int
) -> None:
    monkeypatch.setenv("SHMCOLL_THREADS", "auto")
    assert thread_team.asked(ranks, cores) == threads
    monkeypatch.setattr(thread_team, "most_by_auto", 2)
    assert thread_team.asked(ranks, cores) == min(threads, 2)


@pytest.mark.parametrize("given", ["0", "-1", "many", "1.5", "4", "9" * 30])
def test_a_wrong_number_of_threads(monkeypatch: pytest.MonkeyPatch, parts: None, given: str) -> None:
    monkeypatch.setenv("SHMCOLL_THREADS", given)
    with pytest.raises(
        ValueError, match=f"SHMCOLL_THREADS='{given}' is not a number of threads from 1 to 3, the cores"
    ):
        shmcoll.init()
