"""MPICH's functions for programs that go on when a rank has died (ULFM), under `shmrun --on-failure continue`.

A failure ends the group of each communicator in which somebody waits for the rank; `MPIX_Comm_shrink` makes one of the
ranks that are left. An agreement in spite of failures is not there: a program shrinks first, and then reduces.
"""

from functools import partial
from weakref import WeakKeyDictionary

from shmcoll.engine.memory.records import how_failed
from shmcoll.mpi.chapters import groups
from shmcoll.mpi.new_communicators import subset
from shmcoll.mpi.objects.communicators import Comm, Group
from shmcoll.mpi.objects.functions import MAKERS, callback
from shmcoll.mpi.process import PROCESS

_acknowledged: WeakKeyDictionary[Comm, tuple[int, ...]] = WeakKeyDictionary()


def revoke(comm: Comm) -> None:
    comm.abort(f"MPIX_Comm_revoke of {comm.in_words}")


def shrunk(comm: Comm) -> Comm | None:
    comm.check_intra()
    if failed(comm).size and not comm.messages._dispatcher.group.has_ended():
        comm.messages.abort(f"MPIX_Comm_shrink of {comm.in_words}")  # as `shrink` ends the other one
    return subset(comm, comm.native.shrink())


def failed(comm: Comm) -> Group:
    group = comm.native._dispatcher.group
    numbers = PROCESS.known.of(comm.native)
    return groups.made(
        [number for number, rank in zip(numbers, group.ranks, strict=True) if how_failed(group.arena, rank)]
    )


def acknowledge(comm: Comm) -> None:
    _acknowledged[comm] = failed(comm).ranks


def acknowledged(comm: Comm) -> Group:
    return groups.made(_acknowledged.get(comm, ()))


for _name, _function in {
    "revoke": revoke,
    "shrink": shrunk,
    "get_failed": failed,
    "failure_ack": acknowledge,
    "failure_get_acked": acknowledged,
}.items():
    MAKERS[f"MPIX_Comm_{_name}"] = partial(callback, f"MPIX_Comm_{_name}", _function)
