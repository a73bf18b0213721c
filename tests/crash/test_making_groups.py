"""A rank is killed, or interrupted, at any instant of a call that makes a group. The others learn so, and at once."""

import os
import random
import signal
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from shmcoll.communicator import communicator, graph, grid, objects
from shmcoll.errors import RankFailed
from shmcoll.runtime import group_directory, group_registry, group_search, shrink
from tests.support import switches
from tests.support.instants import interrupted_where_signals_are_handled

FILES = {
    m.__file__ for m in (communicator, graph, grid, objects, group_directory, group_registry, group_search, shrink)
}
RANKS = 3

#: collectives that make a group of all ranks, or of those of one color
CALLS: dict[str, Callable[[Any], Any]] = {
    "dup": lambda comm: comm.dup(),
    "split": lambda comm: comm.split(0),
    "split by color": lambda comm: comm.split(comm.rank // 2),
    "graph": lambda comm: comm.graph([(comm.rank + 1) % RANKS], [(comm.rank - 1) % RANKS]),
    "grid.sub": lambda comm: comm.grid(RANKS).sub(True),
}
LEAVING = [(call, victim) for call in CALLS for victim in range(RANKS)]


def interrupted_at(k: int, call: Callable[[], Any], sign: int = signal.SIGINT) -> int:
    return interrupted_where_signals_are_handled(k, call, FILES.__contains__, number=sign)


def attempt(comm, call: Callable[[Any], Any], victim: int, k: int, sign: int = signal.SIGINT) -> str:
    """Make a group; the victim gets a signal at the k-th instant of its call. Return what has become of the group."""
    made: list[Any] = []
    try:
        if comm.rank == victim:
            interrupted_at(k, lambda: made.append(call(comm)), sign)
        else:
            made.append(call(comm))
        getattr(made[0], "comm", made[0]).barrier()
        return "made"
    except KeyboardInterrupt:
        return "interrupted"
    except RankFailed as error:
        return str(error)
    finally:
        for one in made:
            getattr(one, "comm", one).close()


def in_a_parent(comm, call: Callable[[Any], Any], victim: int, k: int) -> str:
    parent = comm.dup()
    comm.barrier()
    told = attempt(parent, call, victim, k)
    parent.close()
    comm.barrier()
    return told


def instants_of(comm, call: Callable[[Any], Any]) -> int:
    """Return how many instants a call has on rank 0."""
    made: list[Any] = []
    number = interrupted_at(0, lambda: made.append(call(comm)))
    getattr(made[0], "comm", made[0]).close()
    return int(comm.broadcast(np.array([number]), 0)[0])


def interrupt_often(comm, call: str, victim: int, draw: random.Random | None) -> tuple[list[str], int]:
    """Return what has become of the groups, and how much more memory is held than before."""

    def held() -> int:
        for _ in range(2):  # what an interrupt has kept from being given back
            switches.give_back_memory(comm)
            comm.barrier()
        found = switches.held_by_ranks(comm)
        comm.barrier()  # a leader makes its next group before the others call
        return found

    instants: Sequence[int] = range(1, instants_of(comm, CALLS[call]) + 1)
    before = held()
    told = [in_a_parent(comm, CALLS[call], victim, k) for k in (sorted(draw.sample(instants, 5)) if draw else instants)]
    return told, held() - before


def interrupt_anywhere(ranks, call: str, victim: int, draw: random.Random | None) -> None:
    told = ranks(RANKS, interrupt_often, call, victim, draw)
    is_alone = call == "split by color" and victim == 2
    for outcomes in zip(*(t[0] for t in told), strict=True):
        where = f"{call}, victim {victim}: {outcomes}"
        others = [outcomes[rank] for rank in range(RANKS) if rank != victim and (rank < 2 or call != "split by color")]
        if outcomes[victim] != "interrupted":  # there are fewer instants on that rank
            assert outcomes == ("made",) * RANKS, where
        elif not (is_alone and set(others) == {"made"}):
            assert all(f"rank {victim} " in other for other in others), where
    assert [t[1] for t in told] == [0] * RANKS


@pytest.mark.parametrize(("call", "victim"), LEAVING)
def test_a_rank_that_is_interrupted_in_a_call_that_makes_a_group_is_named(ranks, seed, call, victim):
    interrupt_anywhere(ranks, call, victim, random.Random(f"{seed} {call} {victim}"))


@pytest.mark.stress
@pytest.mark.parametrize(("call", "victim"), LEAVING)
def test_a_rank_that_is_interrupted_at_any_instant_is_named(ranks, call, victim):
    interrupt_anywhere(ranks, call, victim, None)


# --- kills ------------------------------------------------------------------------------------------------------------

#: also what is no collective of the parent, and what waits in routines only
KILLED = CALLS | {
    "subgroup": lambda comm: comm.subgroup(range(RANKS)),
    "views": lambda comm: comm.views(comm.zeros(3)) and comm,
}


#: the ranks that are killed in the short form of the test
FEW = {"dup": (0, 1), "split by color": (1, 2), "graph": (0,), "grid.sub": (1,), "subgroup": (0, 2), "views": (1,)}


def go_on(comm, call: str, victim: int, share: float) -> tuple[str, list[int]]:
    """The victim is killed in the call; the others shrink. share: of the instants, which are before the kill."""
    k = 1 + int(share * instants_of(comm, KILLED[call])) if call != "views" else 0
    if comm.rank == victim and call == "views":
        os.kill(os.getpid(), signal.SIGKILL)
    told = attempt(comm, KILLED[call], victim, k, signal.SIGKILL)
    if comm.rank == victim:  # its call has fewer instants
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RankFailed):
        comm.barrier()
    left = comm.shrink()
    left.barrier()
    return told, left.ranks


