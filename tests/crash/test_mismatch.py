"""Ranks that make different calls: `CollectiveMismatch` on all of them, saying who called what. Never wrong data."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from calls import SHORT, barrier
from ranks import poll

from shmcoll.errors import CollectiveMismatch, CollectiveTimeout

FLOATS, INTS, TABLE = np.ones(6, np.float32), np.ones(6, np.int32), np.ones((6, 6), np.float32)

#: what most ranks call, what one calls instead, and how the two stand in the message
PAIRS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], str, str]] = {
    "operation": (
        lambda comm: comm.all_reduce(FLOATS),
        lambda comm: comm.barrier(),
        "all_reduce(float32[6], sum)",
        "barrier()",
    ),
    "data operation": (
        lambda comm: comm.all_to_all_v(FLOATS, [0] * comm.size),
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
    "number of dimensions": (
        lambda comm: comm.gather(np.zeros((1,) * 10)),
        lambda comm: comm.gather(np.zeros((1,) * 9)),
        "gather(float64[1, 1, 1, 1, 1, 1, 1, 1, ...], root=0)",
        "gather(float64[1, 1, 1, 1, 1, 1, 1, 1, ...], root=0)",
    ),
    "dtype of a table of counts": (
        lambda comm: comm.all_to_all_v(FLOATS, [0] * comm.size),
        lambda comm: comm.all_to_all_v(INTS, [0] * comm.size),
        "all_to_all_v(float32[6])",
        "all_to_all_v(int32[6])",
    ),
}


def disagree(comm, what: str, odd: tuple[int, ...]) -> list[str]:
    usual, other, _, _ = PAIRS[what]
    for call in SHORT.values():
        call(comm)
    texts = []
    for call in (other if comm.rank in odd else usual, usual, other, barrier):
        with pytest.raises(CollectiveMismatch) as told:
            call(comm)
        texts.append(str(told.value))
    return texts


def listed(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


@pytest.mark.parametrize("what", PAIRS)
def test_every_rank_learns_who_called_what(ranks, seed, what):
    for n, odd in ((2, (seed % 2,)), (3, (seed % 3,)), (6, (1, 4))):
        told = ranks(n, disagree, what, odd)
        usual = [r for r in range(n) if r not in odd]
        _, _, call, other = PAIRS[what]
        for texts in told:
            assert texts == told[0][:1] * 4
        text = told[0][0]
        assert text.startswith("the ranks disagree in ")
        assert "#6: " in text
        if call != other:
            assert f"{listed(usual)} called {call}" in text
            assert f"{listed(list(odd))} called {other}" in text


def test_three_kinds_of_calls(ranks):
    def differ(comm) -> str:
        with pytest.raises(CollectiveMismatch) as told:
            comm.all_reduce(FLOATS[: comm.rank % 3 + 1])
        return str(told.value)

    for text in ranks(4, differ):
        assert "ranks 0, 3 called all_reduce(float32[1], sum)" in text
        assert "rank 1 called all_reduce(float32[2], sum)" in text
        assert "rank 2 called all_reduce(float32[3], sum)" in text


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
        assert "rank 1's call of all_reduce was refused: ValueError: " in text
        assert "unknown op 'median'" in text


def test_a_refused_call_is_named_when_nothing_follows_it(ranks, board):
    def refused_then_nothing(comm) -> str:
        comm.timeout = 0.3
        if comm.rank == 1:
            with pytest.raises(ValueError, match="median"):
                comm.all_reduce(FLOATS, "median")
            assert poll(lambda: board[0], 20)
            return ""
        with pytest.raises(CollectiveTimeout) as told:
            comm.all_reduce(FLOATS)
        board[0] = 1
        return str(told.value)

    text = ranks(2, refused_then_nothing)[0]
    assert "rank 1 did not arrive (has called nothing yet)" in text
    assert "rank 1's call of all_reduce was refused" in text


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
        assert poll(lambda: board[0], 20)
        with pytest.raises(CollectiveTimeout) as told:
            while True:
                comm.barrier()
        return str(told.value)

    assert all("rank 1 did not arrive" in text for text in ranks(2, late))


def test_the_cause_outlives_the_rank_that_found_it(ranks, board):
    """Rank 0 gives up and ends with the error; to rank 1 it is a timeout, and not a rank that raised."""

    def late(comm) -> str | None:
        if comm.rank == 0:
            comm.timeout = 0.2
            comm.barrier()
        assert poll(lambda: board[0], 20)
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
    assert "rank 1 did not arrive" in second.value
