"""One call of each collective, short and long, with a check of its result: what crash tests interrupt."""

from collections.abc import Callable
from typing import Any

import numpy as np


def barrier(comm: Any) -> None:
    comm.barrier()


def all_reduce(comm: Any) -> None:
    _reduce(comm, 5)


def all_reduce_in_rounds(comm: Any) -> None:
    _reduce(comm, 400_000)


def _reduce(comm: Any, count: int) -> None:
    got = comm.all_reduce(np.full(count, comm.rank + 1, np.float32))
    assert (got == comm.size * (comm.size + 1) // 2).all()


def all_to_all(comm: Any) -> None:
    _exchange(comm, 3)


def all_to_all_in_rounds(comm: Any) -> None:
    _exchange(comm, 200_000)


def _exchange(comm: Any, width: int) -> None:
    got = comm.all_to_all(np.full((comm.size, width), comm.rank, np.int64))
    assert (got == np.arange(comm.size)[:, None]).all()


def gather(comm: Any) -> None:
    _collect(comm, 3)


def gather_in_rounds(comm: Any) -> None:
    _collect(comm, 200_000)


def _collect(comm: Any, count: int) -> None:
    got = comm.gather(np.full(count, comm.rank), comm.size - 1)
    if comm.rank == comm.size - 1:
        assert (got.reshape(comm.size, count) == np.arange(comm.size)[:, None]).all()


def all_to_all_v(comm: Any) -> None:
    _scatter(comm, 3)


def all_to_all_v_in_rounds(comm: Any) -> None:
    _scatter(comm, 100_000)


def _scatter(comm: Any, unit: int) -> None:
    """Rank r sends (r + i) % 3 units to rank i; the result is made by the operation."""
    counts = [(comm.rank + i) % 3 * unit for i in range(comm.size)]
    got, found = comm.all_to_all_v(np.full(sum(counts), comm.rank), counts)
    assert found.tolist() == counts
    assert (got == np.repeat(np.arange(comm.size), counts)).all()


SHORT: dict[str, Callable[[Any], None]] = {
    f.__name__: f for f in (barrier, all_reduce, all_to_all, gather, all_to_all_v)
}
LONG: dict[str, Callable[[Any], None]] = {
    f.__name__: f for f in (all_reduce_in_rounds, all_to_all_in_rounds, gather_in_rounds, all_to_all_v_in_rounds)
}
