"""Rooted calls of few bytes run ahead: how far, what arrives after a failure, and how late mismatches are told."""

import os
import signal
from typing import Any

import numpy as np
import pytest

from shmcoll import CollectiveMismatch, CollectiveTimeout, RankFailed
from shmcoll.engine import layout
from shmcoll.engine.protocol.sync import ROOTED
from shmcoll.mindspore import Tensor, communication, ops
from tests.support.frames import line_of
from tests.support.launched import shmrun
from tests.support.ranks import published
from tests.support.waiting import until

__all__ = ["shmrun"]

AHEAD = ROOTED - 1  # calls that a root may have left before the slowest rank has entered the first of them
OF_SCANS = layout.HEADERS - 1  # the same of scans and the first rank
MANY = 3 * layout.HEADERS


def seen(comm, rank: int) -> int:
    return published(comm._local_rank.arena, rank)


def number(i: int) -> np.ndarray:
    return np.full(3, i, np.int64)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_a_root_is_so_many_calls_ahead_and_no_more(ranks, n):
    def run(comm) -> list[int]:
        if comm.rank == 0:
            for i in range(MANY):
                comm.broadcast(number(i))
            return []
        until(lambda: seen(comm, 0) == AHEAD)
        until(lambda: comm._local_rank.arena.load(comm._dispatcher.group.mailbox(0) + layout.PARKED) != 0)
        assert seen(comm, 0) == AHEAD
        return [int(comm.broadcast(None if i % 2 else np.zeros(3, np.int64))[0]) for i in range(MANY)]

    assert ranks(n, run)[1:] == [list(range(MANY))] * (n - 1)


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("includes_own", [True, False])
def test_the_first_rank_of_scans_is_so_many_calls_ahead_and_no_more(ranks, n, includes_own):
    """Then broadcasts, of which its lead allows none before the others have come."""

    def run(comm) -> list[int]:
        call = comm.scan if includes_own else comm.exscan
        if comm.rank > 0:
            until(lambda: seen(comm, 0) == OF_SCANS)
            until(lambda: comm._local_rank.arena.load(comm._dispatcher.group.mailbox(0) + layout.PARKED) != 0)
            assert seen(comm, 0) == OF_SCANS
        sums = [call(number(i)) for i in range(MANY)]
        assert [int(comm.broadcast(number(i))[0]) for i in range(MANY)] == list(range(MANY))
        return [int(one[0]) for one in sums if one is not None]

    for rank, got in enumerate(ranks(n, run)):
        assert got == ([(rank + includes_own) * i for i in range(MANY)] if rank + includes_own else [])


def test_a_root_that_scans_have_brought_ahead_waits_in_its_first_broadcast(ranks):
    def run(comm) -> None:
        if comm.rank == 0:
            for i in range(ROOTED + 2):
                comm.scan(number(i))
            comm.broadcast(number(7))
            assert seen(comm, 1) >= 3
        else:
            until(lambda: seen(comm, 0) == ROOTED + 3)
            until(lambda: comm._local_rank.arena.load(comm._dispatcher.group.mailbox(0) + layout.PARKED) != 0)
            for i in range(ROOTED + 2):
                comm.scan(number(i))
            assert comm.broadcast(None)[0] == 7

    ranks(2, run)


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_sums_that_have_arrived_count_after_a_rank_has_died_twenty_calls_apart(ranks, victim):
    """The first rank dies twenty calls ahead, or another one before it has made a call."""

    def run(comm) -> Any:
        if comm.rank == 0:
            for i in range(20):
                comm.scan(number(i))
        if comm.rank == victim:
            until(lambda: seen(comm, 0) >= 20)
            os.kill(os.getpid(), signal.SIGKILL)
        until(lambda: seen(comm, 0) >= 20)
        got = []
        with pytest.raises(RankFailed, match=f"rank {victim} ") as error:
            for i in range(MANY):
                got.append(int(comm.scan(number(i))[0]))
        return got[:20], error.value.rank

    for outcome in ranks.outcomes(3, run):
        if outcome.rank != victim:
            assert outcome.error is None, outcome.traceback
            got, failed = outcome.value
            assert failed == victim
            if victim != 1 and outcome.rank == 1:
                assert got == [2 * i for i in range(20)]


def test_senders_are_ahead_of_the_root_of_a_gather(ranks):
    def run(comm) -> list[list[int]]:
        if comm.rank == 2:
            until(lambda: seen(comm, 0) == seen(comm, 1) == 10)
        got = [comm.gather(number(10 * comm.rank + i)[:1], root=2) for i in range(10)]
        return [one.tolist() for one in got] if comm.rank == 2 else []

    assert ranks(3, run)[2] == [[i, 10 + i, 20 + i] for i in range(10)]


