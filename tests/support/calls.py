"""One call of each collective, short and long, with a check of its result: what crash tests interrupt.

`SHORT`, `LONG`, `COMPOSITE` and `EAGER` have them by name. A function that is called by itself makes the short call.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from shmcoll.engine import layout

SHORT: dict[str, Callable[[Any], None]] = {}
LONG: dict[str, Callable[[Any], None]] = {}  # in several rounds of cells
COMPOSITE: dict[str, Callable[[Any], None]] = {}  # of several operations
EAGER: dict[str, Callable[[Any], None]] = {}  # several calls of few bytes, in which ranks may be far ahead of others

#: elements of a rooted call that all ranks enter together: they do not fit beside a header, and fit a cell
TOGETHER = 100


def in_rounds(length: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """List a call, which takes a communicator and a length: its short form, and one of this length."""

    def add(call: Callable[..., None]) -> Callable[..., None]:
        SHORT[call.__name__] = call
        LONG[f"{call.__name__}_in_rounds"] = partial(call, length=length)
        return call

    return add


def barrier(comm: Any) -> None:
    comm.barrier()


SHORT["barrier"] = barrier


@in_rounds(400_000)
def all_reduce(comm: Any, length: int = 5) -> None:
    got = comm.all_reduce(np.full(length, comm.rank + 1, np.float32))
    assert (got == comm.size * (comm.size + 1) // 2).all()


@in_rounds(200_000)
def all_to_all(comm: Any, length: int = 3) -> None:
    got = comm.all_to_all(np.full((comm.size, length), comm.rank, np.int64))
    assert (got == np.arange(comm.size)[:, None]).all()


@in_rounds(200_000)
def gather(comm: Any, length: int = TOGETHER) -> None:
    got = comm.gather(np.full(length, comm.rank), comm.size - 1)
    if comm.rank == comm.size - 1:
        assert (got.reshape(comm.size, length) == np.arange(comm.size)[:, None]).all()


@in_rounds(100_000)
def all_to_all_v(comm: Any, length: int = 3) -> None:
    """Rank r sends (r + i) % 3 units to rank i; the result is made by the operation."""
    counts = [(comm.rank + i) % 3 * length for i in range(comm.size)]
    got, found = comm.all_to_all_v(np.full(sum(counts), comm.rank), counts)
    assert found.tolist() == counts
    assert (got == np.repeat(np.arange(comm.size), counts)).all()


@in_rounds(200_000)
def broadcast(comm: Any, length: int = TOGETHER) -> None:
    root = comm.size // 2
    got = comm.broadcast(np.full(length, comm.rank), root)
    assert (got == root).all()


@in_rounds(200_000)
def all_gather(comm: Any, length: int = 3) -> None:
    got = comm.all_gather(np.full(length, comm.rank))
    assert (got.reshape(comm.size, length) == np.arange(comm.size)[:, None]).all()


def shared_all_gather(comm: Any) -> None:
    got = comm.all_gather(np.full(3, comm.rank), shared=True)
    assert (got.reshape(comm.size, 3) == np.arange(comm.size)[:, None]).all()


COMPOSITE["shared all_gather"] = shared_all_gather


@in_rounds(200_000)
def scatter(comm: Any, length: int = TOGETHER) -> None:
    """The result is made by the operation where the rank is odd."""
    root = comm.size - 1
    out = None if comm.rank % 2 else np.zeros(length, np.int64)
    got = comm.scatter(np.repeat(np.arange(comm.size), length) if comm.rank == root else None, root, out=out)
    assert got.shape == (length,)
    assert (got == comm.rank).all()


@in_rounds(100_000)
def gather_v(comm: Any, length: int = 3) -> None:
    """Rank r sends r + 1 units."""
    got, counts = comm.gather_v(np.full((comm.rank + 1) * length, comm.rank), comm.size - 1)
    if comm.rank == comm.size - 1:
        assert (got == np.repeat(np.arange(comm.size), counts)).all()
        assert counts.tolist() == [(rank + 1) * length for rank in range(comm.size)]


@in_rounds(100_000)
def scatter_v(comm: Any, length: int = 3) -> None:
    """Rank r gets r + 1 units; the result is made by the operation where the rank is odd."""
    root, counts = comm.size - 1, [(rank + 1) * length for rank in range(comm.size)]
    x = np.repeat(np.arange(comm.size), counts) if comm.rank == root else None
    got = comm.scatter_v(
        x, root, send_counts=counts, out=None if comm.rank % 2 else np.zeros(counts[comm.rank], np.int64)
    )
    assert got.shape == (counts[comm.rank],)
    assert (got == comm.rank).all()


@in_rounds(100_000)
def all_gather_v(comm: Any, length: int = 3) -> None:
    got, counts = comm.all_gather_v(np.full((comm.rank + 1) * length, comm.rank))
    assert (got == np.repeat(np.arange(comm.size), counts)).all()


@in_rounds(200_000)
def collective_permute(comm: Any, length: int = 3) -> None:
    got = comm.collective_permute(np.full(length, comm.rank), [(i, (i + 1) % comm.size) for i in range(comm.size)])
    assert (got == (comm.rank - 1) % comm.size).all()


@in_rounds(100_000)
def halo_exchange(comm: Any, length: int = 3) -> None:
    """Round a ring."""
    got = comm.grid(comm.size, periods=True).exchange(np.full((3, length), comm.rank))
    assert (got == np.array([[comm.rank - 1], [comm.rank], [comm.rank + 1]]) % comm.size).all()


@in_rounds(400_000)
def reduce(comm: Any, length: int = TOGETHER) -> None:
    got = comm.reduce(np.full(length, comm.rank + 1, np.float32), comm.size - 1)
    if comm.rank == comm.size - 1:
        assert (got == comm.size * (comm.size + 1) // 2).all()


@in_rounds(200_000)
def reduce_scatter(comm: Any, length: int = 5) -> None:
    got = comm.reduce_scatter(np.full(length * comm.size, comm.rank + 1, np.float32))
    assert got.shape == (length,)
    assert (got == comm.size * (comm.size + 1) // 2).all()


@in_rounds(400_000)
def scan(comm: Any, length: int = TOGETHER) -> None:
    got = comm.scan(np.full(length, comm.rank + 1, np.float32))
    assert (got == (comm.rank + 1) * (comm.rank + 2) // 2).all()


@in_rounds(400_000)
def exscan(comm: Any, length: int = TOGETHER) -> None:
    got = comm.exscan(np.full(length, comm.rank + 1, np.float32))
    assert got is None if comm.rank == 0 else (got == comm.rank * (comm.rank + 1) // 2).all()


def repeated(call: Callable[..., None], comm: Any) -> None:
    """Make more calls of few bytes than a rank has headers."""
    for _ in range(layout.HEADERS + 4):
        call(comm, length=2)


for _call in (broadcast, scatter, gather, reduce, scan, exscan):
    EAGER[f"eager {_call.__name__}"] = partial(repeated, _call)
