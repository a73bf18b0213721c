"""Calls that are made of other calls (`split`, `views`, objects) beside others whose parts look alike, on 2 or 3 ranks:
`CollectiveMismatch` on all ranks, before anything is returned, naming the calls that the users have made. And calls
that are the same, however they are made, are never told apart."""

import os
import pickle
import signal
from collections.abc import Callable
from itertools import combinations, count
from typing import Any

import numpy as np
import pytest
from numba import njit

from shmcoll import jit
from shmcoll.calls.pickling import LEAST_MOVED
from shmcoll.communicator.object_rows import BYTES, LONGEST, LONGEST_SENT
from shmcoll.communicator.objects import Parts
from shmcoll.diagnostics.flight_log import flights
from shmcoll.diagnostics.rank_status import standings
from shmcoll.engine import context as c
from shmcoll.engine.layout import FLIGHT_ENTRIES, WORD
from shmcoll.errors import CallNotAllowed, CollectiveMismatch, CollectiveTimeout, RankFailed
from tests.support.frames import line_of
from tests.support.waiting import until

Call = tuple[str, Callable[[Any], Any]]  # as the message shows it, and the call

NUMBER, TRIPLE = np.array([7]), np.ones(3, np.int64)

#: every composite call
COMPOSITE: tuple[Call, ...] = (
    ("split()", lambda comm: comm.split(0)),
    ("views()", lambda comm: comm.views(comm.zeros(3))),
    ("broadcast_object(root=0)", lambda comm: comm.broadcast_object(("x", comm.rank))),
    ("gather_object(root=0)", lambda comm: comm.gather_object("x")),
    ("all_gather_object()", lambda comm: comm.all_gather_object("x")),
    ("scatter_object(root=0)", lambda comm: comm.scatter_object(["x"] * comm.size)),
    ("shared all_gather()", lambda comm: comm.all_gather(NUMBER, shared=True)),
    ("shared broadcast(root=0)", lambda comm: comm.broadcast(NUMBER, shared=True)),
)
#: the same calls from another root
FROM_RANK_1: tuple[Call, ...] = (
    ("broadcast_object(root=1)", lambda comm: comm.broadcast_object("x", 1)),
    ("gather_object(root=1)", lambda comm: comm.gather_object("x", 1)),
    ("scatter_object(root=1)", lambda comm: comm.scatter_object(["x"] * comm.size, 1)),
)
#: calls that are like the first part of a composite one
ALIKE: tuple[Call, ...] = (
    (
        "all_to_all(int64[{n}, 3], split_axis=0, concat_axis=0)",
        lambda comm: comm.all_to_all(np.ones((comm.size, 3), np.int64)),
    ),
    (f"all_gather(uint8[1, {BYTES}])", lambda comm: comm.all_gather(np.zeros((1, BYTES), np.uint8))),
    (
        f"broadcast(uint8[1, {BYTES}], root=0)",
        lambda comm: comm.broadcast(np.zeros((1, BYTES), np.uint8)),
    ),
    ("broadcast(int64[1], root=0)", lambda comm: comm.broadcast(NUMBER.copy())),
    ("barrier()", lambda comm: comm.barrier()),
    ("all_gather_v(int64[3])", lambda comm: comm.all_gather_v(TRIPLE)),
)
#: calls that begin with the same part as others, or as each other
BEGUN_ALIKE: tuple[tuple[Call, Call], ...] = (
    (
        ("all_to_all_object()", lambda comm: comm.all_to_all_object(["x"] * comm.size)),
        ("all_to_all_v(uint8[{n}])", lambda comm: comm.all_to_all_v(np.ones(comm.size, np.uint8), [1] * comm.size)),
    ),
    (
        ("reduce_object(root=0)", lambda comm: comm.reduce_object("x")),
        ("reduce_object(root=1)", lambda comm: comm.reduce_object("x", root=1)),
    ),
    (
        ("all_reduce_object()", lambda comm: comm.all_reduce_object("x")),
        ("gather_object(root=0)", lambda comm: comm.gather_object("x")),
    ),
    (
        ("scan_object()", lambda comm: comm.scan_object("x")),
        ("exscan_object()", lambda comm: comm.exscan_object("x")),
    ),
    (
        ("shared gather(root=0)", lambda comm: comm.gather(NUMBER, shared=True)),
        ("shared all_gather()", lambda comm: comm.all_gather(NUMBER, shared=True)),
    ),
    (
        ("shared scatter(root=0)", lambda comm: comm.scatter(np.ones(comm.size), shared=True)),
        ("shared broadcast(root=0)", lambda comm: comm.broadcast(NUMBER, shared=True)),
    ),
)
#: all pairs in which a call is composite
PAIRS = [
    *BEGUN_ALIKE,
    *combinations((*COMPOSITE, *FROM_RANK_1), 2),
    *((one, other) for one in COMPOSITE for other in ALIKE),
]