def test_all_kinds_of_calls_mix(ranks):
    """Each call has a root of its own; every third is one that all ranks enter together, through cells."""

    def run(comm) -> None:
        n, me = comm.size, comm.rank
        for i in range(MANY):
            root = i % n
            x = number(i + root)
            assert (comm.broadcast(x if me == root else None, root) == x).all()
            parts = np.arange(n) + i
            assert comm.scatter(parts if me == root else None, root).tolist() == [me + i]
            gathered = comm.gather(np.array([me + i]), root)
            assert me != root or (gathered == parts).all()
            total = comm.reduce(np.array([me + i]), root=root)
            assert me != root or total.tolist() == [parts.sum()]
            assert comm.scan(np.array([me])).tolist() == [sum(range(me + 1))]
            if i % 3 == 0:
                long = np.arange(2000.0) + i
                assert (comm.broadcast(long if me == root else None, root) == long).all()
                assert (comm.all_reduce(long) == n * long).all()

    ranks(3, run)


@pytest.mark.parametrize("victim", [0, 1])
def test_what_has_arrived_counts_after_a_rank_has_died_ten_calls_apart(ranks, victim):
    """The root dies ten calls ahead, or a reader ten calls behind. The others have all that was sent."""

    def run(comm) -> Any:
        if comm.rank == 0:
            for i in range(10):
                comm.broadcast(number(i))
        elif comm.rank == victim:
            until(lambda: seen(comm, 0) >= 10)
        if comm.rank == victim:
            os.kill(os.getpid(), signal.SIGKILL)
        got = []
        if comm.rank != 0:
            until(lambda: seen(comm, 0) >= 10)
            got = [int(comm.broadcast(None)[0]) for _ in range(10)]
        with pytest.raises(RankFailed, match=f"rank {victim} ") as error:
            for _ in range(MANY):
                comm.broadcast(number(0), root=2)
                comm.barrier()
        return got, error.value.rank

    for outcome in ranks.outcomes(3, run):
        if outcome.rank != victim:
            assert outcome.error is None, outcome.traceback
            assert outcome.value == ([] if outcome.rank == 0 else list(range(10)), victim)


def test_a_root_that_returns_leaves_what_it_has_sent(ranks):
    def run(comm) -> list[int]:
        if comm.rank == 0:
            for i in range(10):
                comm.broadcast(number(i))
            return []
        until(lambda: seen(comm, 0) >= 10)
        return [int(comm.broadcast(None)[0]) for _ in range(10)]

    assert ranks(3, run)[1:] == [list(range(10))] * 2


def differ(comm, other) -> tuple[str, dict[int, str]]:
    x = number(0)
    with pytest.raises(CollectiveMismatch) as error:
        for _ in range(5):
            comm.broadcast(x)
        if comm.rank == 1:
            other(comm, x)
        else:
            comm.broadcast(x)
        for _ in range(MANY):
            comm.broadcast(x)
    return str(error.value), error.value.calls


OTHERS = {
    "a root of its own": (lambda comm, x: comm.broadcast(x, root=1), "broadcast(int64[3], root=1)"),
    "another call": (lambda comm, x: comm.gather(x, root=0), "gather(int64[3], root=0)"),
    "a barrier": (lambda comm, _: comm.barrier(), "barrier()"),
}


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("other", OTHERS)
def test_a_mismatch_found_late_is_told_with_the_call_that_differed(ranks, n, other):
    call, words = OTHERS[other]
    told = ranks(n, differ, call)
    assert all(one == told[0] for one in told)
    text, calls = told[0]
    assert text.startswith("the ranks disagree in operation #6: ")
    assert calls[1].startswith(f"{words} at ")
    usual = f"broadcast(int64[3], root=0) at {line_of(differ, 8)}"
    assert {rank for rank in calls if calls[rank] == usual} == set(range(n)) - {1}
    assert all(line in text for line in calls.values())


@pytest.mark.parametrize("n", [2, 3, 4])
def test_scans_that_differ_are_told_however_late_that_is_found(ranks, n):
    """The last rank makes another call, which the first one finds when it waits for room."""

    def run(comm) -> tuple[str, dict[int, str]]:
        last = comm.rank == n - 1
        if last:
            until(lambda: seen(comm, 0) == OF_SCANS)
        with pytest.raises(CollectiveMismatch) as error:
            for i in range(MANY):
                comm.scan(number(i), "max") if last and i == 2 else comm.scan(number(i))
        return str(error.value), error.value.calls

    told = ranks(n, run)
    assert all(one == told[0] for one in told)
    text, calls = told[0]
    assert text.startswith("the ranks disagree in operation #3: ")
    line = line_of(test_scans_that_differ_are_told_however_late_that_is_found, 10)
    assert calls == {rank: f"scan(int64[3], {'max' if rank == n - 1 else 'sum'}) at {line}" for rank in range(n)}


