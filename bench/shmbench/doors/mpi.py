"""The calls of mpi4py. Each library of MPI has a job of its own, in which the same program makes them.

Arrays of messages and windows go between partners: ranks 0 and 1, 2 and 3, and so on. Of an odd number, the last rank
rests. Beside calls through mpi4py the job of shmcoll makes those of shmcoll that do the same: native.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from shmbench.collectives import Collective
from shmbench.doors import Apart, mpi_derived, mpi_objects
from shmbench.features.messages import there_and_back
from shmbench.timing.ab_timing import Entry, Repeated
from shmbench.timing.entries import collective, exchange

SIZES = (8, 64 << 10, 1 << 20, 64 << 20)
QUICK = (8, 64 << 10)
COLLECTIVES = {
    "Allreduce": "all_reduce",
    "Bcast": "broadcast",
    "Alltoall": "all_to_all",
    "Allgather": "all_gather",
    "Reduce": "reduce",
    "Gather": "gather",
    "Scatter": "scatter",
    "Allgatherv": "all_gather_v",
    "Alltoallv": "all_to_all_v",
}
MANY = 16  # requests at once
NOTHING = Repeated(lambda: None, lambda: 0)


def has_partner(world: Any) -> bool:
    return int(world.rank ^ 1) < world.size


def apart(world: Any, native: Any, kinds: Callable[[str], Collective], quick: bool) -> Iterator[Apart]:
    """Yield all calls.

    Args:
        world: the communicator of mpi4py.
        native: that of shmcoll, if this is its job, or None.
        kinds: returns a collective of shmbench as mpi4py makes it.
        quick: whether short arrays are enough.
    """
    sizes = QUICK if quick else SIZES
    yield Apart("Barrier", 0, partial(_collective, world, native, "barrier", kinds, 0))
    for name, ours in COLLECTIVES.items():
        for size in sizes:
            yield Apart(name, size, partial(_collective, world, native, ours, kinds, size))
    for size in sizes:
        yield Apart("Send and Recv, there and back", size, partial(_ping_pong, world, native, size))
    for size in sizes:
        yield Apart("Isend, Irecv, Wait", size, partial(_requests, world, size))
    yield Apart(f"{MANY} Isend, {MANY} Irecv, Waitall", 8, partial(_waitall, world))
    yield from _windows(world, sizes)
    yield from mpi_objects.apart(world, native, sizes)
    yield from mpi_derived.apart(world, quick)


def _collective(
    world: Any, native: Any, name: str, kinds: Callable[[str], Collective], size: int
) -> Mapping[str, Entry]:
    in_place = name == "broadcast"
    entries = {"mpi": collective(world, name, size, in_place=in_place, kind=kinds(name))}
    return entries | ({"native": collective(native, name, size, in_place=in_place)} if native else {})


def _pair(world: Any, size: int, loop: Callable[[np.ndarray, np.ndarray, int], None]) -> Entry:
    """Return the entry in which `loop(x, out, n)` moves x to the partner's out."""
    if not has_partner(world):
        return NOTHING
    x, out = np.empty(size // 8), np.empty(size // 8)
    return exchange(world.rank, world.size, x, out, partial(loop, x, out))


def _ping_pong(world: Any, native: Any, size: int) -> Mapping[str, Entry]:
    ours = {"mpi": _pair(world, size, partial(there_and_back, world.Send, world.Recv, world.rank))}
    if native:
        ours["native"] = _pair(world, size, partial(there_and_back, native.send, native.recv, native.rank))
    return ours


def _requests(world: Any, size: int) -> Mapping[str, Entry]:
    partner, isend, irecv = world.rank ^ 1, world.Isend, world.Irecv

    def loop(x: np.ndarray, out: np.ndarray, n: int) -> None:
        for _ in range(n):
            coming = irecv(out, partner)
            isend(x, partner).Wait()
            coming.Wait()

    return {"mpi": _pair(world, size, loop)}


def _waitall(world: Any) -> Mapping[str, Entry]:
    from mpi4py import MPI

    partner, isend, irecv, waitall = world.rank ^ 1, world.Isend, world.Irecv, MPI.Request.Waitall

    def loop(x: np.ndarray, out: np.ndarray, n: int) -> None:
        xs, outs = np.split(x, MANY), np.split(out, MANY)
        for _ in range(n):
            coming = [irecv(one, partner, tag) for tag, one in enumerate(outs)]
            waitall(coming + [isend(one, partner, tag) for tag, one in enumerate(xs)])

    return {"mpi": _pair(world, 8 * MANY, loop)}


def _windows(world: Any, sizes: tuple[int, ...]) -> Iterator[Apart]:
    """Yield the calls in a window of each size, which all ranks have locked."""
    from mpi4py import MPI

    for size in sizes:
        window = MPI.Win.Allocate(size, 8, comm=world)
        window.Lock_all()
        for name, make in {"Put, Flush": _put, "Get, Flush": _get, "Accumulate, Flush": _accumulate}.items():
            yield Apart(name, size, partial(_in_window, world, window, make))
        window.Unlock_all()
        window.Free()


def _in_window(world: Any, window: Any, make: Callable[..., Entry]) -> Mapping[str, Entry]:
    memory = np.frombuffer(window.tomemory(), dtype=np.float64)
    return {"mpi": make(world, window, memory, np.empty_like(memory)) if has_partner(world) else NOTHING}


def _put(world: Any, window: Any, memory: np.ndarray, x: np.ndarray) -> Entry:
    partner, put, flush = world.rank ^ 1, window.Put, window.Flush

    def loop(n: int) -> None:
        for _ in range(n):
            put(x, partner)
            flush(partner)

    return exchange(world.rank, world.size, x, memory, loop)


def _get(world: Any, window: Any, memory: np.ndarray, out: np.ndarray) -> Entry:
    partner, get, flush = world.rank ^ 1, window.Get, window.Flush

    def loop(n: int) -> None:
        for _ in range(n):
            get(out, partner)
            flush(partner)

    return exchange(world.rank, world.size, memory, out, loop)


def _accumulate(world: Any, window: Any, memory: np.ndarray, x: np.ndarray) -> Entry:
    return _Accumulated(window, memory, x, world.rank)


@dataclass
class _Accumulated:
    """Adds one more than the rank to each element of the partner, which does so as often."""

    window: Any
    memory: np.ndarray
    x: np.ndarray
    rank: int
    calls: int = 0

    def refill(self, seq: int) -> None:
        self.memory[...], self.x[...], self.calls = seq, self.rank + 1, 0

    def run(self, n: int) -> None:
        accumulate, flush, x, partner = self.window.Accumulate, self.window.Flush, self.x, self.rank ^ 1
        for _ in range(n):
            accumulate(x, partner)
            flush(partner)
        self.calls += n

    def mistakes(self, seq: int) -> int:
        return int(np.count_nonzero(self.memory != seq + self.calls * ((self.rank ^ 1) + 1)))