def disagree(comm, odd: int) -> list[str]:
    """What this rank is told of each pair, in a group of its own; rank `odd` makes the second call of it."""
    told = []
    for one, other in PAIRS:
        group = comm.split(0)
        group.timeout = 10
        group.barrier()
        try:
            got = (other if comm.rank == odd else one)[1](group)
            group.barrier()  # a rank that runs ahead learns of it here
            told.append(f"returned {got!r}")
        except CollectiveMismatch as error:
            told.append(str(error))
        except Exception as error:
            told.append(f"{type(error).__name__}: {error}")
        group.close()
    return told


@pytest.mark.parametrize("n", [2, 3])
def test_every_pair_is_told_apart(ranks, seed, n):
    odd = seed % n
    results = ranks(n, disagree, odd)
    others = [rank for rank in range(n) if rank != odd]
    for told, (one, other) in zip(zip(*results, strict=True), PAIRS, strict=True):
        what = f"{one[0]} beside {other[0]}, seed {seed}"
        assert set(told) == {told[0]}, f"{what}: {told}"
        assert told[0].startswith("the ranks disagree in operation #2: "), f"{what}: {told[0]}"
        names = f"rank {others[0]}" if n == 2 else f"ranks {others[0]}, {others[1]}"
        for who, (call, function) in ((names, one), (f"rank {odd}", other)):
            assert f"{who} called {call.format(n=n)} at {line_of(function)}" in told[0], f"{what}: {told[0]}"


def test_an_algorithm_asked_for_is_told(ranks):
    def differ(comm) -> list[str]:
        told = []
        for call in (
            lambda group, name: group.all_reduce(TRIPLE, algorithm=name and "ring"),
            lambda group, name: group.reduce(TRIPLE, algorithm=name and "cells"),
            lambda group, name: group.reduce_scatter(np.ones(4), algorithm=name and "flat"),
            lambda group, name: group.scan(TRIPLE, algorithm=name and "chain"),
            lambda group, name: group.exscan(TRIPLE, algorithm=name and "flat"),
        ):
            group = comm.split(0)
            with pytest.raises(CollectiveMismatch) as caught:
                call(group, comm.rank or None)
                group.barrier()
            told.append(str(caught.value))
            group.close()
        return told

    first, second = ranks(2, differ)
    assert first == second
    for text, forced in zip(first, ("ring", "cells", "flat", "chain", "flat"), strict=True):
        assert f", algorithm={forced}) at " in text, text
        assert text.count("algorithm=") == 1, text


# --- the same call, made in another way -------------------------------------------------------------------------------


@njit(nogil=True)
def summed(h, x, out):
    jit.all_reduce(h, x, out)


def in_other_ways(comm) -> list[list[Any]]:
    """Each rank makes the same calls in its own way, rotated by one from call to call; in the world and in a group."""
    told = []
    for group in (comm, comm.split(0, -comm.rank)):
        x, out = np.full(3, group.rank + 1.0), np.zeros(3)
        planned, h = group.plan("all_reduce", x, out=out), group.handle
        ways: tuple[Callable[[], Any], ...] = (
            lambda group=group, x=x: group.all_reduce(x),
            lambda group=group, x=x: group.all_reduce(x, async_op=True).wait(),
            planned,
            lambda planned=planned: planned.start().wait(),
            lambda h=h, x=x, out=out: summed(h, x, out) or out,
            lambda group=group, x=x: group.all_reduce(list(x)),
        )
        for turn in range(len(ways)):
            told.append(ways[(turn + comm.rank) % len(ways)]().tolist())
    return told


def test_one_collective_in_many_ways_is_one_call(ranks):
    assert ranks(3, in_other_ways) == [[[6.0] * 3] * 12] * 3


def later_or_now(comm) -> list[Any]:
    """Half of the ranks make composite calls asynchronously and go on at once, with plain calls behind them."""
    later = comm.rank % 2 == 1
    works = [
        comm.all_gather_object(comm.rank, async_op=later),
        comm.broadcast_object("x", 1, async_op=later),
        comm.all_reduce(NUMBER, "max", async_op=later),
        comm.gather_object(comm.rank, 1, async_op=later),
        comm.scatter_object(["a", "b", "c"], 0, async_op=later),
    ]
    views = comm.views(comm.full(2, comm.rank))
    group = comm.split(0, -comm.rank)
    comm.barrier()
    done = [work.wait() for work in works] if later else works
    return [done[0], done[1], int(done[2][0]), done[3], done[4], [int(view[0]) for view in views], group.rank]


