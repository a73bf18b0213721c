"""MPI's chapter on collectives of neighbours in a topology.

A rank sends a block along each of its edges. Blocks between two ranks travel together, in the order of the receiver's
edges. That is the order of the sender's edges, except in grids: what leaves to one side arrives from the other
one, also where both neighbours of a dimension are one rank.
"""

from collections.abc import Sequence
from typing import Any

from shmcoll.mpi.abi.memory import Numbers
from shmcoll.mpi.objects.blocks import Blocks, Pieces, packed
from shmcoll.mpi.objects.buffers import Buffer
from shmcoll.mpi.objects.collective import Perform, collective
from shmcoll.mpi.objects.communicators import PROC_NULL, Comm
from shmcoll.mpi.objects.datatypes import Datatype
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.scratch import scratch
from shmcoll.mpi.objects.topologies import Cart


def _edges(comm: Comm) -> tuple[list[int], list[int]]:
    """Return the sources and the destinations of this rank."""
    if comm.topology is None:
        raise MPIError("MPI_ERR_TOPOLOGY", f"{comm.in_words} has no topology")
    sources, destinations = comm.topology.neighbors(comm.rank)
    return sources, destinations


def _exchanged(comm: Comm, sent: Sequence[Buffer], given: Blocks) -> Perform:
    """Send a block along each edge. sent: one for each destination."""
    sources, destinations = _edges(comm)
    order = sorted(range(len(destinations)), key=lambda i: (destinations[i], i ^ isinstance(comm.topology, Cart)))
    order = [i for i in order if destinations[i] != PROC_NULL]
    arrival = sorted((i for i, source in enumerate(sources) if source != PROC_NULL), key=lambda i: (sources[i], i))

    def perform() -> None:
        counts = [0] * comm.size
        for i in order:
            counts[destinations[i]] += sent[i].bytes
        expected = [0] * comm.size
        for i in arrival:
            expected[sources[i]] += given.lengths[i]
        arrived = scratch(sum(expected))
        comm.native.all_to_all_v(packed([sent[i] for i in order]), counts, recv_counts=expected, out=arrived)
        start = 0
        for i in arrival:
            given.blocks[i].fill_from(arrived[start : start + given.lengths[i]])
            start += given.lengths[i]

    return perform


@collective()
def Neighbor_allgather(
    source: int, sendcount: int, sendtype: Datatype, target: int, recvcount: int, recvtype: Datatype, comm: Comm
) -> Perform:
    sources, destinations = _edges(comm)
    own = Buffer(source, sendcount, sendtype)
    return _exchanged(comm, [own] * len(destinations), Blocks(target, [recvcount] * len(sources), recvtype))


@collective()
def Neighbor_allgatherv(
    source: int,
    sendcount: int,
    sendtype: Datatype,
    target: int,
    counts: Numbers,
    displs: Numbers,
    recvtype: Datatype,
    comm: Comm,
) -> Perform:
    sources, destinations = _edges(comm)
    n, own = len(sources), Buffer(source, sendcount, sendtype)
    return _exchanged(comm, [own] * len(destinations), Blocks(target, counts.read(n), recvtype, displs.read(n)))


@collective()
def Neighbor_alltoall(
    source: int, sendcount: int, sendtype: Datatype, target: int, recvcount: int, recvtype: Datatype, comm: Comm
) -> Perform:
    sources, destinations = _edges(comm)
    sent = Blocks(source, [sendcount] * len(destinations), sendtype)
    return _exchanged(comm, sent.blocks, Blocks(target, [recvcount] * len(sources), recvtype))


@collective()
def Neighbor_alltoallv(
    source: int,
    sendcounts: Numbers,
    sdispls: Numbers,
    sendtype: Datatype,
    target: int,
    recvcounts: Numbers,
    rdispls: Numbers,
    recvtype: Datatype,
    comm: Comm,
) -> Perform:
    n, m = map(len, _edges(comm))
    sent = Blocks(source, sendcounts.read(m), sendtype, sdispls.read(m))
    return _exchanged(comm, sent.blocks, Blocks(target, recvcounts.read(n), recvtype, rdispls.read(n)))


@collective()
def Neighbor_alltoallw(
    source: int,
    sendcounts: Numbers,
    sdispls: Numbers,
    sendtypes: Numbers,
    target: int,
    recvcounts: Numbers,
    rdispls: Numbers,
    recvtypes: Numbers,
    comm: Comm,
) -> Perform:
    n, m = map(len, _edges(comm))
    sent: Any = Pieces(source, sendcounts, sdispls, sendtypes, m)
    return _exchanged(comm, sent.blocks, Pieces(target, recvcounts, rdispls, recvtypes, n))
