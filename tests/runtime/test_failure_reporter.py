"""From statuses to exceptions: a group's end has one cause, told again and again. (Words: tests/crash.)"""

import re
from itertools import pairwise

import numpy as np
import pytest

from shmcoll.engine import context as c
from shmcoll.engine import layout
from shmcoll.engine.layout import WORD
from shmcoll.engine.memory import records
from shmcoll.errors import CollectiveMismatch, CollectiveTimeout, InternalError, RankFailed, ShmcollError


def in_a_rank(ranks, n: int, function):
    """The function's result on rank 0; the others only lend their mailboxes."""

    def run(comm):
        result = function(comm) if comm.rank == 0 else None
        comm._dispatcher.words[c.ACTIVE // WORD] = 0
        return result

    return ranks(n, run)[0]


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (records.RAISED, RankFailed),
        (records.EXITED, RankFailed),
        (records.KILLED, RankFailed),
        (records.INTERRUPTED, RankFailed),
        (records.VANISHED, RankFailed),
        (records.ABORTED, RankFailed),
        (records.TIMED_OUT, CollectiveTimeout),
        (records.MISMATCHED, CollectiveMismatch),
        (records.BROKEN, InternalError),
    ],
)
def test_every_recorded_cause_has_its_exception(ranks, cause, kind):
    def raised(comm) -> tuple[type, str, bool]:
        records.write(comm._local_rank.arena, 1, layout.BY_LAUNCHER, records.FAILED, cause, 1, "what happened")
        first = comm._dispatcher.failures.error("gather", c.ABORTED)
        second = comm._dispatcher.failures.error("barrier", c.ABORTED)
        return type(first), str(first), str(first) == str(second) and first is not second

    got, text, again = in_a_rank(ranks, 2, raised)
    assert got is kind
    assert text.endswith("what happened")
    assert again


def test_an_end_without_a_record_is_still_an_error(ranks):
    error = in_a_rank(ranks, 2, lambda comm: comm._dispatcher.failures.error("gather", c.ABORTED))
    assert type(error) is RankFailed
    assert str(error) == "gather #0 on rank 0: the group was ended without a reason"


def test_a_broken_invariant_asks_for_a_report(ranks):
    error = in_a_rank(ranks, 2, lambda comm: comm._dispatcher.failures.error("gather", c.BROKEN))
    assert type(error) is InternalError
    assert "please report" in str(error)


def test_counts_that_do_not_fit_end_nothing(ranks):
    def judged(comm) -> tuple:
        error = comm._dispatcher.failures.error("all_to_all_v", c.DISAGREE)
        return type(error), comm._dispatcher.failures._ended, comm._local_rank.arena.load(comm._local_rank.arena.world)

    assert in_a_rank(ranks, 2, judged) == (ValueError, None, 0)


@pytest.mark.parametrize(
    ("steps", "awaited", "named"),
    [
        ([0, 3, 2, 2], 3, "rank 3"),
        ([0, 3, 1, 2], 3, "rank 2"),
        ([0, 1, 1, 2], 3, "ranks 1, 2"),
        ([0, -5, 1, 0], 1, "rank 1"),
        ([9, 9, 9, 9], 2, "rank 2"),
    ],
)
def test_where_ranks_wait_in_a_circle_who_has_done_the_fewest_steps_is_to_blame(ranks, steps, awaited, named):
    def blamed(comm) -> str:
        for rank in range(4):
            sleep_for(comm, rank, (rank + 1) % 4, (5 << layout.STEP_BITS) + 100)
        comm._dispatcher.words[c.SEQUENCE // WORD] = 5
        comm._dispatcher.words[c.CULPRIT // WORD] = awaited
        for rank, done in enumerate(steps):
            comm._local_rank.arena.store(
                comm._dispatcher.group.mailbox(rank) + layout.PROGRESS, (5 << layout.STEP_BITS) + done
            )
        return comm._dispatcher.group.names(comm._dispatcher.failures._who_stopped())

    assert in_a_rank(ranks, 4, blamed) == named


@pytest.mark.parametrize(("chain", "named"), [([1], "rank 1"), ([1, 3], "rank 3"), ([3, 2, 1], "rank 1")])
def test_the_end_of_the_chain_of_sleepers_is_to_blame(ranks, chain, named):
    """However few steps the others have done: they cannot."""

    def blamed(comm) -> str:
        comm._dispatcher.words[c.SEQUENCE // WORD] = 5
        comm._dispatcher.words[c.CULPRIT // WORD] = chain[0]
        for rank, peer in pairwise(chain):
            sleep_for(comm, rank, peer, (5 << layout.STEP_BITS) + 2)
        comm._local_rank.arena.store(
            comm._dispatcher.group.mailbox(chain[-1]) + layout.PROGRESS, (5 << layout.STEP_BITS) + 1
        )
        sleep_for(comm, chain[-1], 0, 5 << layout.STEP_BITS)  # which has come
        comm._local_rank.arena.store(comm._dispatcher.group.mailbox(0) + layout.PROGRESS, 5 << layout.STEP_BITS)
        return comm._dispatcher.group.names(comm._dispatcher.failures._who_stopped())

    assert in_a_rank(ranks, 4, blamed) == named


def sleep_for(comm, rank: int, peer: int, value: int) -> None:
    """As if `rank` slept until PROGRESS of `peer` reaches `value`."""
    group, store = comm._dispatcher.group, comm._local_rank.arena.store
    store(group.mailbox(rank) + layout.AWAITED_WORD, group.mailbox(peer) + layout.PROGRESS - group.offset)
    store(group.mailbox(rank) + layout.AWAITED_VALUE, value)
    store(group.mailbox(rank) + layout.AWAITED_PEER, peer + 1)


def test_refusals_are_noted_but_no_interrupts(ranks):
    def noted(comm) -> list[str]:
        told = []
        for kind in (TypeError, ValueError, IndexError, MemoryError, KeyboardInterrupt):
            records.note_refusal(comm._dispatcher.group, 0, 0, "")
            comm._dispatcher.words[c.SEQUENCE // WORD] += 1  # as if there had been an operation
            with pytest.raises(kind), comm._dispatcher.failures.checking("gather") as check:
                assert check == ("gather", 0)
                raise kind("bad")
            told.append(records.ending(comm._dispatcher.group, 0).text)
        return told

    site = r"at .*test_failure_reporter\.py:\d+"
    refused = f"rank 0's call of gather {site} was refused: {{}}: bad"
    texts = in_a_rank(ranks, 1, noted)
    for text, kind in zip(texts, ("TypeError", "ValueError", "IndexError", "MemoryError"), strict=False):
        assert re.fullmatch(refused.format(kind), text)
    assert texts[4:] == [""]


def test_all_are_runtime_errors():
    for kind in (RankFailed, CollectiveTimeout, CollectiveMismatch, InternalError):
        assert issubclass(kind, ShmcollError)
        assert issubclass(kind, RuntimeError)


def test_a_table_is_explained_alike_with_numpy_integers(ranks):
    def explained(comm) -> str:
        with pytest.raises(ValueError) as told:
            comm.all_to_all_v(np.zeros(2), np.array([1, 5]), np.array([0, 1]))
        return str(told.value)

    text = "all_to_all_v #1: rank 0 sends 5 elements from displacement 1 to rank 1, but its source has 2"
    assert ranks(2, explained) == [text] * 2