def test_composite_calls_take_turns_with_asynchronous_work(ranks):
    for rank, told in enumerate(ranks(3, later_or_now)):
        gathered = [0, 1, 2] if rank == 1 else None
        assert told == [[0, 1, 2], "x", 7, gathered, "abc"[rank], [0, 1, 2], 2 - rank]


# --- composite calls that end early -----------------------------------------------------------------------------------


def refused_first(comm) -> int:
    """A composite call that is refused has no effect on what follows."""
    for call in (
        lambda: comm.broadcast_object(lambda: 0, comm.rank),
        lambda: comm.gather_object(0, comm.size),
        lambda: comm.scatter_object([], comm.rank),
        lambda: comm.split("red"),
    ):
        with pytest.raises((TypeError, ValueError)):
            call()
        assert int(comm.all_reduce(NUMBER, "max")[0]) == 7
    with pytest.raises(ValueError, match=r"was not made by comm\.empty"):
        comm.views(np.zeros(3) if comm.rank else comm.zeros(3))
    comm.barrier()
    return comm.all_gather_object(comm.rank)


def test_a_refused_composite_call_leaves_nothing_behind(ranks):
    assert ranks(2, refused_first) == [[0, 1]] * 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ValueError])
def test_who_leaves_between_two_parts_ends_the_group(ranks, monkeypatch, error):
    """Rank 0 would not come to the second part; the others must not wait for it until a limit passes."""

    def leave(comm) -> list[str]:
        other = comm.split(0)

        def fail(*_: Any) -> None:
            raise error("no more")

        told = []
        if comm.rank == 0:
            monkeypatch.setattr("shmcoll.communicator.object_parts.ObjectParts._gather_equal", fail)
            with pytest.raises(error, match="no more"):
                comm.all_gather_object(np.zeros(LEAST_MOVED))
            monkeypatch.undo()
            assert (
                comm._dispatcher.words[c.COLLECTIVE // WORD] == 0
            )  # else a thread that closes would wait for this one
        for _ in range(2):
            with pytest.raises(RankFailed) as caught:
                comm.all_gather_object(np.zeros(LEAST_MOVED)) if comm.rank else comm.barrier()
            told.append(str(caught.value))
        assert other.all_gather_object(comm.rank) == [0, 1, 2]
        return told

    for told in ranks(3, leave):
        for text in told:
            assert f"rank 0 was interrupted in all_gather_object #3 at {line_of(leave, 10)}" in text


LONG = bytes(LONGEST_SENT)  # whose pickle no row holds


#: a composite call; its second or a later part; and the call of a signal handler that comes before that part
BETWEEN: dict[str, tuple[Callable[[Any], Any], str, int, Callable[[Any], Any]]] = {
    "the same broadcast of an object": (
        lambda comm: comm.broadcast_object(LONG),
        "_broadcast_bytes",
        0,
        lambda comm: comm.broadcast_object(LONG),
    ),
    "the same gather of objects": (
        lambda comm: comm.gather_object(LONG),
        "gather",
        0,
        lambda comm: comm.gather_object(LONG),
    ),
    "what another part is": (
        lambda comm: comm.all_gather_object(np.zeros(LEAST_MOVED + comm.rank)),
        "all_gather_v",
        0,
        lambda comm: comm.all_gather_v(np.zeros(3, np.uint8)),
    ),
    "the same scatter of objects": (
        lambda comm: comm.scatter_object([LONG, "y"]),
        "scatter_v",
        0,
        lambda comm: comm.scatter_object([LONG, "y"]),
    ),
    "the barrier of views": (
        lambda comm: comm.views(comm.zeros(3)),
        "barrier",
        0,
        lambda comm: comm.barrier(),
    ),
}


@pytest.mark.parametrize("what", BETWEEN)
def test_a_call_that_gets_in_between_two_parts_is_told_apart(ranks, what):
    call, part, number, odd = BETWEEN[what]

    def make(comm) -> str:
        if comm.rank == 0:
            made, original = count(), getattr(Parts, part)

            def interrupted(*arguments: Any, **keywords: Any) -> Any:
                if next(made) == number:
                    delattr(Parts, part)
                    os.kill(os.getpid(), signal.SIGUSR1)
                return original(*arguments, **keywords)

            signal.signal(signal.SIGUSR1, lambda *_: odd(comm))
            setattr(Parts, part, interrupted)
        with pytest.raises(CollectiveMismatch) as caught:
            call(comm)
        return str(caught.value)

    first, second = ranks(2, make)
    assert first == second
    assert f" at {line_of(odd)}; rank 1 called " in first, first
    assert f" at {line_of(call)}. All ranks must" in first, first


# --- what is said of composite calls ----------------------------------------------------------------------------------


def test_the_flight_recorder_and_a_limit_that_passes_name_the_composite_call(ranks, board):
    def late(comm) -> Any:
        if comm.rank:
            comm.all_gather_object("x")
            until(lambda: board[0])
            return [flight.words() for flight in flights(comm._dispatcher.group, 1)]
        comm.all_gather_object("x")
        comm.timeout = 0.3
        with pytest.raises(CollectiveTimeout) as caught:
            comm.gather_object("x", 1)
        (standing, _) = standings(comm._local_rank.arena)
        board[0] = 1
        return str(caught.value), standing.place

    (text, place), recorded = ranks(2, late)
    assert text.startswith(f"gather_object #2 on rank 0 at {line_of(late, 8)}: timed out after 0.3 s; rank 1 did not ")
    assert "(last called all_gather_object() as #1)" in text
    assert place == "in gather_object(root=1) #2"
    assert recorded == ["all_gather_object()"]


# --- calls refused before ---------------------------------------------------------------------------------------------


def test_of_several_refused_calls_the_first_is_named(ranks):
    """From there on the rank is out of step; those before an operation that all made are forgotten."""

    def out_of_step(comm) -> str:
        if comm.rank:
            with pytest.raises(ValueError, match="unknown op"):
                comm.all_reduce(TRIPLE, "median")
        comm.barrier()
        if comm.rank:
            with pytest.raises(TypeError, match="a list cannot be"):
                comm.broadcast([1, 2, 3])
            for _ in range(2):
                with pytest.raises(ValueError, match="unknown op"):
                    comm.all_reduce(TRIPLE, "mode")
        with pytest.raises(CollectiveMismatch) as caught:
            comm.gather(TRIPLE) if comm.rank else comm.broadcast(TRIPLE.copy())
            comm.barrier()
        return str(caught.value)

    first, second = ranks(2, out_of_step)
    assert first == second
    refusal = f"rank 1's call of broadcast at {line_of(out_of_step, 7)} was refused (and 2 more after it): TypeError: "
    assert f". Before that, {refusal}" in first
    assert first.count(" was refused") == 1


# --- how many parts there are -----------------------------------------------------------------------------------------

#: the collectives of each call: for pickles of few bytes, and for long arrays
COUNTS = {
    "broadcast_object": (1, 2),
    "gather_object": (1, 2),
    "all_gather_object": (1, 2),
    "scatter_object": (1, 2),
    "all_to_all_object": (1, 2),
    "reduce_object": (2, 3),
    "all_reduce_object": (2, 4),
    "scan_object": (2, 4),
    "exscan_object": (2, 4),
}


SENT = ("broadcast_object", "scatter_object")  # whose root chooses the length of a row


def counted(comm) -> list[tuple[int, ...]]:
    """How many collectives each call makes: with an int, with about the longest pickle that a row holds, with one that
    is a byte too long on one rank, and with an array."""
    told = []
    for name in COUNTS:
        made, longest = [], LONGEST_SENT if name in SENT else LONGEST
        edge = longest - len(pickle.dumps(bytes(300), 5)) + 300
        for mine in (7, bytes(edge - 32), bytes(edge + (comm.rank == 0)), np.ones(LEAST_MOVED)):
            value = [mine] * comm.size if name in ("scatter_object", "all_to_all_object") else mine
            keywords = {"op": lambda left, right: left} if "reduce" in name or "scan" in name else {}
            before = len(flights(comm._dispatcher.group, comm.rank))
            getattr(comm, name)(value, **keywords)
            made.append(len(flights(comm._dispatcher.group, comm.rank)) - before)
            if before > FLIGHT_ENTRIES // 2:
                comm = comm.dup()
        told.append(tuple(made))
    return told


def test_an_object_of_few_bytes_takes_one_collective(ranks):
    for told in ranks(2, counted):
        for (name, (few, many)), (number, longest, more, array) in zip(COUNTS.items(), told, strict=True):
            assert (number, longest, array) == (few, few, many), name
            assert more > few, name


def refused(comm) -> list[str]:
    group, told = comm.dup(), []
    for is_closed in (False, True):
        if is_closed:
            group.close()
        for name in COUNTS:
            value = [7] if name in ("scatter_object", "all_to_all_object") else 7
            try:
                getattr(group, name)(value)
            except CallNotAllowed as error:
                told.append(str(error).split()[0])
    return told


def test_a_call_on_a_closed_communicator_is_refused_by_its_own_name(ranks):
    assert ranks(1, refused) == [list(COUNTS)]
