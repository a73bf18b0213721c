"""A program for `shmrun -n 2 --mpi`: processes that come later. Children are this file again, with an argument."""

import socket
import sys
from pathlib import Path

import numpy as np
from mpi4py import MPI

world, alone = MPI.COMM_WORLD, MPI.COMM_SELF
LONG = 1 << 17


def talk(comm: MPI.Intercomm, *, high: bool) -> None:
    """What both sides of an intercommunicator of 2 and 2 ranks call. high: whether this side comes last when merged."""
    rank, base = comm.rank, 100 * high
    told = comm.allgather((base + rank, "x" * rank))
    assert told == [(100 * (not high) + one, "x" * one) for one in range(2)], told
    total = np.zeros(3)
    comm.Allreduce(np.full(3, base + rank + 1.0), total)
    assert total.tolist() == [3.0 if high else 203.0] * 3, total
    given = np.empty(LONG)
    request = comm.Isend(np.full(LONG, float(base + rank)), 1 - rank, tag=7)
    comm.Recv(given, 1 - rank, tag=7)
    request.Wait()
    assert (given == 100 * (not high) + 1 - rank).all()
    merged = comm.Merge(high=high)
    assert merged.rank == rank + 2 * high and merged.size == 4
    assert merged.allreduce(merged.rank) == 6
    group = merged.Get_group()
    mine = comm.Get_group()
    theirs = comm.Get_remote_group()
    assert MPI.Group.Translate_ranks(theirs, [0, 1], group) == ([0, 1] if high else [2, 3])
    assert MPI.Group.Compare(MPI.Group.Union(*((theirs, mine) if high else (mine, theirs))), group) == MPI.IDENT
    pairs = merged.Split(merged.rank % 2, merged.rank)
    assert pairs.allgather(merged.rank) == [merged.rank % 2, merged.rank % 2 + 2]
    again = merged.Create_group(group.Incl([3, 0])) if merged.rank in (0, 3) else MPI.COMM_NULL
    if again:
        assert again.allgather(merged.rank) == [3, 0]
        again.Free()
    # Two groups of processes of both jobs, and the leaders reach each other
    crossed = pairs.Create_intercomm(0, merged, 1 - merged.rank % 2, 3)
    assert crossed.allgather(merged.rank) == [1 - merged.rank % 2, 3 - merged.rank % 2]
    win = MPI.Win.Allocate(8, 8, comm=merged)
    win.Fence()
    win.Put(np.array([merged.rank], np.int64), (merged.rank + 1) % 4)
    win.Fence()
    assert np.frombuffer(win.tomemory(), np.int64)[0] == (merged.rank - 1) % 4
    win.Free()
    for one in (crossed, pairs, merged):
        one.Free()


def parents() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    codes: list[int] = []
    child = world.Spawn(sys.executable, [__file__, "child"], 2, errcodes=codes)
    assert codes == [MPI.SUCCESS] * 2 and child.Get_remote_size() == 2
    assert MPI.Comm.Get_parent() == MPI.COMM_NULL and world.Get_attr(MPI.APPNUM) == 0
    assert world.Get_attr(MPI.UNIVERSE_SIZE) >= 2
    talk(child, high=False)
    child.Disconnect()
    assert child == MPI.COMM_NULL
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1, "a job that was left has descriptors"

    hints = MPI.Info.Create({"wdir": "/"})
    commands = [sys.executable, Path(__file__).name], [[__file__, "where"], ["where"]]
    here = MPI.Info.Create({"path": str(Path(__file__).parent)})
    child = world.Spawn_multiple(*commands, [1, 2], [hints, here])
    if world.rank == 0:
        told = [child.recv(source=i) for i in range(3)]
        assert told == [(0, "/"), (1, str(Path.cwd())), (1, str(Path.cwd()))], told
    child.Disconnect()


def ports() -> None:
    if world.rank == 0:
        port = MPI.Open_port()
        MPI.Publish_name("tests of shmcoll", port)
        world.Barrier()
        comm = alone.Accept(port)
        assert comm.sendrecv("left", 0, source=0) == "right"
        MPI.Unpublish_name("tests of shmcoll", port)
        MPI.Close_port(port)
        world.send(port, 1)
    else:
        world.Barrier()
        comm = alone.Connect(MPI.Lookup_name("tests of shmcoll"))
        assert comm.sendrecv("right", 0, source=0) == "left"
        port = world.recv(source=0)
    comm.Disconnect()
    refused(MPI.ERR_PORT, "is closed", lambda: world.Connect(port, root=1))
    refused(MPI.ERR_PORT, "no open port", lambda: world.Accept("shmcoll:0", root=1))
    refused(MPI.ERR_NAME, "is not published", lambda: MPI.Lookup_name("tests of shmcoll"))
    if world.rank == 0:
        with socket.create_server(("127.0.0.1", 0)) as server:
            world.send(server.getsockname(), 1)
            line = server.accept()[0]
    else:
        line = socket.create_connection(world.recv(source=0))
    with line:
        comm = MPI.Comm.Join(line.fileno())
        assert comm.sendrecv(world.rank, 0, source=0) == 1 - world.rank
        comm.Disconnect()
        line.sendall(b"quiet")
        assert line.recv(5, socket.MSG_WAITALL) == b"quiet"


def refused(error_class: int, words: str, call) -> None:
    try:
        call()
    except MPI.Exception as error:
        assert error.Get_error_class() == error_class, error
        assert words in str(error), error
    else:
        raise AssertionError(f"{words}: no error")


def mistakes() -> None:
    refused(MPI.ERR_SPAWN, "no such program: './missing'", lambda: world.Spawn("./missing", maxprocs=2, root=1))
    refused(MPI.ERR_ARG, "maxprocs must be 1 or more", lambda: alone.Spawn("x", maxprocs=0))
    assert world.allreduce(1) == 2


parent = MPI.Comm.Get_parent()
if not parent:
    parents()
    ports()
    mistakes()
    print("all right")
elif sys.argv[1] == "child":
    talk(parent, high=True)
    parent.Disconnect()
    assert MPI.Comm.Get_parent() == MPI.COMM_NULL
else:
    parent.send((world.Get_attr(MPI.APPNUM), str(Path.cwd())), 0)
    parent.Disconnect()
