"""A program of 3 ranks: in each call one rank does something else than the others, and all are told what. Before that,
all do the same, and nothing is told. Each call has a communicator of its own, because its group ends with the error.

With the argument `refused`, there is only the call in which the others wait for their limit."""

import queue
import re
import sys
import threading
from functools import partial
from pathlib import Path

import numpy as np
from mpi4py import MPI

sys.path.append(str(Path(__file__).parents[3]))
from tests.support.waiting import until

world = MPI.COMM_WORLD
me, size = world.rank, world.size
odd = wrong = False  # this rank is wrong; some rank is
x, y = np.arange(8.0), np.zeros(8)
many = np.zeros(8 * size)
disagree = (MPI.ERR_OTHER, rf"the ranks disagree.* rank 1 called .* at \S+{re.escape(__file__.split('/')[-1])}:\d+")
apart = MPI.ERR_BUFFER, "what is sent and what is received overlap; pass MPI_IN_PLACE"
of_race = MPI.ERR_OTHER, r"ranks 1, 2 wait for one another: rank 1 in recv\(source=2.*; rank 2 in recv\(source=1"
waiting = (MPI.ERR_OTHER, r"ranks 0, 1, 2 wait for one another: rank 0 in recv\(source=1.*rank 2 in recv\(source=0")


def of_threads(comm):
    """Two threads of a rank are in one collective."""
    errors = queue.SimpleQueue()

    def reduce():
        try:
            comm.Allreduce(x, np.zeros(8))
        except MPI.Exception as error:
            errors.put(error)

    threads = [threading.Thread(target=reduce) for _ in range(1 + wrong)]
    for thread in threads:
        thread.start()
    error = errors.get() if wrong else None
    world.Barrier()  # the others come now
    for thread in threads:
        thread.join()
    if error:
        raise error


def of_one_thread(comm):
    world.Barrier()
    comm.Allreduce(x, np.zeros(8))


def then_met(call):
    """Make a call of few bytes, in which a rank may run ahead, and one in which it learns that the calls differed."""

    def both(comm):
        call(comm)
        comm.Barrier()

    return both


def of_freed_type(comm):
    """The others learn what was refused on the rank that they wait for."""
    datatype = MPI.DOUBLE.Create_contiguous(2).Commit()
    copy = MPI.Datatype(datatype)
    if odd:
        datatype.Free()
    comm.Bcast([x, 1, copy], root=0)
    comm.Barrier()


def sent(comm):
    if me == 0:
        comm.Send(x, 1, 5)
    elif me == 1:
        comm.Recv(y[:2] if odd else y, 0, 5)


def received(comm):
    """All wait for one another if none sends first."""
    if wrong:
        comm.Recv(y, (me + 1) % size)
    comm.Sendrecv(x, (me - 1) % size, recvbuf=y, source=(me + 1) % size)


def raced(comm):
    """The first receive takes the message that the second one waits for; then rank 2 waits for rank 1."""
    if me == 2:
        comm.Send(x, 1)
    world.Barrier()
    if me == 0:
        comm.Send(x, 1)
    elif me == 1:
        comm.Recv(y, MPI.ANY_SOURCE if odd else 0)
        comm.Recv(y, 2)
        comm.Send(x, 2)
    else:
        comm.Recv(y, 1)


#: by name: what is called, what rank 1 is told, and what the others are told, or rank 0 and then rank 2
CASES = {
    "roots": (then_met(lambda comm: comm.Bcast(x, root=int(odd))), disagree, disagree),
    "operators": (lambda comm: comm.Allreduce(x, y, op=MPI.MAX if odd else MPI.SUM), disagree, disagree),
    "counts": (lambda comm: comm.Allreduce(x[: 4 + 4 * odd], y[: 4 + 4 * odd]), disagree, disagree),
    "types": (lambda comm: comm.Allreduce(*((x.view("i8"), y.view("i8")) if odd else (x, y))), disagree, disagree),
    "lengths": (then_met(lambda comm: comm.Bcast(x[: 4 + 4 * odd], root=0)), disagree, disagree),
    "order": (lambda comm: comm.Barrier() if odd else comm.Allreduce(x, y), disagree, disagree),
    "non-blocking": (lambda comm: (comm.Ibarrier() if odd else comm.Iallreduce(x, y)).Wait(), disagree, disagree),
    "objects": (then_met(lambda comm: comm.bcast(7, root=int(odd))), disagree, disagree),
    "split": (lambda comm: comm.Barrier() if odd else comm.Split(0), disagree, disagree),
    "gather": (
        lambda comm: comm.Gatherv(x[: 4 + 4 * odd], [many, [4] * size, None, MPI.DOUBLE] if me == 0 else None),
        *[(MPI.ERR_ARG, "MPI_Gatherv: gather_v #1: rank 0 expects 32 elements from rank 1, which sends 64")] * 2,
    ),
    "window": (
        lambda comm: MPI.Win.Create(None, -3 if odd else 1, comm=comm),
        (MPI.ERR_DISP, "MPI_Win_create: displacement unit -3"),
        (MPI.ERR_DISP, "MPI_Win_create: rank 1: displacement unit -3"),
    ),
    "memory": (
        lambda comm: MPI.Win.Allocate(1 << 50 if odd else 8, comm=comm),
        (MPI.ERR_NO_MEM, "MPI_Win_allocate: the heap is full"),
        (MPI.ERR_NO_MEM, "MPI_Win_allocate: rank 1: the heap is full"),
    ),
    "overlap": (lambda comm: comm.Allreduce(x if wrong else MPI.IN_PLACE, x), apart, apart),
    "a part": (lambda comm: comm.Allgather(many[8 * me : 8 * me + 8] if wrong else x, many), apart, apart),
    "truncation": (
        sent,
        (MPI.ERR_TRUNCATE, "MPI_Recv: the message of rank 0 with tag 5 has 64 bytes, and the receive 16"),
        None,
    ),
    "receives": (received, waiting, waiting),
    "race": (raced, of_race, None, of_race),
    "threads": (
        lambda comm: (of_threads if me == 1 else of_one_thread)(comm),
        (MPI.ERR_OTHER, "is in a collective of the same communicator, called at"),
        None,
    ),
    "refused": (
        of_freed_type,
        (MPI.ERR_TYPE, "MPI_Bcast: handle .*, which was freed, is not a valid MPI_Datatype"),
        (MPI.ERR_OTHER, "rank 1 did not arrive.*rank 1's call of MPI_Bcast at .* was refused: .* which was freed"),
    ),
}


def await_the_others():
    """Wait without a limit until the others have been told."""
    for other in (0, 2):
        until(partial(world.Iprobe, other, 9), pause=0.01)
        world.Recv([None, 0, MPI.BYTE], other, 9)


cases = {name: case for name, case in CASES.items() if (name == "refused") == ("refused" in sys.argv)}
for call, *_ in cases.values():
    comm = world.Dup()
    made = call(comm)
    if isinstance(made, MPI.Win):
        made.Free()
    comm.Free()

odd, wrong = me == 1, True
for name, (call, *told) in cases.items():
    comm = world.Dup()
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    expected = told[0] if odd else told[-1] if me == 2 else told[1]
    try:
        call(comm)
    except MPI.Exception as error:
        assert expected, (name, error)
        said = error.Get_error_class(), error.Get_error_string()
        assert said[0] == expected[0] and re.search(expected[1], said[1]), (name, said, expected)
    else:
        assert expected is None, f"{name}: nothing was told"
    if name == "refused":
        await_the_others() if odd else world.Send([None, 0, MPI.BYTE], 1, 9)
    world.Barrier()
print("all right")
