"""Objects of Python, which mpi4py pickles: an int and arrays of numpy, bytes, and lists of numbers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from shmbench.doors import Apart
from shmbench.timing.ab_timing import Entry, Repeated

CALLS = {
    "bcast": "broadcast_object",
    "gather": "gather_object",
    "allgather": "all_gather_object",
    "allreduce": "all_reduce_object",
    "scatter": "scatter_object",
    "alltoall": "all_to_all_object",
}
KINDS = ("an object", "bytes", "a list")
BETWEEN = 16 << 20  # bytes


def apart(world: Any, native: Any, sizes: Sequence[int]) -> Iterator[Apart]:
    """Yield the calls with objects of these sizes. native: the communicator of shmcoll, if this is its job, or None."""
    sizes = sorted({*sizes, BETWEEN}) if max(sizes) > BETWEEN else sizes
    for kind in KINDS:
        for name, ours in CALLS.items():
            if name == "allreduce" and kind != KINDS[0]:
                continue
            for size in sizes:
                if kind == KINDS[0] or 8 < size <= BETWEEN:
                    called = partial(_collective, world, native, name, ours, kind, size)
                    yield Apart(f"{name} of {kind}", size, called)
    for size in sizes:
        yield Apart("send and recv of an object, there and back", size, partial(_ping_pong, world, size))


def _collective(world: Any, native: Any, theirs: str, ours: str, kind: str, size: int) -> Mapping[str, Entry]:
    entries = {"mpi": _checked_call(getattr(world, theirs), theirs, world, kind, size)}
    return entries | ({"native": _checked_call(getattr(native, ours), theirs, world, kind, size)} if native else {})


def _checked_call(call: Callable[[Any], Any], name: str, world: Any, kind: str, size: int) -> Entry:
    """Return the entry for a call that takes the object of this rank."""
    rank, ranks = world.rank, range(world.size)
    all_objects = [_object(size, number, kind) for number in ranks]
    right: Any = {
        "bcast": all_objects[0],
        "gather": all_objects if rank == 0 else None,
        "allgather": all_objects,
        "scatter": all_objects[rank],
        "alltoall": all_objects,
        "allreduce": _object(size, sum(ranks), kind),
    }[name]
    given = {
        "bcast": None if rank else all_objects[0],
        "scatter": None if rank else all_objects,
        "alltoall": [all_objects[rank]] * world.size,
    }.get(name, all_objects[rank])
    return _checked(lambda: call(given), right)


def _object(size: int, number: int, kind: str = KINDS[0]) -> Any:
    if kind == "bytes":
        return bytes([1 + number]) * size
    if kind == "a list":
        return [float(number + i) for i in range(size // 8)]
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
