"""MPI's chapter on collectives: those of blocks of equal length, and of blocks of different lengths.

Each is described once for its three forms (`objects/collective.py`). What ranks exchange are packed bytes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shmcoll.mpi.abi.memory import Numbers
from shmcoll.mpi.objects.buffers import Buffer
from shmcoll.mpi.objects.collective import IN_PLACE, Perform, collective
from shmcoll.mpi.objects.communicators import Comm
from shmcoll.mpi.objects.datatypes import Datatype
from shmcoll.mpi.objects.handles import DATATYPE


class Blocks:
    """Blocks of a rank's memory, one for each rank, of one datatype.

    counts: how many elements each has. displs: where each begins, in extents of the datatype; None if each begins
    behind the one before.
    """

    def __init__(self, address: int, counts: Sequence[int], datatype: Datatype, displs: Sequence[int] | None = None):
        self._datatype, self.counts = datatype, list(counts)
        ends = np.cumsum([0, *self.counts]).tolist()
        starts = ends[:-1] if displs is None else displs
        self._is_dense = datatype.is_contiguous and (displs is None or list(displs) == ends[:-1])
        self._whole = Buffer(address, ends[-1] if self._is_dense else 0, datatype)
        self.blocks = [
            Buffer(address + start * datatype.extent, count, datatype)
            for start, count in zip(starts, self.counts, strict=True)
        ]

    @property
    def lengths(self) -> list[int]:
        """The bytes of each block."""
        return [count * self._datatype.size for count in self.counts]

    def packed(self) -> np.ndarray:
        """Return the bytes of all blocks: the program's own, if they are dense."""
        if self._is_dense:
            return self._whole.whole()
        return np.concatenate([block.packed() for block in self.blocks]) if self.blocks else np.empty(0, np.uint8)

    def target(self) -> np.ndarray:
        """Return bytes to receive all blocks into, to be given to `fill`."""
        return self._whole.whole() if self._is_dense else np.empty(sum(self.lengths), np.uint8)

    def fill(self, data: np.ndarray, *, but: int = -1) -> None:
        """Put the bytes of `target` where the blocks belong. but: a block that stays as it is."""
        if self._is_dense:
            return
        start = 0
        for rank, (block, length) in enumerate(zip(self.blocks, self.lengths, strict=True)):
            if rank != but:
                block.fill_from(data[start : start + length])
            start += length


@collective()
def Barrier(comm: Comm) -> Perform:
    return comm.native.barrier


@collective()
def Bcast(address: int, count: int, datatype: Datatype, root: int, comm: Comm) -> Perform:
    comm.check_root(root)
    buffer = Buffer(address, count, datatype)

    def perform() -> None:
        if comm.rank == root:
            comm.native.broadcast(buffer.packed(), root)
        else:
            target = buffer.target()
            comm.native.broadcast(target, root)
            buffer.fill(target)

    return perform


@collective(nullable=("sendtype", "recvtype"))
def Allgather(
    source: int, sendcount: int, sendtype: Any, target: int, recvcount: int, recvtype: Any, comm: Comm
) -> Perform:
    return _all_gathered(source, sendcount, sendtype, Blocks(target, [recvcount] * comm.size, recvtype), comm)


@collective(nullable=("sendtype", "recvtype"))
def Allgatherv(
    source: int, sendcount: int, sendtype: Any, target: int, counts: Numbers, displs: Numbers, recvtype: Any, comm: Comm
) -> Perform:
    blocks = Blocks(target, counts.read(comm.size), recvtype, displs.read(comm.size))
    return _all_gathered(source, sendcount, sendtype, blocks, comm)


def _all_gathered(source: int, count: int, datatype: Any, blocks: Blocks, comm: Comm) -> Perform:
    own = blocks.blocks[comm.rank] if source == IN_PLACE else Buffer(source, count, datatype)

    def perform() -> None:
        target = blocks.target()
        comm.native.all_gather_v(own.packed(), recv_counts=blocks.lengths, out=target)
        blocks.fill(target)

    return perform


