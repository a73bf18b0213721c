"""One rank of the benchmark on MPI through mpi4py: `mpiexec -n 2 python mpi.py all_reduce -n 2 ...`.

The loops hand numpy arrays to the upper-case calls, as mpi4py's tutorial does.
"""

import sys
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

import mpi4py
import numpy as np
from mpi4py import MPI
from shmbench.collectives import Buffers, Case, Collective, all_to_all_v, find
from shmbench.options import parse
from shmbench.worker import work

OPS = {"sum": MPI.SUM, "prod": MPI.PROD, "min": MPI.MIN, "max": MPI.MAX}


def all_reduce(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    Allreduce, op = comm.Allreduce, OPS[case.op]
    if case.in_place:
        buffers = [(MPI.IN_PLACE, x) for x, _ in buffers]
    for x, out in islice(cycle(buffers), n):
        Allreduce(x, out, op)


def all_to_all(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    Alltoall = comm.Alltoall
    for x, out in islice(cycle(buffers), n):
        Alltoall(x, out)


def all_to_allv(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    Alltoallv = comm.Alltoallv
    sent, received = all_to_all_v.sent_counts(case, case.rank), all_to_all_v.received_counts(case)
    messages = [([x, sent], [out, received]) for x, out in buffers]
    for message, result in islice(cycle(messages), n):
        Alltoallv(message, result)


def gather(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    Gather, root = comm.Gather, case.root
    for x, out in islice(cycle(buffers), n):
        Gather(x, out, root)


def barrier(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    Barrier = comm.Barrier
    for _ in range(n):
        Barrier()


RUNS = {
    "all_reduce": all_reduce,
    "all_to_all": all_to_all,
    "all_to_all_v": all_to_allv,
    "gather": gather,
    "barrier": barrier,
}


class Mpi:
    """The world communicator of whichever MPI the environment brings."""

    def __init__(self) -> None:
        self.comm = MPI.COMM_WORLD
        self.rank = self.comm.rank
        self.size = self.comm.size
        self.name, version = MPI.get_vendor()
        self.version = ".".join(map(str, version)) + f" with mpi4py {mpi4py.__version__}"

    def barrier(self) -> None:
        self.comm.Barrier()

    def exchange(self, values: np.ndarray) -> np.ndarray:
        everyone = np.empty((self.size, values.size))
        self.comm.Allgather(np.ascontiguousarray(values), everyone)
        return everyone

    def collective(self, name: str) -> Collective:
        return replace(find(name), run=RUNS[name])


if __name__ == "__main__":
    sys.exit(work(Mpi(), parse(sys.argv[1:])))
