"""Arguments that do not match those of another rank."""

from typing import Any

import numpy as np

import shmcoll
from shmcoll.errors import CollectiveMismatch, Deadlock
from tests.errors_of_programs.programs import X, is_odd, program

KIND = "parameter matching"


#: a message that does not fit keeps its receiver waiting, and the others, too
BARRIER_AND_RECEIVE = (
    Deadlock,
    r"ranks 0, 1 wait for one another: rank 0 in barrier #1 at HERE; rank 1 in recv\(source=0, tag=4\) at HERE "
    r"\(waiting to be received: from rank 0: 1 with tag 3\)",
)


def disagree(odd: str) -> tuple[type[BaseException], str]:
    """What all ranks are told if rank 1 makes another call."""
    return CollectiveMismatch, rf"the ranks disagree in operation #\d+:.*rank 1 called {odd} at HERE"


@program(KIND, everyone=disagree(r"broadcast\(float64\[8\], root=1\)"))
def root(comm: Any, wrong: bool) -> None:
    comm.broadcast(X, root=int(is_odd(comm, wrong)))
    comm.barrier()  # ranks that have run ahead learn of it here


@program(KIND, everyone=disagree(r"reduce\(float64\[8\], sum, root=1\)"))
def root_of_a_reduction(comm: Any, wrong: bool) -> None:
    comm.reduce(X, root=int(is_odd(comm, wrong)))
    comm.barrier()


@program(KIND, everyone=disagree(r"all_reduce\(float64\[8\], max\)"))
def operator(comm: Any, wrong: bool) -> None:
    comm.all_reduce(X, "max" if is_odd(comm, wrong) else "sum")


@program(KIND, everyone=disagree(r"all_reduce\(int64\[8\], sum\)"))
def datatype(comm: Any, wrong: bool) -> None:
    comm.all_reduce(X.astype(int) if is_odd(comm, wrong) else X)


@program(KIND, everyone=disagree(r"all_gather\(float64\[7\]\)"))
def count(comm: Any, wrong: bool) -> None:
    comm.all_gather(X[: 7 if is_odd(comm, wrong) else 8])


@program(KIND, everyone=disagree(r"all_reduce\(float64\[8\], sum, algorithm=flat\)"))
def algorithm(comm: Any, wrong: bool) -> None:
    comm.all_reduce(X, algorithm="flat" if is_odd(comm, wrong) else None)


@program(KIND, everyone=(ValueError, r"gather_v #\d+: rank 0 expects 2 elements from rank 1, which sends 4"))
def counts_of_the_root(comm: Any, wrong: bool) -> None:
    comm.gather_v(X[: 4 if is_odd(comm, wrong) else 2], recv_counts=[2, 2, 2] if comm.rank == 0 else None)


@program(KIND, everyone=(ValueError, r"all_to_all_v #\d+: rank [02] expects 2 elements from rank 1, which sends 1"))
def counts_of_a_table(comm: Any, wrong: bool) -> None:
    comm.all_to_all_v(X[:6], [1, 4, 1] if is_odd(comm, wrong) else [2, 2, 2], recv_counts=[2, 2, 2])


@program(KIND, everyone=(CollectiveMismatch, "the ranks disagree.*rank 1 called collective_permute.* at HERE"))
def pairs(comm: Any, wrong: bool) -> None:
    comm.collective_permute(X, [(1, 0)] if is_odd(comm, wrong) else [(0, 1)])


@program(
    KIND,
    ranks=dict.fromkeys((0, 1), BARRIER_AND_RECEIVE) | {2: (shmcoll.RankFailed, BARRIER_AND_RECEIVE[1])},
)
def tag(comm: Any, wrong: bool) -> None:
    if comm.rank == 0:
        comm.send(X, 1, tag=3)
    elif comm.rank == 1:
        comm.recv(source=0, tag=4 if wrong else 3)
    comm.barrier()


@program(
    KIND,
    ranks={
        1: (TypeError, r"recv\(source=0.* on rank 1: the next message, from rank 0 with tag 0, has 8 x float64, out")
    },
    lines=("rank 1.*: messages were never received: from rank 0: 1 with tag 0",),
)
def datatype_of_a_message(comm: Any, wrong: bool) -> None:
    if comm.rank == 0:
        comm.send(X, 1)
    elif comm.rank == 1:
        comm.recv(np.empty(8, int if wrong else float), source=0)


@program(
    KIND,
    ranks={1: (ValueError, "recv.* on rank 1: the next message, from rank 0 .* 8 x float64, out has room for 4 x")},
    lines=("rank 1.*: messages were never received: from rank 0: 1 with tag 0",),
)
def count_of_a_message(comm: Any, wrong: bool) -> None:
    if comm.rank == 0:
        comm.send(X, 1)
    elif comm.rank == 1:
        comm.recv(np.empty(4 if wrong else 8), source=0)


@program(
    KIND,
    ranks={1: (TypeError, "recv.* on rank 1: the next message, from rank 0 with tag 0, is an object")},
    lines=("rank 1.*: messages were never received: from rank 0: 1 with tag 0",),
)
def kind_of_a_message(comm: Any, wrong: bool) -> None:
    if comm.rank == 0:
        comm.send_object("text", 1)
    elif comm.rank == 1:
        comm.recv(source=0) if wrong else comm.recv_object(source=0)


@program(
    KIND,
    odd=(shmcoll.RankFailed, r"recv\(source=0, tag=ANY\) on rank 1.*rank 0 has closed the group at HERE"),
    lines=("rank 1.*: messages were never received: from rank 0: 1 with tag 0",),
)
def communicator_of_a_message(comm: Any, wrong: bool) -> None:
    with comm.dup() as other:
        if comm.rank == 0:
            comm.send(X, 1)
        elif comm.rank == 1:
            (other if wrong else comm).recv(source=0)