#: calls in which code of the package, or of a front end, is between the program and the routine
DEEP = {
    "broadcast to None": lambda comm, root: comm.broadcast(number(0) if comm.rank == root else None, root),
    "scatter to None": lambda comm, root: comm.scatter(np.zeros((3, 2)) if comm.rank == root else None, root),
    "a front end": lambda comm, root: ops.Broadcast(root)((Tensor(np.zeros(3)),)),
}


@pytest.mark.parametrize("call", DEEP.values(), ids=DEEP)
def test_the_line_is_the_programs_however_deep_the_call_was(ranks, call):
    def run(comm) -> dict[int, str]:
        communication.init()
        with pytest.raises(CollectiveMismatch) as error:
            call(comm, int(comm.rank == 1))
            ops.Barrier()()
        return error.value.calls

    for calls in ranks(3, run):
        assert all(one.endswith(f" at {line_of(call)}") for one in calls.values()), calls
        assert len(calls) == 3


def test_a_limit_names_the_ranks_for_which_the_call_waits(ranks):
    """A reader waits for the root alone, a root for all that must read before it may write a header again."""

    def run(comm) -> Any:
        comm.timeout = 0.3
        if comm.rank == 0:
            until(lambda: comm._dispatcher.group.has_ended())
            return None
        if comm.rank == 1:
            until(lambda: seen(comm, 2) == 1)
            return None
        with pytest.raises(
            CollectiveTimeout, match=r"broadcast #1 .*rank 0 did not arrive \(has called nothing"
        ) as error:
            comm.broadcast(number(0))
        return error.value.missing

    assert ranks(3, run)[2] == (0,)


def test_a_limit_of_a_root_that_is_ahead(ranks):
    def run(comm) -> Any:
        comm.timeout = 0.3
        if comm.rank == 1:
            comm.broadcast(None)
            until(lambda: comm._dispatcher.group.has_ended())
            return None
        said = rf"broadcast #{AHEAD} .*rank 1 did not arrive \(last called broadcast\(None, root=0\) as #1\)"
        with pytest.raises(CollectiveTimeout, match=said) as error:
            for i in range(MANY):
                comm.broadcast(number(i))
        return error.value.missing

    assert ranks(2, run)[0] == (1,)


def test_a_part_that_does_not_fit_is_refused_on_its_rank_and_the_group_goes_on(ranks):
    def run(comm) -> Any:
        told = ""
        try:
            comm.scatter(
                np.arange(6) if comm.rank == 0 else None, out=np.zeros(3, np.int64) if comm.rank == 1 else None
            )
        except ValueError as error:
            told = str(error)
        assert comm.all_reduce(1) == 3
        assert comm.scatter(np.arange(6) if comm.rank == 0 else None).tolist() == [2 * comm.rank, 2 * comm.rank + 1]
        return told

    refused = "scatter #1: out of rank 1 is int64[3], but rank 0 sends it int64[2]"
    assert ranks(3, run) == ["", refused, ""]


LAST_CALLS = """
import numpy as np, shmcoll

comm = shmcoll.init()
with comm.dup() if {in_a_group} else comm as group:
    group.broadcast(np.arange(4.0), root=0)
    group.broadcast(np.arange(4.0), root=comm.rank % {roots})
"""


@pytest.mark.parametrize("in_a_group", [False, True])
@pytest.mark.parametrize("n", [2, 3])
def test_other_last_calls_are_told_when_the_ranks_leave(shmrun, n, in_a_group):
    """No rank waits for the other in them, and no call follows."""
    for roots in (2, 1):
        done = shmrun("-n", n, shmrun.write(LAST_CALLS.format(in_a_group=in_a_group, roots=roots)))
        told = "the ranks disagree in operation #2: " in done.stderr and "root=1) at job.py:7" in done.stderr
        assert (done.returncode, told) == ((1, True) if roots == 2 else (0, False)), done.stderr


LINES_OF_THE_DEAD = """
import os, time, numpy as np, shmcoll

comm = shmcoll.init()
first = int(comm.all_gather(os.getpid())[0])
if comm.rank == 1:
    while os.path.exists(f"/proc/{first}/exe"):  # not in a process that has ended
        time.sleep(0.001)
for i in range(5):
    comm.broadcast(np.arange(4.0), root=0 if i < 3 else comm.rank)
"""


def test_the_lines_of_a_rank_that_has_ended_are_told(shmrun):
    done = shmrun("-n", 2, shmrun.write(LINES_OF_THE_DEAD))
    told = "rank 0 called broadcast(float64[4], root=0) at job.py:10; rank 1 called broadcast(float64[4], root=1) at"
    assert f"disagree in operation #5: {told} job.py:10" in done.stderr, done.stderr
    assert done.returncode == 1
