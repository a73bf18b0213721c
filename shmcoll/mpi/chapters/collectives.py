"""MPI's chapter on collectives: those of blocks of equal length, and of blocks of different lengths.

Each is described once for its three forms (`objects/collective.py`), and for both kinds of communicators: `peers` are
the ranks that a rank exchanges blocks with. What ranks exchange are packed bytes. Native functions make the same calls
of shmcoll as those here (`engine/native/mpi_collectives.py`), because any rank may use either.
"""

from typing import Any

import numpy as np

from shmcoll.mpi.abi.memory import IN_PLACE, Numbers
from shmcoll.mpi.objects.blocks import Blocks, Pieces
from shmcoll.mpi.objects.buffers import Buffer
from shmcoll.mpi.objects.collective import Perform, collective
from shmcoll.mpi.objects.communicators import Comm
from shmcoll.mpi.objects.datatypes import Datatype
from shmcoll.mpi.objects.scratch import scratch

NOTHING = np.empty(0, np.uint8)


@collective()
def Barrier(comm: Comm) -> Perform:
    return comm.native.barrier


@collective()
def Bcast(address: int, count: int, datatype: Datatype, root: int, comm: Comm) -> Perform:
    comm.check_root(root)
    buffer = Buffer(address, count, datatype)

    def perform() -> None:
        at = comm.native_root(root)
        if comm.is_root(root):
            comm.native.broadcast(buffer.packed(), at)
        elif not comm.is_served(root):
            comm.native.broadcast(None, at)
        else:
            target = buffer.target()
            comm.native.broadcast(target, at)
            buffer.fill(target)

    return perform


@collective(nullable=("sendtype", "recvtype"))
def Allgather(
    source: int, sendcount: int, sendtype: Any, target: int, recvcount: int, recvtype: Any, comm: Comm
) -> Perform:
    blocks = Blocks(target, [recvcount] * comm.peers, recvtype)
    return _all_gathered(source, sendcount, sendtype, blocks, comm, are_equal=not comm.is_inter)


@collective(nullable=("sendtype", "recvtype"))
def Allgatherv(
    source: int, sendcount: int, sendtype: Any, target: int, counts: Numbers, displs: Numbers, recvtype: Any, comm: Comm
) -> Perform:
    blocks = Blocks(target, counts.read(comm.peers), recvtype, displs.read(comm.peers))
    return _all_gathered(source, sendcount, sendtype, blocks, comm)


def _all_gathered(
    source: int, count: int, datatype: Any, blocks: Blocks, comm: Comm, *, are_equal: bool = False
) -> Perform:
    own = blocks.blocks[comm.rank] if source == IN_PLACE else Buffer(source, count, datatype)
    if source != IN_PLACE:
        blocks.check_apart(own)

    def perform() -> None:
        target, data = blocks.target(), own.packed()
        if are_equal:
            comm.native.all_gather(data, out=target)
        elif comm.is_inter:
            sent, zeros = comm.spread([data.size] * comm.peers), [0] * comm.native.size
            comm.native.all_to_all_v(data, sent, zeros, recv_counts=comm.spread(blocks.lengths), out=target)
        else:
            comm.native.all_gather_v(data, recv_counts=blocks.lengths, out=target)
        blocks.fill(target)

    return perform


@collective(nullable=("sendtype", "recvtype"))
def Gather(
    source: int, sendcount: int, sendtype: Any, target: int, recvcount: int, recvtype: Any, root: int, comm: Comm
) -> Perform:
    comm.check_root(root)
    blocks = Blocks(target, [recvcount] * comm.peers, recvtype) if comm.is_root(root) else None
    return _gathered(source, sendcount, sendtype, blocks, root, comm, are_equal=not comm.is_inter)


@collective(nullable=("sendtype", "recvtype"))
def Gatherv(
    source: int,
    sendcount: int,
    sendtype: Any,
    target: int,
    counts: Numbers,
    displs: Numbers,
    recvtype: Any,
    root: int,
    comm: Comm,
) -> Perform:
    comm.check_root(root)
    size = comm.peers
    blocks = Blocks(target, counts.read(size), recvtype, displs.read(size)) if comm.is_root(root) else None
    return _gathered(source, sendcount, sendtype, blocks, root, comm)


