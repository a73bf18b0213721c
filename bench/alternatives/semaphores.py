"""A barrier of POSIX semaphores, beside the one of flags.

    shmrun -n 2 bench/alternatives/semaphores.py [--quick]

Each rank has two semaphores, used in turn: it releases one of every peer and acquires its own as often as there are
peers. With one, a fast rank's next release could stand for a slow one's. Needs posix_ipc:
`pip install 'shmcoll[alternatives]'`.
"""

import secrets
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import posix_ipc

import shmcoll


class SemaphoreBarrier:
    """Called like `comm.barrier`."""

    def __init__(self, comm: shmcoll.Communicator):
        self.rank, self.size, self.turn = comm.rank, comm.size, 0
        name = comm.broadcast_object(f"/shmcoll-alternative-{secrets.token_hex(8)}")
        names = [[f"{name}-{rank}-{turn}" for rank in range(comm.size)] for turn in (0, 1)]
        self.semaphores = [[posix_ipc.Semaphore(one, posix_ipc.O_CREAT) for one in row] for row in names]
        comm.barrier()
        for row in names:
            posix_ipc.unlink_semaphore(row[comm.rank])

    def __call__(self) -> None:
        row = self.semaphores[self.turn]
        for peer, semaphore in enumerate(row):
            if peer != self.rank:
                semaphore.release()
        for _ in range(self.size - 1):
            row[self.rank].acquire(10)
        self.turn ^= 1


def us_a_call(call: Callable[[], object], times: int) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times * 1e6


def main() -> None:
    comm = shmcoll.init()
    quick = "--quick" in sys.argv
    barrier = SemaphoreBarrier(comm)
    figures: tuple[list[float], list[float]] = ([], [])
    for _ in range(1 if quick else 5):
        figures[0].append(us_a_call(barrier, 50 if quick else 5000))
        figures[1].append(us_a_call(comm.barrier, 50 if quick else 5000))
    semaphores, flags = comm.all_reduce(np.array([statistics.median(each) for each in figures]), "max")
    if comm.rank == 0:
        print(f"barrier of {comm.size} ranks: semaphores {semaphores:.2f} us, shmcoll {flags:.2f} us")


if __name__ == "__main__":
    main()