def kill_anywhere(ranks, call: str, victim: int, share: float, tell: bool) -> None:
    left = [rank for rank in range(RANKS) if rank != victim]
    outcomes = ranks.start(RANKS, go_on, call, victim, share, tell=tell).finish()
    for outcome in outcomes:
        if outcome.rank != victim:
            assert outcome.error is None, outcome.traceback
            told, living = outcome.value
            assert living == left
            assert f"rank {victim} " in told or told == "made", told


@pytest.mark.parametrize(
    ("call", "victim"),
    [(call, victim) for call, victims in FEW.items() for victim in victims],
)
def test_a_rank_that_is_killed_in_a_call_that_makes_a_group_is_named(ranks, seed, call, victim):
    share = random.Random(f"{seed} {call} {victim}").random()
    kill_anywhere(ranks, call, victim, share, tell=victim % 2 == 0)


@pytest.mark.stress
@pytest.mark.parametrize(("call", "victim"), [(call, victim) for call in CALLS for victim in range(RANKS)])
def test_a_rank_that_is_killed_at_many_instants_is_named(ranks, call, victim):
    for i in range(30):
        kill_anywhere(ranks, call, victim, i / 30, tell=i % 2 == 0)


# --- subgroup, which is no collective of its parent -------------------------------------------------------------------


def lead_and_leave(comm, draw: random.Random) -> list[tuple[str, str]]:
    """The leader is interrupted in `subgroup`. It ends that group for all, and all make the next one."""
    call = partial(type(comm).subgroup, ranks=range(RANKS))
    instants = instants_of(comm, call)
    told, closes = [], comm._local_rank.closes
    for k in draw.sample(range(1, instants + 1), 10):
        before = closes.total()
        first = attempt(comm, call, 0, k)
        if closes.total() == before:  # interrupted so early that it has not called yet
            first = attempt(comm, call, 0, 0)
        told.append((first, attempt(comm, call, 0, 0)))
    return told


def test_a_leader_that_is_interrupted_in_subgroup_is_named_and_may_call_again(ranks, seed):
    for rank, told in enumerate(ranks(RANKS, lead_and_leave, random.Random(seed))):
        for first, second in told:
            assert "rank 0 " in first or (first, second) == ("made", "made") or rank == 0, told
            assert second == "made", told


def member_that_calls_again(comm) -> str:
    """Another member is interrupted while it waits for the leader. It has not called then."""
    if comm.rank == 1:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            comm.subgroup(range(RANKS))
    comm.barrier()
    return attempt(comm, lambda comm: comm.subgroup(range(RANKS)), 0, 0)


def test_a_member_that_is_interrupted_in_subgroup_may_call_again(ranks):
    assert ranks(RANKS, member_that_calls_again) == ["made"] * RANKS


def wait_for_a_leader(comm, board) -> str:
    """Rank 2, which is a member, dies. The leader does not call subgroup."""
    if comm.rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    told = ""
    if comm.rank == 1:
        with pytest.raises(RankFailed) as caught:
            comm.subgroup(range(RANKS))
        told = str(caught.value)
        assert caught.value.rank == 2
    with pytest.raises(RankFailed):
        comm.barrier()
    return told + str(comm.shrink().ranks)


@pytest.mark.parametrize("tell", [False, True])
def test_a_member_that_has_failed_ends_the_wait_for_a_leader(ranks, board, tell):
    told = ranks.start(RANKS, wait_for_a_leader, board, tell=tell).finish()[1]
    assert told.value is not None, told.traceback
    assert told.value.startswith("subgroup of world ranks [0, 1, 2] on world rank 1: world rank 2 ")
    assert told.value.endswith("[0, 1]")