def _gathered(
    source: int,
    count: int,
    datatype: Any,
    blocks: Blocks | None,
    root: int,
    comm: Comm,
    *,
    are_equal: bool = False,
) -> Perform:
    own: Buffer | None = None
    if source == IN_PLACE and blocks is not None:
        own = blocks.blocks[root]
    elif comm.is_served(root):
        own = Buffer(source, count, datatype)
        if blocks is not None:
            blocks.check_apart(own)

    def perform() -> None:
        data, at = own.packed() if own else NOTHING, comm.native_root(root)
        target = blocks.target() if blocks else None
        if are_equal:
            comm.native.gather(data, at, out=target)
        elif blocks is None:
            comm.native.gather_v(data, at)
        else:
            comm.native.gather_v(data, at, recv_counts=comm.spread(blocks.lengths), out=target)
        if blocks is not None and target is not None:
            blocks.fill(target)

    return perform


@collective(nullable=("sendtype", "recvtype"))
def Scatter(
    source: int, sendcount: int, sendtype: Any, target: int, recvcount: int, recvtype: Any, root: int, comm: Comm
) -> Perform:
    comm.check_root(root)
    blocks = Blocks(source, [sendcount] * comm.peers, sendtype) if comm.is_root(root) else None
    return _scattered(blocks, target, recvcount, recvtype, root, comm, are_equal=not comm.is_inter)


@collective(nullable=("sendtype", "recvtype"))
def Scatterv(
    source: int,
    counts: Numbers,
    displs: Numbers,
    sendtype: Any,
    target: int,
    recvcount: int,
    recvtype: Any,
    root: int,
    comm: Comm,
) -> Perform:
    comm.check_root(root)
    size = comm.peers
    blocks = Blocks(source, counts.read(size), sendtype, displs.read(size)) if comm.is_root(root) else None
    return _scattered(blocks, target, recvcount, recvtype, root, comm)


def _scattered(
    blocks: Blocks | None, target: int, count: int, datatype: Any, root: int, comm: Comm, *, are_equal: bool = False
) -> Perform:
    own = Buffer(target, count, datatype) if target != IN_PLACE and comm.is_served(root) else None
    if blocks is not None and own is not None:
        blocks.check_apart(own)

    def perform() -> None:
        at = comm.native_root(root)
        into = own.target() if own else None
        if are_equal:
            comm.native.scatter(blocks.packed() if blocks else None, at, out=into)
        elif blocks is not None:
            comm.native.scatter_v(blocks.packed(), at, send_counts=comm.spread(blocks.lengths), out=into)
        else:
            comm.native.scatter_v(None, at, out=into)
        if own is not None and into is not None:
            own.fill(into)

    return perform


@collective(nullable=("sendtype", "recvtype"))
def Alltoall(
    source: int, sendcount: int, sendtype: Any, target: int, recvcount: int, recvtype: Any, comm: Comm
) -> Perform:
    given = Blocks(target, [recvcount] * comm.peers, recvtype)
    sent = given if source == IN_PLACE else Blocks(source, [sendcount] * comm.peers, sendtype)
    return _exchanged(sent, given, comm, in_place=source == IN_PLACE, are_equal=not comm.is_inter)


@collective(nullable=("sendtype", "recvtype"))
def Alltoallv(
    source: int,
    sendcounts: Numbers,
    sdispls: Numbers,
    sendtype: Any,
    target: int,
    recvcounts: Numbers,
    rdispls: Numbers,
    recvtype: Any,
    comm: Comm,
) -> Perform:
    size = comm.peers
    given = Blocks(target, recvcounts.read(size), recvtype, rdispls.read(size))
    if source == IN_PLACE:
        return _exchanged(given, given, comm, in_place=True)
    return _exchanged(Blocks(source, sendcounts.read(size), sendtype, sdispls.read(size)), given, comm)


@collective()
def Alltoallw(
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
    given = Pieces(target, recvcounts, rdispls, recvtypes, comm.peers)
    if source == IN_PLACE:
        return _exchanged(given, given, comm, in_place=True)
    return _exchanged(Pieces(source, sendcounts, sdispls, sendtypes, comm.peers), given, comm)


def _exchanged(sent: Blocks, given: Blocks, comm: Comm, *, in_place: bool = False, are_equal: bool = False) -> Perform:
    if not in_place:
        given.check_apart(sent)

    def perform() -> None:
        source = sent.packed()
        target = scratch(sum(given.lengths)) if in_place else given.target()
        if are_equal:
            comm.native.all_to_all(source, out=target)
        else:
            lengths = comm.spread(sent.lengths), comm.spread(given.lengths)
            comm.native.all_to_all_v(source, lengths[0], recv_counts=lengths[1], out=target)
        if in_place:
            start = 0
            for block, length in zip(given.blocks, given.lengths, strict=True):
                block.fill_from(target[start : start + length])
                start += length
        else:
            given.fill(target)

    return perform
