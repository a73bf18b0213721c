"""Compare shmcoll over simulated nodes with flat MPI on the same ranks, in turn: one round of each after the other.

    mpiexec -n 4 python bench/nodes/compare.py 2        # 2 nodes of 2 ranks

Every result is checked. A line has the medians over rounds of the slowest rank's time for one call, and their ratio.
"""

import os
import sys
import time
from collections.abc import Callable

import numpy as np

ROUNDS = 15


def main() -> None:
    nodes = int(sys.argv[1])
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    os.environ["SHMCOLL_NODE"] = f"node{world.rank * nodes // world.size}"
    import shmcoll

    comm = shmcoll.from_mpi(world)
    if comm.rank == 0:
        print(f"{world.size} ranks on {nodes} nodes, {MPI.Get_library_version().split(',')[0].splitlines()[0].strip()}")
        print(f"{'':28}{'MPI us':>12}{'shmcoll us':>12}{'ratio':>8}")
    for name, size, ours, theirs, calls in cases(comm, world, MPI):
        times: tuple[list[float], list[float]] = ([], [])
        for call in (theirs, ours):
            call()
        for _ in range(ROUNDS):
            for call, found in zip((theirs, ours), times, strict=True):
                world.Barrier()
                begun = time.perf_counter()
                for _ in range(calls):
                    call()
                found.append(world.allreduce((time.perf_counter() - begun) / calls, op=MPI.MAX))
        flat, nodal = (float(np.median(one)) * 1e6 for one in times)
        if comm.rank == 0:
            print(f"{name:16}{size:>12}{flat:12.1f}{nodal:12.1f}{nodal / flat:8.2f}", flush=True)


Case = tuple[str, str, Callable[[], object], Callable[[], object], int]


def cases(comm, world, mpi) -> list[Case]:  # type: ignore[no-untyped-def]
    found: list[Case] = [("barrier", "", comm.barrier, world.Barrier, 100)]
    for size, title, calls in ((8, "8 B", 100), (64 << 10, "64 KiB", 30), (4 << 20, "4 MiB", 4)):
        x = np.full(size // 4, comm.rank + 1, np.float32)
        out, total = np.empty_like(x), comm.size * (comm.size + 1) // 2

        def ours(x: np.ndarray = x, out: np.ndarray = out, total: int = total) -> None:
            comm.all_reduce(x, out=out)
            assert out[0] == out[-1] == total

        def theirs(x: np.ndarray = x, out: np.ndarray = out, total: int = total) -> None:
            world.Allreduce(x, out)
            assert out[0] == out[-1] == total

        found.append(("all_reduce", title, ours, theirs, calls))
    for size, title, calls in ((8, "8 B a block", 100), (1 << 10, "1 KiB a block", 100)):
        x = np.full((comm.size, size), comm.rank, np.uint8)
        out = np.empty_like(x)

        def ours(x: np.ndarray = x, out: np.ndarray = out) -> None:
            comm.all_to_all(x, out=out)
            assert out[:, 0].tolist() == list(range(comm.size))

        def theirs(x: np.ndarray = x, out: np.ndarray = out) -> None:
            world.Alltoall(x, out)
            assert out[:, 0].tolist() == list(range(comm.size))

        found.append(("all_to_all", title, ours, theirs, calls))
    return found


if __name__ == "__main__":
    main()
