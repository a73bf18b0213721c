"""A sparse exchange without counts: synchronous sends, and a nonblocking barrier by those whose sends have arrived.

Messages must pass the barrier: on ordinary communicators, and on intercommunicators. They must pass other collectives,
too, which wait for a rank that waits for a message.
"""

import sys
from functools import partial

import numpy as np
from mpi4py import MPI

LENGTHS = 1, 3_000, 50_000


def exchanged(comm, sent, tag):
    """Return what has come, by its source. sent: what goes, by its target. No rank knows who sends to it. tag: another
    one each time, because a rank may begin the next exchange before others have seen the end of this one."""
    sends = [comm.Issend(data, target, tag) for target, data in sent.items()]
    came, barrier, status = {}, None, MPI.Status()
    while barrier is None or not barrier.Test():
        if comm.Iprobe(MPI.ANY_SOURCE, tag, status):
            came[status.source] = np.zeros(status.Get_count(MPI.DOUBLE))
            comm.Recv(came[status.source], status.source, tag)
        if barrier is None and MPI.Request.Testall(sends):
            barrier = comm.Ibarrier()
    return came


def check(comm, peers, mine):
    """Exchange with every second peer that follows. mine: of this rank among those of its side."""
    targets = [(mine + step) % peers for step in range(0, peers, 2)]
    for length in LENGTHS:
        came = exchanged(comm, {target: np.arange(length) + 1000.0 * mine for target in targets}, tag=length)
        sources = [rank for rank in range(peers) if (mine - rank) % peers % 2 == 0]
        assert sorted(came) == sources
        for source, data in came.items():
            assert (data == np.arange(length) + 1000.0 * source).all()


def late(comm, begin):
    """One rank has begun a collective. The rank that it sends to joins only when it has the message."""
    data = np.zeros(3)
    if comm.rank == 0:
        request = begin()
        comm.Send(np.arange(3.0), comm.size - 1, tag=1)
        comm.Recv(data, comm.size - 1, tag=2)
    else:
        if comm.rank == comm.size - 1:
            comm.Recv(data, 0, tag=1)
            comm.Isend(data + 1, 0, tag=2).Wait()
        request = begin()
    request.Wait()
    if comm.rank == 0:
        assert data.tolist() == [1, 2, 3]


world = MPI.COMM_WORLD
copy, turned = world.Dup(), world.Split(0, -world.rank)
side = world.Split(world.rank % 2)
inter = side.Create_intercomm(0, world, 1 - world.rank % 2) if world.size > 1 else None
for is_native in (False, True):
    if "shmcoll.mpi" in sys.modules:  # it may be another library
        sys.modules["shmcoll.mpi"].use_native(is_native)
    for comm in (world, copy, turned):
        check(comm, comm.size, comm.rank)
        if comm.size > 1:
            late(comm, comm.Ibarrier)
            total = np.zeros(1)
            late(comm, partial(comm.Iallreduce, np.ones(1), total))
            assert total[0] == comm.size
    if inter:
        check(inter, inter.remote_size, inter.rank)
for comm in filter(None, (inter, side, turned, copy)):
    comm.Free()
if world.rank == 0:
    print("sparse exchange: all have all", flush=True)
