"""Messages between two ranks, beside copies of the same length."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from shmbench.cli.sizes import short_size
from shmbench.features.memory import MEMCPY
from shmbench.timing.ab_timing import Contest, Row, beside
from shmbench.timing.entries import Arrays, collective, exchange

SIZE = 64 << 20


def there_and_back(
    send: Callable[..., Any], recv: Callable[..., Any], rank: int, x: np.ndarray, out: np.ndarray, n: int
) -> None:
    """Send x to the partner and receive out from it, the even rank first."""
    partner = rank ^ 1
    for _ in range(n):
        if rank % 2 == 0:
            send(x, partner, 0)
            recv(out, partner, 0)
        else:
            recv(out, partner, 0)
            send(x, partner, 0)


def _one_way(comm: Any, x: np.ndarray, out: np.ndarray, n: int) -> None:
    """Send messages from rank 0 to rank 1. The time ends when the last one has arrived."""
    for _ in range(n):
        if comm.rank == 0:
            comm.send(x, 1, 0)
        else:
            comm.recv(out, 0, 0)
    comm.barrier()


def _both_ways(comm: Any, x: np.ndarray, out: np.ndarray, n: int) -> None:
    other = 1 - comm.rank
    for _ in range(n):
        comm.sendrecv(x, other, out, other)


def _exchange_two(comm: Any, x: np.ndarray, out: np.ndarray, n: int) -> None:
    """Send both halves of x to the other rank, and receive two."""
    other, xs, outs = 1 - comm.rank, np.split(x, 2), np.split(out, 2)
    for _ in range(n):
        comm.send(xs[0], other, 0)
        comm.send(xs[1], other, 1)
        comm.recv(outs[0], other, 0)
        comm.recv(outs[1], other, 1)


def _exchange_batch(comm: Any, x: np.ndarray, out: np.ndarray, n: int) -> None:
    """Do the same in one batch."""
    from shmcoll import Recv, Send, wait_all

    other, xs, outs = 1 - comm.rank, np.split(x, 2), np.split(out, 2)
    calls = [*(Recv(outs[i], other, i) for i in (0, 1)), *(Send(xs[i], other, i) for i in (0, 1))]
    for _ in range(n):
        wait_all(comm.batch(calls))


def _nothing(n: int) -> None:
    pass


def message(comm: Any, size: int, loop: Callable[[np.ndarray, np.ndarray, int], None]) -> Arrays:
    """Return the entry in which `loop(x, out, n)` sends x to the other rank and receives out, n times."""
    x, out = (np.empty(max(1, size // 8)) for _ in range(2))
    return exchange(comm.rank, comm.size, x, out, partial(loop, x, out))


def _only_on(rank: int, comm: Any, entry: Arrays, idle: Callable[[int], float | None]) -> Arrays:
    """Return the entry for one rank, and on the other rank one that does something else and has no result."""
    return entry if comm.rank == rank else replace(entry, loop=idle, out=None)


def messages(contest: Contest) -> list[Row]:
    comm, size = contest.comm, contest.settings.size(SIZE)
    (short,) = contest.run([message(comm, 8, partial(there_and_back, comm.send, comm.recv, comm.rank))])
    batch, blocking = contest.run([message(comm, 16, partial(loop, comm)) for loop in (_exchange_batch, _exchange_two)])
    one_way = message(comm, size, partial(_one_way, comm))
    copy = collective(comm, "memcpy", size, kind=MEMCPY)
    arrived, alone, exchanged, both = contest.run(
        [
            _only_on(1, comm, one_way, one_way.loop),
            _only_on(1, comm, copy, _nothing),
            message(comm, size, partial(_both_ways, comm)),
            copy,
        ]
    )
    long = short_size(size)
    return [
        Row("send and recv, there and back, 8", short.seconds, wrong=short.wrong),
        Row("batch of two sends and two receives, 8", batch.seconds, asked=15e-6, wrong=batch.wrong),
        Row("the same by blocking calls, 8", blocking.seconds, wrong=blocking.wrong),
        beside(f"send and recv, one way, {long}", arrived, "memcpy, one rank", alone, 1 / 0.8),
        beside(f"sendrecv, both ways, {long}", exchanged, "memcpy, both ranks", both),
    ]
