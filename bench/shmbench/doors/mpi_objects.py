"""Objects of Python, which mpi4py pickles: an int, and arrays of numpy."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from shmbench.doors import Apart
from shmbench.timing.ab_timing import Entry, Repeated


def apart(world: Any, sizes: Sequence[int]) -> Iterator[Apart]:
    """Yield the calls with objects of these sizes."""
    for name, make in {"bcast of an object": _bcast, "allreduce of an object": _allreduce,
                       "send and recv of an object, there and back": _ping_pong}.items():  # fmt: skip
        for size in sizes:
            yield Apart(name, size, partial(_timed, make, world, size))


def _timed(make: Callable[..., Entry], world: Any, size: int) -> Mapping[str, Entry]:
    return {"mpi": make(world, partial(_object, size))}


def _object(size: int, number: int) -> Any:
    return number if size <= 8 else np.full(size // 8, number, np.float64)


def _checked(call: Callable[[], Any], right: Any) -> Entry:
    def wrong() -> int:
        got = call()
        return int(np.count_nonzero(np.asarray(got) != right)) if type(got) is type(right) else np.size(right)

    return Repeated(call, wrong)


def _bcast(world: Any, of: Callable[[int], Any]) -> Entry:
    given = of(7) if world.rank == 0 else None
    return _checked(lambda: world.bcast(given), of(7))


def _allreduce(world: Any, of: Callable[[int], Any]) -> Entry:
    given = of(world.rank)
    return _checked(lambda: world.allreduce(given), of(sum(range(world.size))))


def _ping_pong(world: Any, of: Callable[[int], Any]) -> Entry:
    rank, given = world.rank, of(world.rank)
    partner = rank ^ 1
    if partner >= world.size:
        return Repeated(lambda: None, lambda: 0)

    def call() -> Any:
        if rank % 2:
            got = world.recv(source=partner)
            world.send(given, partner)
        else:
            world.send(given, partner)
            got = world.recv(source=partner)
        return got

    return _checked(call, of(partner))
