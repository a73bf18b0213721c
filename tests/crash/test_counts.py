"""Counts that do not fit: a `ValueError` with the same words on every rank, nothing moves, and the group goes on."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.support.calls import SHORT

ROOT = 1


def all_to_all_v(comm: Any, out: np.ndarray, later: bool, odd: dict) -> Any:
    """Each rank sends one element to each, into 3; rank 0 expects that, and rank 2 has room for two."""
    keywords: dict = {"send_counts": [1, 1, 1], "send_displs": [0, 1, 2], "recv_displs": [0, 1, 2], "out": out[:3]}
    keywords |= ({"recv_counts": [1, 1, 1]}, odd, {"recv_room": [2, 2, 2]})[comm.rank]
    return comm.all_to_all_v(np.arange(6), async_op=later, **keywords)


def gather_v(comm: Any, out: np.ndarray, later: bool, odd: dict) -> Any:
    """Rank r sends r + 1 elements to rank 1."""
    keywords = {"out": out} | odd if comm.rank == ROOT else {}
    return comm.gather_v(np.arange(comm.rank + 1), ROOT, async_op=later, **keywords)


def all_gather_v(comm: Any, out: np.ndarray, later: bool, odd: dict) -> Any:
    """Rank r sends r + 1 elements to all."""
    return comm.all_gather_v(np.arange(comm.rank + 1), async_op=later, **{"out": out} | (odd if comm.rank == 1 else {}))


def scatter_v(comm: Any, out: np.ndarray, later: bool, odd: dict) -> Any:
    """Rank 1 sends r + 1 elements to rank r. What is odd: what it gives, or what rank 0 receives into."""
    if comm.rank == ROOT:
        counts, *displs = odd.get("given", ([1, 2, 3],))
        given = {"send_counts": counts, "send_displs": displs[0] if displs else None}
        return comm.scatter_v(np.arange(6), ROOT, **given, out=out[:2], async_op=later)
    target = out[:3] if comm.rank == 2 else odd.get("out")
    return comm.scatter_v(None, ROOT, out=target, async_op=later)


#: of 3 ranks: the call, what is odd about it on one rank, and the words of all ranks
UNFIT: dict[str, tuple[Callable, dict, str]] = {
    "beyond the source": (
        all_to_all_v,
        {"send_displs": [0, 1, 6]},
        "rank 1 sends 1 elements from displacement 6 to rank 2, but its source has 6",
    ),
    "more than the source": (
        all_to_all_v,
        {"send_counts": [1, 1, 7], "send_displs": None},
        "rank 1 sends 7 elements from displacement 2 to rank 2, but its source has 6",
    ),
    "other than expected": (
        all_to_all_v,
        {"send_counts": [2, 1, 1], "send_displs": [0, 1, 2]},
        "rank 0 expects 1 elements from rank 1, which sends 2",
    ),
    "more than there is room for": (
        all_to_all_v,
        {"send_counts": [1, 1, 3], "send_displs": [0, 1, 2]},
        "rank 1 sends 3 elements to rank 2, which has room for 2",
    ),
    "beyond the result": (
        all_to_all_v,
        {"recv_displs": [0, 3, 2]},
        "1 elements from rank 1 at displacement 3 of rank 1 do not fit its result of 3",
    ),
    "overlap": (
        all_to_all_v,
        {"recv_displs": [0, 2, 2]},
        "what rank 1 receives from ranks 1 and 2 overlaps at displacement 2",
    ),
    "overlap, out of order": (
        all_to_all_v,
        {"recv_displs": [2, 0, 2]},
        "what rank 1 receives from ranks 0 and 2 overlaps at displacement 2",
    ),
    "gathered, other than expected": (
        gather_v,
        {"recv_counts": [1, 2, 2]},
        "rank 1 expects 2 elements from rank 2, which sends 3",
    ),
    "gathered, beyond the result": (
        gather_v,
        {"recv_displs": [0, 7, 2]},
        "2 elements from rank 1 at displacement 7 of rank 1 do not fit its result of 8",
    ),
    "gathered, overlap": (
        gather_v,
        {"recv_displs": [4, 2, 3]},
        "what rank 1 receives from ranks 1 and 2 overlaps at displacement 3",
    ),
    "gathered without out, other than expected": (
        gather_v,
        {"recv_counts": [0, 2, 3], "out": None},
        "rank 1 expects 0 elements from rank 0, which sends 1",
    ),
    "gathered by all, other than expected": (
        all_gather_v,
        {"recv_counts": [1, 3, 3]},
        "rank 1 expects 3 elements from rank 1, which sends 2",
    ),
    "gathered by all, beyond the result": (
        all_gather_v,
        {"recv_displs": [0, 1, 6]},
        "3 elements from rank 2 at displacement 6 of rank 1 do not fit its result of 8",
    ),
    "gathered by all, overlap": (
        all_gather_v,
        {"recv_displs": [3, 1, 3], "out": None},
        "what rank 1 receives from ranks 0 and 2 overlaps at displacement 3",
    ),
    "scattered, beyond the source": (
        scatter_v,
        {"given": ([1, 2, 3], [0, 1, 4])},
        "rank 1 sends 3 elements from displacement 4 to rank 2, but its source has 6",
    ),
    "scattered, more than the source": (
        scatter_v,
        {"given": ([7, 2, 3], [0, 0, 0])},
        "rank 1 sends 7 elements from displacement 0 to rank 0, but its source has 6",
    ),
    "scattered, other than there is room for": (
        scatter_v,
        {"out": np.full((2, 2), -1)},
        "rank 0 expects 4 elements from rank 1, which sends 1",
    ),
    "scattered, other than the root has room for": (
        scatter_v,
        {"given": ([2, 1, 3],)},
        "rank 1 expects 2 elements from rank 1, which sends 1",
    ),
    "scattered, of another dtype": (
        scatter_v,
        {"out": np.full(1, -1.0)},
        "rank 0 receives into an array of float64, but rank 1 sends int64",
    ),
}


def unfit(comm) -> list[tuple[str, bool]]:
    told = []
    for call, odd, _ in UNFIT.values():
        out = np.full(8, -1)
        for later in (False, True):
            with pytest.raises(ValueError) as error:
                call(comm, out, later, odd).wait(20)
            told.append((str(error.value).partition(": ")[2], bool((out == -1).all())))
            for right in SHORT.values():
                right(comm)
    return told


def test_counts_that_do_not_fit_are_told_to_all_ranks_and_nothing_moves(ranks):
    wanted = [(words, True) for *_, words in UNFIT.values() for _ in range(2)]
    assert ranks(3, unfit) == [wanted] * 3


def test_the_operation_is_named(ranks):
    def named(comm) -> str:
        comm.barrier()
        with pytest.raises(ValueError) as error:
            comm.gather_v([1, 2], recv_counts=[2, 1] if comm.rank == 0 else None)
        return str(error.value)

    assert ranks(2, named) == ["gather_v #2: rank 0 expects 1 elements from rank 1, which sends 2"] * 2
