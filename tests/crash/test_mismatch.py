"""Ranks that make different calls: `CollectiveMismatch` on all of them, saying who called what. Never wrong data."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmcoll
from shmcoll.errors import CollectiveMismatch, CollectiveTimeout
from tests.support import switches
from tests.support.calls import SHORT, barrier
from tests.support.frames import line_of
from tests.support.operators import compiled_for
from tests.support.waiting import until

FLOAT_PAIRS = np.zeros(6, shmcoll.pair_dtype(np.float32))


def larger(a, b):
    return a if a > b else b


def smaller(a, b):
    return a if a < b else b


LARGER, SMALLER = (shmcoll.op(function, dtypes=[]) for function in (larger, smaller))
LARGER_IN_ORDER = shmcoll.op(larger, commutative=False, dtypes=[])

compiled = compiled_for((LARGER, "int32"), (SMALLER, "int32"), (LARGER_IN_ORDER, "int32"))

FLOATS, INTS, TABLE = np.ones(6, np.float32), np.ones(6, np.int32), np.ones((6, 6), np.float32)
NOTHING = [0] * 64

#: what most ranks call, what one calls instead, and how the two stand in the message
PAIRS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], str, str]] = {
    "operation": (
        lambda comm: comm.all_reduce(FLOATS),
        lambda comm: comm.barrier(),
        "all_reduce(float32[6], sum)",
        "barrier()",
    ),
    "data operation": (
        lambda comm: comm.all_to_all_v(FLOATS, NOTHING[: comm.size], NOTHING[: comm.size]),
        lambda comm: comm.gather(FLOATS),
        "all_to_all_v(float32[6])",
        "gather(float32[6], root=0)",
    ),
    "dtype": (
        lambda comm: comm.all_reduce(FLOATS),
        lambda comm: comm.all_reduce(INTS),
        "all_reduce(float32[6], sum)",
        "all_reduce(int32[6], sum)",
    ),
    "half dtype": (
        lambda comm: comm.gather(FLOATS.astype(np.float16)),
        lambda comm: comm.gather(FLOATS.astype(np.int16)),
        "gather(float16[6], root=0)",
        "gather(int16[6], root=0)",
    ),
    "reduction": (
        lambda comm: comm.all_reduce(FLOATS, "max"),
        lambda comm: comm.all_reduce(FLOATS, "min"),
        "all_reduce(float32[6], max)",
        "all_reduce(float32[6], min)",
    ),
    "function": (
        lambda comm: comm.all_reduce(INTS, LARGER),
        lambda comm: comm.all_reduce(INTS, SMALLER),
        "all_reduce(int32[6], larger)",
        "all_reduce(int32[6], smaller)",
    ),
    "function of another order": (
        lambda comm: comm.all_reduce(INTS, LARGER),
        lambda comm: comm.all_reduce(INTS, LARGER_IN_ORDER),
        "all_reduce(int32[6], larger)",
        "all_reduce(int32[6], larger (not commutative))",
    ),
    "sum of multiples": (
        lambda comm: comm.all_reduce(FLOATS, shmcoll.premul_sum(comm.rank)),
        lambda comm: comm.all_reduce(FLOATS),
        "all_reduce(float32[6], premul_sum)",
        "all_reduce(float32[6], sum)",
    ),
    "multiples of another dtype": (
        lambda comm: comm.all_reduce(FLOATS, shmcoll.premul_sum(2)),
        lambda comm: comm.all_reduce(FLOATS.astype(np.float16), shmcoll.premul_sum(2)),
        "all_reduce(float32[6], premul_sum)",
        "all_reduce(float32[6], premul_sum of float16)",
    ),
    "pairs": (
        lambda comm: comm.all_reduce(FLOAT_PAIRS, "argmin"),
        lambda comm: comm.all_reduce(FLOAT_PAIRS.astype(shmcoll.pair_dtype(float)), "argmin"),
        "all_reduce(pair of float32[6], argmin)",
        "all_reduce(pair of float64[6], argmin)",
    ),
    "length": (
        lambda comm: comm.all_reduce(FLOATS),
        lambda comm: comm.all_reduce(FLOATS[:5]),
        "all_reduce(float32[6], sum)",
        "all_reduce(float32[5], sum)",
    ),
    "shape of the same size": (
        lambda comm: comm.all_reduce(FLOATS),
        lambda comm: comm.all_reduce(FLOATS.reshape(2, 3)),
        "all_reduce(float32[6], sum)",
        "all_reduce(float32[2, 3], sum)",
    ),
    "algorithm": (
        lambda comm: comm.all_reduce(np.ones(100_000)),
        lambda comm: comm.all_reduce(np.ones(1)),
        "all_reduce(float64[100000], sum)",
        "all_reduce(float64[1], sum)",
    ),
    "root of reduce": (
        lambda comm: comm.reduce(INTS, 0, "max"),
        lambda comm: comm.reduce(INTS, 1, "max"),
        "reduce(int32[6], max, root=0)",
        "reduce(int32[6], max, root=1)",
    ),
    "operation that reduces": (
        lambda comm: comm.scan(FLOATS),
        lambda comm: comm.exscan(FLOATS),
        "scan(float32[6], sum)",
        "exscan(float32[6], sum)",
    ),
    "form of reduce_scatter": (
        lambda comm: comm.reduce_scatter(FLOATS),
        lambda comm: comm.reduce_scatter([FLOATS] * comm.size),
        "reduce_scatter(float32[6], sum)",
        "reduce_scatter(float32[6], sum, first of a list)",
    ),
    "lengths of blocks": (
        lambda comm: comm.reduce_scatter_v(FLOATS, [6] + [0] * (comm.size - 1)),
        lambda comm: comm.reduce_scatter_v(FLOATS, [0] * (comm.size - 1) + [6]),
        "reduce_scatter_v(float32[6], sum, counts of hash ",
        "reduce_scatter_v(float32[6], sum, counts of hash ",
    ),
    "split axis": (
        lambda comm: comm.all_to_all(TABLE, 0, 0),
        lambda comm: comm.all_to_all(TABLE, 1, 0),
        "all_to_all(float32[6, 6], split_axis=0, concat_axis=0)",
        "all_to_all(float32[6, 6], split_axis=1, concat_axis=0)",
    ),
    "concat axis": (
        lambda comm: comm.all_to_all(TABLE, 0, 1),
        lambda comm: comm.all_to_all(TABLE, 0, 0),
        "all_to_all(float32[6, 6], split_axis=0, concat_axis=1)",
        "all_to_all(float32[6, 6], split_axis=0, concat_axis=0)",
    ),
    "root": (
        lambda comm: comm.gather(INTS, 0),
        lambda comm: comm.gather(INTS, 1),
        "gather(int32[6], root=0)",
        "gather(int32[6], root=1)",
    ),
    "root of a broadcast": (
        lambda comm: comm.broadcast(INTS.copy(), 0),
        lambda comm: comm.broadcast(INTS.copy(), 1),
        "broadcast(int32[6], root=0)",
        "broadcast(int32[6], root=1)",
    ),
    "shape of a broadcast": (
        lambda comm: comm.broadcast(np.ones((2, 3)), 0),
        lambda comm: comm.broadcast(np.ones(6), 0),
        "broadcast(float64[2, 3], root=0)",
        "broadcast(float64[6], root=0)",
    ),
    "what is gathered everywhere": (
        lambda comm: comm.all_gather(FLOATS),
        lambda comm: comm.all_gather(FLOATS[:5], out=[np.zeros(5, np.float32) for _ in range(comm.size)]),
        "all_gather(float32[6])",
        "all_gather(float32[5])",
    ),
    "gathered here or everywhere": (
        lambda comm: comm.all_gather(FLOATS),
        lambda comm: comm.gather(FLOATS),
        "all_gather(float32[6])",
        "gather(float32[6], root=0)",
    ),
    "root of a scatter": (
        lambda comm: comm.scatter(np.ones(6 * comm.size) if comm.rank == 0 else None, 0, out=np.ones(6)),
        lambda comm: comm.scatter([np.ones(6)] * comm.size if comm.rank == 1 else None, 1, out=np.ones(6)),
        "scatter(float64[6], root=0)",
        "scatter(float64[6], root=1)",
    ),
    "list to exchange": (
        lambda comm: comm.all_to_all(np.ones((0, 4))),
        lambda comm: comm.all_to_all([np.ones((0, 5))] * comm.size),
        "all_to_all(float64[0, 4], split_axis=0, concat_axis=0)",
        "all_to_all(float64[0, 5], split_axis=0, concat_axis=0)",
    ),
    "number of dimensions": (
        lambda comm: comm.gather(np.zeros((1,) * 10)),
        lambda comm: comm.gather(np.zeros((1,) * 9)),
        "gather(float64[1, 1, 1, 1, 1, 1, 1, 1, ...], root=0)",
        "gather(float64[1, 1, 1, 1, 1, 1, 1, 1, ...], root=0)",
    ),
    "permutation": (
        lambda comm: comm.collective_permute(FLOATS, [(0, 1), (1, 0)]),
        lambda comm: comm.collective_permute(FLOATS, [(0, 1)]),
        "collective_permute(float32[6], pairs of hash ",
        "collective_permute(float32[6], pairs of hash ",
    ),
    "shape of the permuted": (
        lambda comm: comm.collective_permute(FLOATS, []),
        lambda comm: comm.collective_permute(FLOATS[:5], []),
        "collective_permute(float32[6], pairs of hash 12545f4914f6c)",
        "collective_permute(float32[5], pairs of hash 12545f4914f6c)",
    ),
    "faces": (
        lambda comm: comm.grid(comm.size, True).exchange(TABLE),
        lambda comm: comm.grid(comm.size, True).exchange(TABLE[:, :5].copy()),
        "halo_exchange(float32[6, 6], width=1, grid of hash 1",
        "halo_exchange(float32[6, 6], width=1, grid of hash 1",
    ),
    "width of the halo": (
        lambda comm: comm.grid(comm.size).exchange(TABLE),
        lambda comm: comm.grid(comm.size).exchange(TABLE, 2),
        "halo_exchange(float32[6, 6], width=1, grid of hash 1",
        "halo_exchange(float32[6, 6], width=1, grid of hash 1",
    ),
    "periods": (
        lambda comm: comm.grid(comm.size).exchange(TABLE),
        lambda comm: comm.grid(comm.size, periods=True).exchange(TABLE),
        "halo_exchange(float32[6, 6], width=1, grid of hash 1",
        "halo_exchange(float32[6, 6], width=1, grid of hash 1",
    ),
    "number of dimensions of what has a halo": (
        lambda comm: comm.grid(comm.size).exchange(TABLE),
        lambda comm: comm.grid(comm.size).exchange(FLOATS),
        "halo_exchange(float32[6, 6], width=1, grid of hash 1",
        "halo_exchange(float32[6, 6], width=1, grid of hash 1",
    ),
    "dtype of a table of counts": (
        lambda comm: comm.all_to_all_v(FLOATS, NOTHING[: comm.size], NOTHING[: comm.size]),
        lambda comm: comm.all_to_all_v(INTS, NOTHING[: comm.size], NOTHING[: comm.size]),
        "all_to_all_v(float32[6])",
        "all_to_all_v(int32[6])",
    ),
    "dtype of gathered lengths": (
        lambda comm: comm.gather_v(FLOATS),
        lambda comm: comm.gather_v(INTS[:2]),
        "gather_v(float32[6], root=0)",
        "gather_v(int32[2], root=0)",
    ),
    "root of gathered lengths": (
        lambda comm: comm.gather_v(INTS, 0),
        lambda comm: comm.gather_v(INTS, 1),
        "gather_v(int32[6], root=0)",
        "gather_v(int32[6], root=1)",
    ),
    "one length or many": (
        lambda comm: comm.all_gather_v(INTS),
        lambda comm: comm.all_gather(INTS),
        "all_gather_v(int32[6])",
        "all_gather(int32[6])",
    ),
    "root of scattered lengths": (
        lambda comm: _scatter_v(comm, 0),
        lambda comm: _scatter_v(comm, 1),
        "scatter_v(",
        "scatter_v(",
    ),
}


LAST = list(PAIRS)[-1]


def _scatter_v(comm, root: int) -> Any:
    return comm.scatter_v(FLOATS[: comm.size], root, send_counts=[1] * comm.size)


def disagree(comm, odd: tuple[int, ...]) -> dict[str, list[str]]:
    """What this rank is told of each pair. Each ends a group of its own and leaves the ranks to the next, the last one
    ends the world itself."""
    told = {}
    for what, (usual, other, _, _) in PAIRS.items():
        group = comm if what == LAST else comm.split(0)
        first = other if comm.rank in odd else usual
        told[what] = disagree_in(group, (first, usual, other, barrier))
        if group is not comm:
            group.close()
    return told


def disagree_in(group, calls: tuple[Callable[[Any], Any], ...]) -> list[str]:
    for call in SHORT.values():
        call(group)
    texts = []
    for call in calls:
        with pytest.raises(CollectiveMismatch) as told:
            call(group)
            group.barrier()  # a rank that has run ahead learns of it here
        texts.append(str(told.value))
    return texts


def listed(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


@pytest.mark.parametrize("n", [2, 3, 6])
def test_every_rank_learns_who_called_what(ranks, seed, n):
    odd = (1, 4) if n == 6 else (seed % n,)
    usual = [r for r in range(n) if r not in odd]
    results = ranks(n, disagree, odd)
    for what, (usual_call, other_call, call, other) in PAIRS.items():
        told = [result[what] for result in results]
        for texts in told:
            assert texts == told[0][:1] * 4, what
        text = told[0][0]
        assert text.startswith("the ranks disagree in "), f"{what}: {text}"
        in_the_world = 2 * (len(PAIRS) - 1) if what == LAST else 0  # the splits before it, of two parts each
        assert f"#{in_the_world + len(SHORT) + 1}: " in text, f"{what}: {text}"
        if call != other:
            assert f"{listed(usual)} called {call} at {line_of(usual_call)}" in text, f"{what}: {text}"
            assert f"{listed(list(odd))} called {other} at {line_of(other_call)}" in text, f"{what}: {text}"


def test_neighbours_whose_faces_are_unlike_are_named(ranks):
    """On 2 x 2 ranks with extents that may differ, but for that of rank 3: along axis 1 it is like no neighbour."""

    def uneven(comm) -> list:
        grid = comm.grid((2, 2))
        x = np.full(((5, 7), (5, 4), (3, 7), (3, 5))[comm.rank], comm.rank)
        with pytest.raises(CollectiveMismatch) as told:
            grid.exchange(x)
        return [str(told.value), bool((x == comm.rank).all())]

    told = ranks(4, uneven)
    assert told == told[:1] * 4
    text, untouched = told[0]
    assert untouched
    assert "; rank 1 called halo_exchange(int64[5, 4], width=1, grid of hash " in text
    assert "; rank 3 called halo_exchange(int64[3, 5], width=1, grid of hash " in text
    advice = "Ranks 1 and 3 are neighbours along axis 0, so all other axes of their arrays must be equal."
    assert text.endswith(f". {advice}")


def test_three_kinds_of_calls(ranks):
    def differ(comm) -> str:
        with pytest.raises(CollectiveMismatch) as told:
            comm.all_reduce(FLOATS[: comm.rank % 3 + 1])
        return str(told.value)

    for text in ranks(4, differ):
        assert "ranks 0, 3 called all_reduce(float32[1], sum)" in text
        assert "rank 1 called all_reduce(float32[2], sum)" in text
        assert "rank 2 called all_reduce(float32[3], sum)" in text


def test_the_same_call_in_different_places(ranks):
    def branch(comm) -> str:
        with pytest.raises(CollectiveMismatch) as told:
            if comm.rank == 0:  # noqa: SIM114 - each has its own line
                comm.all_reduce(FLOATS)
            elif comm.rank == 1:
                comm.all_reduce(FLOATS)
            else:
                comm.barrier()
        return str(told.value)

    places = [f"all_reduce(float32[6], sum) at {line_of(branch, line)}" for line in (3, 5)]
    calls = [*places, f"barrier() at {line_of(branch, 7)}"]
    told = "; ".join(f"rank {rank} called {call}" for rank, call in enumerate(calls))
    text = f"the ranks disagree in operation #1: {told}. All ranks must make the same calls in the same order."
    assert ranks(3, branch) == [text] * 3


def test_asynchronous_work_was_called_where_it_was_submitted(ranks):
    def submit(comm) -> str:
        work = comm.all_reduce(FLOATS, async_op=True) if comm.rank else comm.barrier(async_op=True)
        with pytest.raises(CollectiveMismatch) as told:
            work.wait()
        return str(told.value)

    for text in ranks(2, submit):
        assert f"rank 0 called barrier() at {line_of(submit, 1)}; rank 1 called all_reduce" in text
        assert text.count(f" at {line_of(submit, 1)}") == 2


def test_a_call_behind_asynchronous_work_was_made_where_it_waits(ranks, board):
    def behind(comm) -> str:
        if comm.rank:
            until(lambda: board[0])
        work = comm.barrier(async_op=True)
        board[0] = 1
        with pytest.raises(CollectiveMismatch) as told:
            comm.all_reduce(FLOATS) if comm.rank else comm.gather(FLOATS)
        work.wait()
        return str(told.value)

    for text in ranks(2, behind):
        assert text.count(f" at {line_of(behind, 6)}") == 2


def test_who_does_not_say_where_it_is_is_not_waited_for(ranks, monkeypatch):
    """And the message is still the same on all ranks, on the one that comes late too."""

    def late(comm) -> str:
        if comm.rank == 1:
            monkeypatch.setattr("shmcoll.runtime.failure_reporter.at_site", lambda: time.sleep(1) or " too late")
        with pytest.raises(CollectiveMismatch) as told:
            comm.barrier() if comm.rank else comm.all_reduce(FLOATS)
        return str(told.value)

    switches.set_limit("SITES_PATIENCE", 0.1, monkeypatch)
    texts = ranks(3, late)
    assert texts == texts[:1] * 3
    assert "; rank 1 called barrier(); rank 2 called barrier() at " in texts[0]


def test_nothing_is_written_to_out(ranks):
    def untouched(comm) -> list[float]:
        out = np.full(6, 7, np.float32)
        with pytest.raises(CollectiveMismatch):
            comm.all_reduce(FLOATS, "sum" if comm.rank else "max", out=out)
        return out.tolist()

    assert ranks(3, untouched) == [[7.0] * 6] * 3


def test_a_refused_call_before_is_named(ranks):
    def refused_then_other(comm) -> str:
        comm.barrier()
        if comm.rank == 1:
            with pytest.raises(ValueError, match="unknown op 'median'"):
                comm.all_reduce(FLOATS, "median")
        with pytest.raises(CollectiveMismatch) as told:
            comm.barrier() if comm.rank == 1 else comm.all_reduce(FLOATS)
        return str(told.value)

    for text in ranks(3, refused_then_other):
        assert f"rank 1's call of all_reduce at {line_of(refused_then_other, 4)} was refused: ValueError: " in text
        assert "unknown op 'median'" in text


def test_a_refused_call_is_named_when_nothing_follows_it(ranks, board):
    def refused_then_nothing(comm) -> str:
        comm.timeout = 0.3
        if comm.rank == 1:
            with pytest.raises(ValueError, match="median"):
                comm.all_reduce(FLOATS, "median")
            until(lambda: board[0])
            return ""
        with pytest.raises(CollectiveTimeout) as told:
            comm.all_reduce(FLOATS)
        board[0] = 1
        return str(told.value)

    text = ranks(2, refused_then_nothing)[0]
    assert "rank 1 did not arrive (has called nothing yet)" in text
    assert f"all_reduce #1 on rank 0 at {line_of(refused_then_nothing, 8)}: timed out after 0.3 s" in text
    assert f"rank 1's call of all_reduce at {line_of(refused_then_nothing, 4)} was refused" in text


def test_a_refused_call_after_the_end_does_not_hide_the_cause(ranks, board):
    """Rank 0 gives up and then makes a mistake; rank 1, which comes too late, must still learn the cause."""

    def late(comm) -> str:
        if comm.rank == 0:
            comm.timeout = 0.2
            with pytest.raises(CollectiveTimeout):
                comm.barrier()
            with pytest.raises(ValueError, match="median"):
                comm.all_reduce(FLOATS, "median")
            board[0] = 1
        until(lambda: board[0])
        with pytest.raises(CollectiveTimeout) as told:
            while True:
                comm.barrier()
        return str(told.value)

    waiting, late_one = ranks(2, late)
    assert "rank 1 did not arrive" in waiting and "this rank was too late: rank 0, in barrier() at" in late_one


def test_the_cause_outlives_the_rank_that_found_it(ranks, board):
    """Rank 0 gives up and ends with the error; to rank 1 it is a timeout, and not a rank that raised."""

    def late(comm) -> str | None:
        if comm.rank == 0:
            comm.timeout = 0.2
            comm.barrier()
        until(lambda: board[0])
        with pytest.raises(CollectiveTimeout) as told:
            while True:
                comm.barrier()
        return str(told.value)

    job = ranks.start(2, late)
    job.until(lambda: job.ended(0), "rank 0 has ended")
    board[0] = 1
    first, second = job.finish()
    assert isinstance(first.error, CollectiveTimeout)
    assert second.error is None, second.traceback
    assert "this rank was too late: rank 0, in barrier() at" in second.value
