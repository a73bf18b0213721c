"""Objects of Python, which mpi4py pickles: an int, and arrays of numpy."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from shmbench.doors import Apart
from shmbench.timing.ab_timing import Entry, Repeated


def apart(world: Any, native: Any, sizes: Sequence[int]) -> Iterator[Apart]:
    """Yield the calls with objects of these sizes. native: the communicator of shmcoll, if this is its job, or None."""
    for name, (theirs, ours) in {
        "bcast of an object": ("bcast", "broadcast_object"),
        "gather of an object": ("gather", "gather_object"),
        "allgather of an object": ("allgather", "all_gather_object"),
        "allreduce of an object": ("allreduce", "all_reduce_object"),
    }.items():
        for size in sizes:
            yield Apart(name, size, partial(_collective, world, native, theirs, ours, size))
    for size in sizes:
        yield Apart("send and recv of an object, there and back", size, partial(_ping_pong, world, size))


def _collective(world: Any, native: Any, theirs: str, ours: str, size: int) -> Mapping[str, Entry]:
    entries = {"mpi": _checked_call(getattr(world, theirs), theirs, world, size)}
    return entries | ({"native": _checked_call(getattr(native, ours), theirs, world, size)} if native else {})


def _checked_call(call: Callable[[Any], Any], name: str, world: Any, size: int) -> Entry:
    """Return the entry for a call that takes the object of this rank."""
    rank, ranks = world.rank, range(world.size)
    all_objects = [_object(size, number) for number in ranks]
    right: Any = {
        "bcast": all_objects[0],
        "gather": all_objects if rank == 0 else None,
        "allgather": all_objects,
        "allreduce": _object(size, sum(ranks)),
    }[name]
    given = None if name == "bcast" and rank else all_objects[rank]
    return _checked(lambda: call(given), right)


def _object(size: int, number: int) -> Any:
    return number if size <= 8 else np.full(size // 8, number, np.float64)


def _checked(call: Callable[[], Any], right: Any) -> Entry:
    def wrong() -> int:
        got = call()
        if right is None:
            return int(got is not None)
        return (
            int(np.count_nonzero(np.asarray(got) != np.asarray(right))) if type(got) is type(right) else np.size(right)
        )

    return Repeated(call, wrong)


def _ping_pong(world: Any, size: int) -> Mapping[str, Entry]:
    rank, given = world.rank, _object(size, world.rank)
    partner = rank ^ 1
    if partner >= world.size:
        return {"mpi": Repeated(lambda: None, lambda: 0)}

    def call() -> Any:
        if rank % 2:
            got = world.recv(source=partner)
            world.send(given, partner)
        else:
            world.send(given, partner)
            got = world.recv(source=partner)
        return got

    return {"mpi": _checked(call, _object(size, partner))}
