"""How ranks end, as their starter records it: each way has a cause, and the causes decide which rank failed first."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from shmcoll.engine import layout
from shmcoll.engine.memory import arena as arenas
from shmcoll.engine.memory import records
from shmcoll.engine.memory.arena import Arena
from shmcoll.engine.memory.group import Group
from shmcoll.startup import exits
from shmcoll.startup.exits import RaisedException, RankProcess
from tests.support.ranks import close


@dataclass
class Rank(RankProcess):
    raised: RaisedException | None = None  # type: ignore[assignment]


@pytest.fixture
def arena() -> Iterator[Arena]:
    made = arenas.create(3, timeout=1)
    yield made
    close(made)


def started(number: int, how: Callable[[], object]) -> Rank:
    """A process that ends by itself; `how` is its last call."""
    pid = os.fork()
    if pid == 0:
        how()
        os._exit(0)
    return Rank(number, pid, os.pidfd_open(pid), time.monotonic_ns())


def ended(number: int, how: Callable[[], object], ended_by: int = 0) -> Rank:
    rank = started(number, how)
    os.waitid(os.P_PID, rank.pid, os.WEXITED | os.WNOWAIT)
    rank.ended_by = ended_by
    assert rank.note_end()
    os.waitpid(rank.pid, 0)
    os.close(rank.pidfd)
    return rank


def kill(signum: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), signum)


def leave(code: int) -> Callable[[], None]:
    return lambda: os._exit(code)


def test_a_rank_that_runs_has_not_ended() -> None:
    rank = started(0, signal.pause)
    assert not rank.note_end()
    assert (rank.status, rank.failed) == (None, False)
    rank.send(signal.SIGKILL)  # it leads no group
    os.waitpid(rank.pid, 0)
    os.close(rank.pidfd)


@pytest.mark.parametrize(
    ("how", "ended_by", "record"),
    [
        (leave(3), 0, (records.EXITED, 3, "exited with code 3")),
        (leave(3), signal.SIGTERM, (records.ENDED_BECAUSE, 3, "exited with code 3")),
        (kill(9), 0, (records.KILLED, 9, "was killed by signal 9 (SIGKILL)")),
        (kill(40), 0, (records.KILLED, 40, "was killed by signal 40 (real-time)")),
        (kill(15), signal.SIGTERM, (records.ENDED_BECAUSE, 15, "was killed by signal 15 (SIGTERM)")),
    ],
)
def test_the_end_of_a_rank_is_recorded(
    arena: Arena, how: Callable[[], None], ended_by: int, record: tuple[int, int, str]
) -> None:
    rank = ended(1, how, ended_by)
    assert rank.failed
    rank.record_failure(arena)
    found = records.read(arena, 1, layout.BY_LAUNCHER)
    assert (found.rank, found.state) == (1, records.FAILED)
    assert (found.cause, found.code, found.text) == record
    assert found.is_consequence == bool(ended_by)
    assert Group.world(arena).has_ended()


@pytest.mark.parametrize("is_consequence", [False, True])
def test_an_exception_counts_however_the_rank_ended(arena: Arena, is_consequence: bool) -> None:
    rank = ended(1, kill(15), ended_by=signal.SIGTERM)
    rank.raised = RaisedException("ValueError: bad", 0, is_consequence)
    rank.record_failure(arena)
    found = records.read(arena, 1, layout.BY_LAUNCHER)
    assert found.cause == (records.RAISED_BECAUSE if is_consequence else records.RAISED)
    assert found.text == "raised ValueError: bad"


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (records.RAISED_BECAUSE, records.EXITED_BECAUSE),
        (records.VANISHED, records.EXITED_BECAUSE),
        (records.RAISED, records.EXITED),
        (records.MISMATCHED, records.EXITED),
    ],
)
def test_a_rank_that_knew_of_a_failure_and_exits(arena: Arena, cause: int, expected: int) -> None:
    """Whatever the words are."""
    records.end(Group.world(arena), 1, cause, "rank 1 raised RankFailed: as a user may say")
    rank = ended(1, leave(5))
    rank.record_failure(arena)
    assert records.read(arena, 1, layout.BY_LAUNCHER).cause == expected


def test_a_departure_is_no_failure(arena: Arena) -> None:
    rank = ended(2, leave(0))
    assert not rank.failed
    rank.record_departure(arena)
    assert records.read(arena, 2, layout.BY_LAUNCHER).state == records.DEPARTED
    assert not Group.world(arena).has_ended()
    assert exits.first_failure(arena, [rank.number]) is None


def test_the_first_failure_is_the_earliest_that_is_no_consequence(arena: Arena) -> None:
    world = Group.world(arena)
    ranks = [ended(number, leave(1)) for number in range(3)]
    records.end(world, 2, records.VANISHED, "rank 0 left the job")
    assert records.first_failure(world).rank == 2  # there is nothing better yet
    for rank in (ranks[2], ranks[0], ranks[1]):
        rank.record_failure(arena)
    assert [records.read(arena, rank, layout.BY_LAUNCHER).cause for rank in range(3)] == [
        records.EXITED,
        records.EXITED,
        records.EXITED_BECAUSE,
    ]
    assert exits.first_failure(arena, range(3)) == 0
    assert records.first_failure(world).rank == 0
    assert [exits.is_consequence(arena, rank) for rank in ranks] == [False, False, True]


def test_where_all_are_consequences_the_earliest_is_the_first(arena: Arena) -> None:
    records.end(Group.world(arena), 2, records.VANISHED, "rank 0 left the job")
    records.end(Group.world(arena), 1, records.VANISHED, "rank 0 left the job")
    ranks = [ended(0, leave(0)), ended(1, leave(1)), ended(2, leave(1))]
    for rank in ranks[1:]:
        rank.record_failure(arena)
    assert exits.first_failure(arena, (1, 2)) == 2


def test_a_rank_that_ended_with_0_is_not_the_first_failure_of_a_job(arena: Arena) -> None:
    """It has ended its group, and its program has gone on to a good end."""
    records.end(Group.world(arena), 0, records.TIMED_OUT, "rank 0 has waited too long")
    ranks = [ended(0, leave(0)), ended(1, leave(1))]
    ranks[1].record_failure(arena)
    assert exits.first_failure(arena, [1]) == 1


def test_of_ranks_found_failed_together_killed_ones_come_first() -> None:
    late, early, exited = ended(0, leave(1)), ended(1, leave(1)), ended(2, leave(1))
    late.raised = RaisedException("late", 7, False)
    early.raised = RaisedException("early", 5, True)
    killed, terminated = ended(3, kill(9)), ended(4, kill(15), ended_by=signal.SIGTERM)
    found = exits.in_order([late, exited, terminated, early, killed])
    assert found == [killed, early, late, exited, terminated]
