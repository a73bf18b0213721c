"""One rank of the benchmark on MPI through mpi4py: `mpiexec -n 2 python mpi.py all_reduce -n 2 ...`.

The loops hand numpy arrays to the upper-case calls, as mpi4py's tutorial does. The calls with counts are told what to
expect, for MPI does not find that out.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

import mpi4py
import numpy as np
from mpi4py import MPI
from shmbench.cli.options import parse
from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.table import COLLECTIVES, received_counts, sent_counts, uneven
from shmbench.commands.worker import work

OPS = {"sum": MPI.SUM, "prod": MPI.PROD, "min": MPI.MIN, "max": MPI.MAX}
Run = Callable[[Any, Case, Buffers, int], None]


def barrier(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    Barrier = comm.Barrier
    for _ in range(n):
        Barrier()


def broadcast(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    Bcast, root = comm.Bcast, case.root
    for x, _ in islice(cycle(buffers), n):
        Bcast(x, root)


def reducing(name: str) -> Run:
    """Allreduce, Scan and Exscan."""

    def run(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
        call, op = getattr(comm, name), OPS[case.op]
        if case.in_place:
            buffers = [(MPI.IN_PLACE, x) for x, _ in buffers]
        for x, out in islice(cycle(buffers), n):
            call(x, out, op)

    return run


def reduce(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    Reduce, op, root = comm.Reduce, OPS[case.op], case.root
    if case.in_place and case.is_root:
        buffers = [(MPI.IN_PLACE, x) for x, _ in buffers]
    for x, out in islice(cycle(buffers), n):
        Reduce(x, out, op, root)


def exscan(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    """Rank 0 gets nothing, but mpi4py wants a buffer of the right size."""
    spare = np.empty(case.counts.size, case.dtype) if case.rank == 0 else None
    reducing("Exscan")(comm, case, [(x, spare if out is None else out) for x, out in buffers], n)


def reduce_scatter(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    Reduce_scatter_block, op = comm.Reduce_scatter_block, OPS[case.op]
    if case.in_place:
        buffers = [(MPI.IN_PLACE, x) for x, _ in buffers]
    for x, out in islice(cycle(buffers), n):
        Reduce_scatter_block(x, out, op)


def reduce_scatter_v(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    Reduce_scatter, op, counts = comm.Reduce_scatter, OPS[case.op], uneven(case)
    if case.in_place:
        buffers = [(MPI.IN_PLACE, x) for x, _ in buffers]
    for x, out in islice(cycle(buffers), n):
        Reduce_scatter(x, out, counts, op)


def to_the_front(lengths: Callable[[Case], tuple[int, int]]) -> Callable[[Case, np.ndarray], Any]:
    """In place: MPI puts the result of the reduce_scatters in front, not where the block was."""
    return lambda case, memory: (memory, memory[: lengths(case)[1]])


def all_gather(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    Allgather = comm.Allgather
    if case.in_place:
        buffers = [(MPI.IN_PLACE, out) for _, out in buffers]
    for x, out in islice(cycle(buffers), n):
        Allgather(x, out)


def all_gather_v(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    Allgatherv, counts = comm.Allgatherv, uneven(case)
    messages = [(x, [out, counts]) for x, out in buffers]
    for x, message in islice(cycle(messages), n):
        Allgatherv(x, message)


def gather(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    Gather, root = comm.Gather, case.root
    for x, out in islice(cycle(buffers), n):
        Gather(x, out, root)


def gather_v(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    Gatherv, root, counts = comm.Gatherv, case.root, uneven(case)
    messages = [(x, None if out is None else [out, counts]) for x, out in buffers]
    for x, message in islice(cycle(messages), n):
        Gatherv(x, message, root)


def scatter(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    Scatter, root = comm.Scatter, case.root
    if case.in_place and case.is_root:
        buffers = [(x, MPI.IN_PLACE) for x, _ in buffers]
    for x, out in islice(cycle(buffers), n):
        Scatter(x, out, root)


def scatter_v(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    Scatterv, root, counts = comm.Scatterv, case.root, uneven(case)
    messages = [(None if x is None else [x, counts], out) for x, out in buffers]
    for message, out in islice(cycle(messages), n):
        Scatterv(message, out, root)


def all_to_all(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    Alltoall = comm.Alltoall
    if case.in_place:
        buffers = [(MPI.IN_PLACE, x) for x, _ in buffers]
    for x, out in islice(cycle(buffers), n):
        Alltoall(x, out)


def all_to_allv(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    Alltoallv = comm.Alltoallv
    sent, received = sent_counts(case, case.rank), received_counts(case)
    messages = [([x, sent], [out, received]) for x, out in buffers]
    for message, result in islice(cycle(messages), n):
        Alltoallv(message, result)


def collective_permute(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    """MPI has no such collective: each rank sends and receives."""
    Sendrecv, target, source = comm.Sendrecv, (case.rank + 1) % case.ranks, (case.rank - 1) % case.ranks
    for x, out in islice(cycle(buffers), n):
        Sendrecv(x, target, recvbuf=out, source=source)


RUNS: dict[str, Run] = {
    "barrier": barrier,
    "broadcast": broadcast,
    "all_reduce": reducing("Allreduce"),
    "reduce": reduce,
    "reduce_scatter": reduce_scatter,
    "scan": reducing("Scan"),
    "exscan": exscan,
    "all_gather": all_gather,
    "gather": gather,
    "scatter": scatter,
    "all_to_all": all_to_all,
    "all_gather_v": all_gather_v,
    "gather_v": gather_v,
    "scatter_v": scatter_v,
    "reduce_scatter_v": reduce_scatter_v,
    "all_to_all_v": all_to_allv,
    "collective_permute": collective_permute,
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
        found = replace(COLLECTIVES[name], run=RUNS[name])
        return replace(found, in_place=to_the_front(found.lengths)) if name.startswith("reduce_scatter") else found


if __name__ == "__main__":
    sys.exit(work(Mpi(), parse(sys.argv[1:])))
