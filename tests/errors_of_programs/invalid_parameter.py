"""An argument that one call alone shows to be wrong."""

from typing import Any

import numpy as np

import shmcoll
from tests.errors_of_programs.programs import X, is_odd, program

KIND = "invalid parameter"


def refused(call: str) -> tuple[type[BaseException], str]:
    """What the others are told of a call that was refused on rank 1, which then gave up."""
    return shmcoll.RankFailed, rf"rank 1 has closed the group.*rank 1's call of {call} at HERE was refused"


@program(KIND, odd=(ValueError, "broadcast on rank 1: root 9 is not a rank of this group"), others=refused("broadcast"))
def invalid_root(comm: Any, wrong: bool) -> None:
    comm.broadcast(X, root=9 if is_odd(comm, wrong) else 0)
    comm.barrier()


@program(KIND, odd=(ValueError, "all_reduce on rank 1: unknown op 'average'.*'avg'"), others=refused("all_reduce"))
def invalid_operator(comm: Any, wrong: bool) -> None:
    comm.all_reduce(X, "average" if is_odd(comm, wrong) else "avg")


@program(KIND, odd=(TypeError, "all_reduce on rank 1: dtype <U1 cannot be reduced"), others=refused("all_reduce"))
def invalid_datatype(comm: Any, wrong: bool) -> None:
    comm.all_reduce(np.full(8, "a") if is_odd(comm, wrong) else X)


@program(KIND, odd=(ValueError, "all_reduce on rank 1: out .*shape"), others=refused("all_reduce"))
def invalid_out(comm: Any, wrong: bool) -> None:
    comm.all_reduce(X, out=np.empty(7 if is_odd(comm, wrong) else 8))


@program(KIND, odd=(ValueError, "all_gather on rank 1: out is read-only"), others=refused("all_gather"))
def invalid_buffer(comm: Any, wrong: bool) -> None:
    out = np.empty(24)
    out.flags.writeable = not is_odd(comm, wrong)
    comm.all_gather(X, out=out)


@program(KIND, odd=(ValueError, "all_to_all_v on rank 1: .*counts"), others=refused("all_to_all_v"))
def invalid_counts(comm: Any, wrong: bool) -> None:
    comm.all_to_all_v(X[:6], [2, 2, -2 if is_odd(comm, wrong) else 2], [2, 2, 2])


@program(KIND, odd=(ValueError, "send on rank 1: dest 7 is not a rank of this group of 3"))
def invalid_destination(comm: Any, wrong: bool) -> None:
    if comm.rank == 1:
        comm.send(X, 7 if wrong else 0)
    elif comm.rank == 0 and not wrong:
        comm.recv(source=1)


@program(KIND, odd=(ValueError, r"recv on rank 1: source -7 is not a rank"))
def invalid_source(comm: Any, wrong: bool) -> None:
    if comm.rank == 1:
        comm.recv(source=-7 if wrong else 0)
    elif comm.rank == 0 and not wrong:
        comm.send(X, 1)


@program(KIND, odd=(ValueError, "send on rank 1: tag -5 is out of range"))
def invalid_tag(comm: Any, wrong: bool) -> None:
    if comm.rank == 1:
        comm.send(X, 0, -5 if wrong else 5)
    elif comm.rank == 0 and not wrong:
        comm.recv(source=1)


@program(KIND, ranks={2: (ValueError, r"subgroup on rank 2: ranks \[0, 1\] must be different and hold this rank")})
def invalid_group(comm: Any, wrong: bool) -> None:
    if wrong or comm.rank < 2:
        comm.subgroup([0, 1]).close()


@program(KIND, everyone=(shmcoll.CallNotAllowed, "barrier on rank [012]: this communicator is closed"))
def invalid_communicator(comm: Any, wrong: bool) -> None:
    if wrong:
        comm.close()
    comm.barrier()


@program(KIND, everyone=(ValueError, "views: the array of rank 1 was not made by comm.empty"))
def invalid_shared_array(comm: Any, wrong: bool) -> None:
    comm.views(X if is_odd(comm, wrong) else comm.zeros(8))
