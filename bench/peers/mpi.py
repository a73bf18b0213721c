"""One rank of the benchmark on MPI through mpi4py: `mpiexec -n 2 python mpi.py all_reduce -n 2 ...`.

The loops hand numpy arrays to the upper-case calls, as mpi4py's tutorial does. The calls with counts are told what to
expect, for MPI does not find that out.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import mpi4py
import numpy as np
from mpi4py import MPI
from shmbench.cli.options import parse
from shmbench.collectives import Buffers, Case, Collective
from shmbench.collectives.lengths import received_counts, sent_counts, uneven
from shmbench.collectives.table import COLLECTIVES, repeat
from shmbench.commands.worker import work

OPS = {"sum": MPI.SUM, "prod": MPI.PROD, "min": MPI.MIN, "max": MPI.MAX}
Arguments = Callable[[Case, Any, Any], tuple[Any, ...]]  # of a call: from the case, and a pair of arrays


def over_itself(case: Case, x: Any, out: Any) -> tuple[Any, Any]:
    return (MPI.IN_PLACE, x) if case.in_place else (x, out)


def reducing(case: Case, x: Any, out: Any) -> tuple[Any, ...]:
    return *over_itself(case, x, out), OPS[case.op]


def exscan(case: Case, x: Any, out: Any) -> tuple[Any, ...]:
    """Rank 0 gets nothing, but mpi4py wants a buffer of the right size."""
    return reducing(case, x, np.empty_like(x) if out is None else out)


def reduce(case: Case, x: Any, out: Any) -> tuple[Any, ...]:
    return *(over_itself(case, x, out) if case.is_root else (x, out)), OPS[case.op], case.root


def reduce_scatter_v(case: Case, x: Any, out: Any) -> tuple[Any, ...]:
    return *over_itself(case, x, out), uneven(case), OPS[case.op]


def scatter(case: Case, x: Any, out: Any) -> tuple[Any, ...]:
    return x, MPI.IN_PLACE if case.in_place and case.is_root else out, case.root


def all_to_allv(case: Case, x: Any, out: Any) -> tuple[Any, ...]:
    return [x, sent_counts(case, case.rank)], [out, received_counts(case)]


def collective_permute(case: Case, x: Any, out: Any) -> tuple[Any, ...]:
    """MPI has no such collective: each rank sends and receives."""
    return x, (case.rank + 1) % case.ranks, 0, out, (case.rank - 1) % case.ranks


def with_counts(case: Case, array: Any) -> Any:
    return None if array is None else [array, uneven(case)]


CALLS: dict[str, tuple[str, Arguments]] = {
    "broadcast": ("Bcast", lambda case, x, out: (x, case.root)),
    "all_reduce": ("Allreduce", reducing),
    "reduce": ("Reduce", reduce),
    "reduce_scatter": ("Reduce_scatter_block", reducing),
    "reduce_scatter_v": ("Reduce_scatter", reduce_scatter_v),
    "scan": ("Scan", reducing),
    "exscan": ("Exscan", exscan),
    "all_gather": ("Allgather", lambda case, x, out: (MPI.IN_PLACE if case.in_place else x, out)),
    "all_gather_v": ("Allgatherv", lambda case, x, out: (x, with_counts(case, out))),
    "gather": ("Gather", lambda case, x, out: (x, out, case.root)),
    "gather_v": ("Gatherv", lambda case, x, out: (x, with_counts(case, out), case.root)),
    "scatter": ("Scatter", scatter),
    "scatter_v": ("Scatterv", lambda case, x, out: (with_counts(case, x), out, case.root)),
    "all_to_all": ("Alltoall", over_itself),
    "all_to_all_v": ("Alltoallv", all_to_allv),
    "collective_permute": ("Sendrecv", collective_permute),
}


def run(name: str, comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    method, arguments = CALLS[name]
    repeat(getattr(comm, method), [arguments(case, x, out) for x, out in buffers], n)


def barrier(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    Barrier = comm.Barrier
    for _ in range(n):
        Barrier()


def dup(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    for _ in range(n):
        comm.Dup().Free()


def split(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    for _ in range(n):
        comm.Split(case.rank % 2, case.rank).Free()


def dups_open(comm: Any, case: Case, buffers: Buffers, n: int) -> None:
    for group in [comm.Dup() for _ in range(n)]:
        group.Free()


RUNS = {"barrier": barrier, "dup": dup, "split": split, "dups_open": dups_open}


def to_the_front(lengths: Callable[[Case], tuple[int, int]]) -> Callable[[Case, np.ndarray], Any]:
    """Return the arrays in place for reduce_scatter: MPI writes the result in front, not where the block was."""
    return lambda case, memory: (memory, memory[: lengths(case)[1]])


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
        found = replace(COLLECTIVES[name], run=RUNS.get(name) or partial(run, name))
        return replace(found, in_place=to_the_front(found.lengths)) if name.startswith("reduce_scatter") else found


if __name__ == "__main__":
    sys.exit(work(Mpi(), parse(sys.argv[1:])))