@collective(nullable=("sendtype", "recvtype"))
def Gather(
    source: int, sendcount: int, sendtype: Any, target: int, recvcount: int, recvtype: Any, root: int, comm: Comm
) -> Perform:
    comm.check_root(root)
    blocks = Blocks(target, [recvcount] * comm.size, recvtype) if comm.rank == root else None
    return _gathered(source, sendcount, sendtype, blocks, root, comm)


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
    size = comm.size
    blocks = Blocks(target, counts.read(size), recvtype, displs.read(size)) if comm.rank == root else None
    return _gathered(source, sendcount, sendtype, blocks, root, comm)


def _gathered(source: int, count: int, datatype: Any, blocks: Blocks | None, root: int, comm: Comm) -> Perform:
    if source == IN_PLACE:
        assert blocks is not None
        own = blocks.blocks[root]
    else:
        own = Buffer(source, count, datatype)

    def perform() -> None:
        if blocks is None:
            comm.native.gather_v(own.packed(), root)
            return
        target = blocks.target()
        comm.native.gather_v(own.packed(), root, recv_counts=blocks.lengths, out=target)
        blocks.fill(target)

    return perform


@collective(nullable=("sendtype", "recvtype"))
def Scatter(
    source: int, sendcount: int, sendtype: Any, target: int, recvcount: int, recvtype: Any, root: int, comm: Comm
) -> Perform:
    comm.check_root(root)
    blocks = Blocks(source, [sendcount] * comm.size, sendtype) if comm.rank == root else None
    return _scattered(blocks, target, recvcount, recvtype, root, comm)


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
    size = comm.size
    blocks = Blocks(source, counts.read(size), sendtype, displs.read(size)) if comm.rank == root else None
    return _scattered(blocks, target, recvcount, recvtype, root, comm)


def _scattered(blocks: Blocks | None, target: int, count: int, datatype: Any, root: int, comm: Comm) -> Perform:
    own = None if target == IN_PLACE else Buffer(target, count, datatype)

    def perform() -> None:
        into = np.empty(blocks.lengths[root], np.uint8) if own is None and blocks else own.target() if own else None
        if blocks is None:
            comm.native.scatter_v(None, root, out=into)
        else:
            comm.native.scatter_v(blocks.packed(), root, send_counts=blocks.lengths, out=into)
        if own is not None:
            own.fill(into)  # type: ignore[arg-type]

    return perform


@collective(nullable=("sendtype", "recvtype"))
def Alltoall(
    source: int, sendcount: int, sendtype: Any, target: int, recvcount: int, recvtype: Any, comm: Comm
) -> Perform:
    given = Blocks(target, [recvcount] * comm.size, recvtype)
    sent = given if source == IN_PLACE else Blocks(source, [sendcount] * comm.size, sendtype)
    return _exchanged(sent, given, comm, in_place=source == IN_PLACE)


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
    size = comm.size
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
    given = Pieces(target, recvcounts, rdispls, recvtypes, comm.size)
    if source == IN_PLACE:
        return _exchanged(given, given, comm, in_place=True)
    return _exchanged(Pieces(source, sendcounts, sdispls, sendtypes, comm.size), given, comm)


class Pieces(Blocks):
    """Blocks of which each has a datatype of its own. displs: in bytes."""

    def __init__(self, address: int, counts: Numbers, displs: Numbers, types: Numbers, size: int):
        self._is_dense = False
        self.blocks = [
            Buffer(address + displ, count, DATATYPE.find(handle))
            for count, displ, handle in zip(counts.read(size), displs.read(size), types.read(size), strict=True)
        ]

    @property
    def lengths(self) -> list[int]:
        return [block.bytes for block in self.blocks]


def _exchanged(sent: Blocks, given: Blocks, comm: Comm, *, in_place: bool = False) -> Perform:
    def perform() -> None:
        source = sent.packed()
        target = np.empty(sum(given.lengths), np.uint8) if in_place else given.target()
        comm.native.all_to_all_v(source, sent.lengths, recv_counts=given.lengths, out=target)
        if in_place:
            start = 0
            for block, length in zip(given.blocks, given.lengths, strict=True):
                block.fill_from(target[start : start + length])
                start += length
        else:
            given.fill(target)

    return perform
