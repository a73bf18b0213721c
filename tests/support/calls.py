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


def reduce(comm: Any) -> None:
    _reduce_to_root(comm, 5)


def reduce_in_rounds(comm: Any) -> None:
    _reduce_to_root(comm, 400_000)


def _reduce_to_root(comm: Any, count: int) -> None:
    got = comm.reduce(np.full(count, comm.rank + 1, np.float32), comm.size - 1)
    if comm.rank == comm.size - 1:
        assert (got == comm.size * (comm.size + 1) // 2).all()


def reduce_scatter(comm: Any) -> None:
    _reduce_blocks(comm, 5)


def reduce_scatter_in_rounds(comm: Any) -> None:
    _reduce_blocks(comm, 200_000)


def _reduce_blocks(comm: Any, count: int) -> None:
    got = comm.reduce_scatter(np.full(count * comm.size, comm.rank + 1, np.float32))
    assert got.shape == (count,)
    assert (got == comm.size * (comm.size + 1) // 2).all()


def scan(comm: Any) -> None:
    _reduce_up_to(comm, 5)


def scan_in_rounds(comm: Any) -> None:
    _reduce_up_to(comm, 400_000)


def _reduce_up_to(comm: Any, count: int) -> None:
    got = comm.scan(np.full(count, comm.rank + 1, np.float32))
    assert (got == (comm.rank + 1) * (comm.rank + 2) // 2).all()


def exscan(comm: Any) -> None:
    _reduce_before(comm, 5)


def exscan_in_rounds(comm: Any) -> None:
    _reduce_before(comm, 400_000)


def _reduce_before(comm: Any, count: int) -> None:
    got = comm.exscan(np.full(count, comm.rank + 1, np.float32))
    assert got is None if comm.rank == 0 else (got == comm.rank * (comm.rank + 1) // 2).all()


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


def broadcast(comm: Any) -> None:
    _spread(comm, 3)


def broadcast_in_rounds(comm: Any) -> None:
    _spread(comm, 200_000)


def _spread(comm: Any, count: int) -> None:
    root = comm.size // 2
    got = comm.broadcast(np.full(count, comm.rank), root)
    assert (got == root).all()


def all_gather(comm: Any) -> None:
    _collect_everywhere(comm, 3)


def all_gather_in_rounds(comm: Any) -> None:
    _collect_everywhere(comm, 200_000)


def _collect_everywhere(comm: Any, count: int) -> None:
    got = comm.all_gather(np.full(count, comm.rank))
    assert (got.reshape(comm.size, count) == np.arange(comm.size)[:, None]).all()


def scatter(comm: Any) -> None:
    _deal(comm, 3)


def scatter_in_rounds(comm: Any) -> None:
    _deal(comm, 200_000)


def _deal(comm: Any, count: int) -> None:
    """The result is made by the operation where the rank is odd."""
    root = comm.size - 1
    out = None if comm.rank % 2 else np.zeros(count, np.int64)
    got = comm.scatter(np.repeat(np.arange(comm.size), count) if comm.rank == root else None, root, out=out)
    assert got.shape == (count,)
    assert (got == comm.rank).all()


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


def gather_v(comm: Any) -> None:
    _collect_lengths(comm, 3)


def gather_v_in_rounds(comm: Any) -> None:
    _collect_lengths(comm, 100_000)


def _collect_lengths(comm: Any, unit: int) -> None:
    """Rank r sends r + 1 units."""
    got, counts = comm.gather_v(np.full((comm.rank + 1) * unit, comm.rank), comm.size - 1)
    if comm.rank == comm.size - 1:
        assert (got == np.repeat(np.arange(comm.size), counts)).all()
        assert counts.tolist() == [(rank + 1) * unit for rank in range(comm.size)]


def scatter_v(comm: Any) -> None:
    _deal_lengths(comm, 3)


def scatter_v_in_rounds(comm: Any) -> None:
    _deal_lengths(comm, 100_000)


def _deal_lengths(comm: Any, unit: int) -> None:
    """Rank r gets r + 1 units; the result is made by the operation where the rank is odd."""
    root, counts = comm.size - 1, [(rank + 1) * unit for rank in range(comm.size)]
    x = np.repeat(np.arange(comm.size), counts) if comm.rank == root else None
    got = comm.scatter_v(
        x, root, send_counts=counts, out=None if comm.rank % 2 else np.zeros(counts[comm.rank], np.int64)
    )
    assert got.shape == (counts[comm.rank],)
    assert (got == comm.rank).all()


def all_gather_v(comm: Any) -> None:
    _collect_lengths_everywhere(comm, 3)


def all_gather_v_in_rounds(comm: Any) -> None:
    _collect_lengths_everywhere(comm, 100_000)


def _collect_lengths_everywhere(comm: Any, unit: int) -> None:
    got, counts = comm.all_gather_v(np.full((comm.rank + 1) * unit, comm.rank))
    assert (got == np.repeat(np.arange(comm.size), counts)).all()


def collective_permute(comm: Any) -> None:
    _shift(comm, 3)


def collective_permute_in_rounds(comm: Any) -> None:
    _shift(comm, 200_000)


def _shift(comm: Any, count: int) -> None:
    got = comm.collective_permute(np.full(count, comm.rank), [(i, (i + 1) % comm.size) for i in range(comm.size)])
    assert (got == (comm.rank - 1) % comm.size).all()


def halo_exchange(comm: Any) -> None:
    _meet_neighbours(comm, 3)


def halo_exchange_in_rounds(comm: Any) -> None:
    _meet_neighbours(comm, 100_000)


def _meet_neighbours(comm: Any, count: int) -> None:
    """Round a ring."""
    got = comm.grid(comm.size, periods=True).exchange(np.full((3, count), comm.rank))
    assert (got == np.array([[comm.rank - 1], [comm.rank], [comm.rank + 1]]) % comm.size).all()


SHORT: dict[str, Callable[[Any], None]] = {
    f.__name__: f
    for f in (
        barrier,
        all_reduce,
        all_to_all,
        gather,
        all_to_all_v,
        broadcast,
        all_gather,
        scatter,
        gather_v,
        scatter_v,
        all_gather_v,
        collective_permute,
        halo_exchange,
        reduce,
        reduce_scatter,
        scan,
        exscan,
    )
}
LONG: dict[str, Callable[[Any], None]] = {
    f.__name__: f
    for f in (
        all_reduce_in_rounds,
        all_to_all_in_rounds,
        gather_in_rounds,
        all_to_all_v_in_rounds,
        broadcast_in_rounds,
        all_gather_in_rounds,
        scatter_in_rounds,
        gather_v_in_rounds,
        scatter_v_in_rounds,
        all_gather_v_in_rounds,
        collective_permute_in_rounds,
        halo_exchange_in_rounds,
        reduce_in_rounds,
        reduce_scatter_in_rounds,
        scan_in_rounds,
        exscan_in_rounds,
    )
}
