"""Groups of ranks on several nodes: split, subgroup, close.

The members of a new group agree on a number for it: the largest of the numbers that each of them has free. Its tags
follow from that (`wire.py`), so MPI makes no communicator. The members of one node make a group in their arena.

A group whose members are all on one node is a communicator of that node, as on one machine.
"""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.errors import CallNotAllowed
from shmcoll.nodes.wire import SUBGROUP, Pending, as_bytes

if TYPE_CHECKING:
    from shmcoll.communicator import Communicator
    from shmcoll.nodes.communicator import NodesCommunicator


def split(comm: "NodesCommunicator", call: str, mine: tuple[bool, int, int]) -> "Communicator | None":
    """Return the group of the ranks of one color. mine: whether this rank joins a group, its color and its key."""
    job = comm._job
    with comm._parts(call) as parts:
        free = job.free_number()
        told = parts.all_gather(np.array([[*mine, free]], np.int64)).tolist()
    comm._splits += 1
    number = max(one[3] for one in told)
    job.take_number(number)
    if not mine[0]:
        return None
    members = [rank for rank in range(comm.size) if told[rank][:2] == [1, mine[1]]]
    members.sort(key=lambda rank: told[rank][2])
    # Groups of different colors have different ranks: they may share a number
    return job.make(comm, members, number, f"{call} {comm._splits}")


def subgroup(comm: "NodesCommunicator", ranks: Iterable[SupportsIndex], name: str) -> "Communicator":
    """Return the group of some ranks. Only its members call it."""
    d = comm._dispatcher
    with d.checking("subgroup") as check:
        if not isinstance(ranks, (Iterable, np.ndarray)) or isinstance(ranks, str):
            raise TypeError(f"subgroup on rank {check[1]}: ranks must be a sequence, got {type(ranks).__name__}")
        if not isinstance(name, str):
            raise TypeError(f"subgroup on rank {check[1]}: name must be a string, got {type(name).__name__}")
        members = sorted(given.as_peer(rank, "rank", comm.size, *check) for rank in ranks)
        if comm.rank not in members or len(set(members)) != len(members):
            raise ValueError(
                f"subgroup on rank {check[1]}: ranks {members} must be different and hold this rank; only members call "
                f"it"
            )
    d.check_rank("subgroup")
    known = comm._job.subgroups.get((d.channel.number, tuple(members), name))
    if known is not None:
        return known
    number = d.worker.turns.run(lambda: _agree_on_number(comm, members), "subgroup")
    made = comm._job.make(comm, members, number, f"subgroup {name} {number}")
    comm._job.subgroups[d.channel.number, tuple(members), name] = made
    return made


def _agree_on_number(comm: "NodesCommunicator", members: list[int]) -> int:
    """Return the largest of the members' free numbers: the first member asks the others, and answers them."""
    d, job = comm._dispatcher, comm._job
    d.operation, before = "subgroup", d.operation
    try:
        free = np.array([job.free_number()], np.int64)
        first, pending = members[0], Pending(d.channel)
        if comm.rank == first:
            told = np.empty((len(members), 1), np.int64)
            told[0] = free
            for row, rank in zip(told[1:], members[1:], strict=True):
                pending.recv(as_bytes(row), rank, SUBGROUP)
            d.wait(pending)
            free = told.max(axis=0)
            pending = Pending(d.channel)
            for rank in members[1:]:
                pending.send(as_bytes(free), rank, SUBGROUP)
            d.wait(pending)
        else:
            pending.send(as_bytes(free), first, SUBGROUP)
            answer = np.empty(1, np.int64)
            pending.recv(as_bytes(answer), first, SUBGROUP)
            d.wait(pending)
            free = answer
        number = int(free[0])
        job.take_number(number)
        return number
    finally:
        d.operation = before


def close(comm: Any) -> None:
    """Leave a group."""
    if comm._is_closed or comm._dispatcher._pid != os.getpid():
        return
    if comm is comm._job.world:
        raise ValueError("close: the group of all ranks is closed by the end of the process")
    with comm._closing:
        if comm._is_closed:
            return
        if comm._dispatcher.worker.turns.is_within():
            raise CallNotAllowed("close: called by a signal handler or finaliser during another call of this group")
        comm._dispatcher.finish()
        comm._is_closed = True
        comm._job.forget(comm)
        comm._dispatcher.inner.close()
