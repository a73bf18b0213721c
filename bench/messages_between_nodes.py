"""Messages between two ranks of different nodes: mpi4py and shmcoll in turn.

    mpiexec -n 2 python bench/messages_between_nodes.py     # one rank on each node

With MPICH, MPIR_CVAR_NUM_CLIQUES=2 makes two nodes of one machine; `docs/performance.md` has the whole command. Rank 0
prints the medians of the rounds in us: half of the time there and back, and for posted receives and sendrecv, which
both ranks make at once, the whole time. Each message is compared with what was sent, before the rounds.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from mpi4py import MPI

import shmcoll

TAG = 7
LENGTHS = (8, 64, 128, 200, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20, 16 << 20, 64 << 20)
LONG = 1 << 18  # bytes from which fewer calls are made

Calls = dict[str, tuple[Callable[[], Any], Callable[[], Any]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="rounds, whose medians are printed (7)")
    parser.add_argument("--calls", type=int, default=200, metavar="N", help="calls of a round (200)")
    given = parser.parse_args()
    world = MPI.COMM_WORLD
    comm = shmcoll.from_mpi(world)
    if comm.size != 2 or len(comm.nodes) != 2:
        raise SystemExit("start it with 2 ranks on 2 nodes")
    show(world, f"{'us':<26}{'mpi4py':>10}{'shmcoll':>10}{'difference':>12}")
    for length in LENGTHS:
        calls = given.calls if length <= LONG else max(2, given.calls * LONG // length)
        alternate(world, f"array, {length} B", arrays(world, comm, length), given.rounds, calls)
    x = np.ones(1)
    alternate(world, "array, 8 B, from ANY", arrays(world, comm, 8, from_any=True), given.rounds, given.calls)
    alternate(world, "object, a dict", objects(world, comm, {"a": 1, "b": [1, 2]}), given.rounds, given.calls)
    alternate(world, "object, an array, 1 MiB", objects(world, comm, np.ones(1 << 17)), given.rounds, given.calls // 4)
    alternate(world, "sendrecv, 8 B", both(world, comm, x), given.rounds, given.calls, ways=1)
    alternate(world, "posted receive, 8 B", posted(world, comm, x), given.rounds, given.calls, ways=1)


def arrays(world: Any, comm: Any, length: int, *, from_any: bool = False) -> Calls:
    """Return how arrays are sent and received, by library."""
    other, x, out = 1 - comm.rank, np.full(length, comm.rank, np.uint8), np.empty(length, np.uint8)
    by_mpi, by_us = (MPI.ANY_SOURCE, shmcoll.ANY) if from_any else (other, other)
    calls: Calls = {
        "mpi4py": (lambda: world.Send(x, other, TAG), lambda: world.Recv(out, by_mpi, TAG)),
        "shmcoll": (lambda: comm.send(x, other, TAG), lambda: comm.recv(out, by_us, TAG)),
    }
    for send, receive in calls.values():
        out[:] = 9
        for call in (send, receive) if comm.rank == 0 else (receive, send):
            call()
        assert (out == other).all()
    return calls


def objects(world: Any, comm: Any, value: Any) -> Calls:
    """Return how objects are sent and received."""
    other = 1 - comm.rank
    return {
        "mpi4py": (lambda: world.send(value, other, TAG), lambda: world.recv(source=other, tag=TAG)),
        "shmcoll": (lambda: comm.send_object(value, other, TAG), lambda: comm.recv_object(other, TAG)),
    }


def both(world: Any, comm: Any, x: np.ndarray) -> Calls:
    """Return how two ranks exchange arrays."""
    other, out = 1 - comm.rank, np.empty_like(x)
    return {
        "mpi4py": (lambda: world.Sendrecv(x, other, TAG, out, other, TAG), lambda: None),
        "shmcoll": (lambda: comm.sendrecv(x, other, out, other, TAG, TAG), lambda: None),
    }


def posted(world: Any, comm: Any, x: np.ndarray) -> Calls:
    """Return how two ranks post a receive each, send, and wait."""
    other, out = 1 - comm.rank, np.empty_like(x)

    def by_mpi() -> None:
        receive = world.Irecv(out, other, TAG)
        world.Isend(x, other, TAG).Wait()
        receive.Wait()

    def by_us() -> None:
        receive = comm.recv(out, other, TAG, async_op=True)
        comm.send(x, other, TAG)
        receive.wait()

    return {"mpi4py": (by_mpi, lambda: None), "shmcoll": (by_us, lambda: None)}


def alternate(world: Any, name: str, calls: Calls, rounds: int, count: int, ways: int = 2) -> None:
    """Measure the libraries in turn, and print a line. The first round warms up."""
    times: dict[str, list[float]] = {library: [] for library in calls}
    for _ in range(rounds + 1):
        for library, (send, receive) in calls.items():
            first, second = (send, receive) if world.rank == 0 or ways == 1 else (receive, send)
            world.Barrier()
            begun = time.perf_counter()
            for _ in range(count):
                first()
                second()
            times[library].append((time.perf_counter() - begun) / count / ways * 1e6)
    theirs, ours = (median(one[1:]) for one in times.values())
    show(world, f"{name:<26}{theirs:>10.1f}{ours:>10.1f}{ours - theirs:>+12.1f}")


def show(world: Any, line: str) -> None:
    if world.rank == 0:
        print(line, flush=True)


if __name__ == "__main__":
    main()
