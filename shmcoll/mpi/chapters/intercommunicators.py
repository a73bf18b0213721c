"""MPI's chapter on intercommunicators: two groups whose ranks talk to those of the other group.

The native communicator of one has the ranks of both groups: first those of the group that has the lowest rank of the
job, in the order of the group, then the others. Both sides know both groups, so they agree on that.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from shmcoll.mpi.abi.memory import text_at
from shmcoll.mpi.chapters import groups
from shmcoll.mpi.new_communicators import made, parted
from shmcoll.mpi.objects.communicators import Comm, Group
from shmcoll.mpi.objects.error_handlers import ErrorHandler
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.info import Info
from shmcoll.mpi.process import PROCESS
from shmcoll.startup import beside, greeting


@mpi()
def Comm_test_inter(comm: Comm) -> bool:
    return comm.is_inter


@mpi()
def Comm_remote_size(comm: Comm) -> int:
    return remote(comm).size


@mpi()
def Comm_remote_group(comm: Comm) -> Group:
    return groups.made(remote(comm).ranks)


def remote(comm: Comm) -> Group:
    """Return the group of the other side.

    Raises:
        MPIError: it is not an intercommunicator.
    """
    if comm.remote is None:
        raise MPIError("MPI_ERR_COMM", f"{comm.in_words} is not an intercommunicator")
    return comm.remote


@mpi(nullable=("peer_comm",))
def Intercomm_create(comm: Comm, leader: int, peer: Comm | None, remote_leader: int, tag: int) -> Comm:
    """Let the leaders tell each other their groups, and then their sides. Processes of several jobs join a new one."""
    comm.check_intra()
    comm.check_root(leader)
    other: Any = None
    if comm.rank == leader:
        if peer is None:
            raise MPIError("MPI_ERR_COMM", "the leader passes no communicator that reaches the other leader")
        peer.check_peer(remote_leader)
        to = peer.to_native(remote_leader)
        mine = greeting.hello([PROCESS.known.process(number) for number in comm.group.ranks])
        other = mine, peer.messages.sendrecv_object(mine, to, to, sendtag=tag, recvtag=tag)[0]
    mine, other = comm.native.broadcast_object(other, leader)
    numbers = [PROCESS.known.number(greeting.Process(*one)) for one in other["members"]]
    if max(*numbers, *comm.group.ranks) < PROCESS.world.size:
        return of_groups(comm, numbers, f"MPI_Intercomm_create {tag}")
    return of_jobs(comm, beside.meet(PROCESS.me, mine, other, comm.native.launcher))


@mpi()
def Intercomm_create_from_groups(
    mine: Group,
    leader: int,
    other: Group,
    other_leader: int,
    tag: int,
    info: Info | None,
    errhandler: ErrorHandler,
) -> Comm:
    """Both sides know both groups, so the leaders have nothing to tell."""
    mine.member(leader)
    other.member(other_leader)
    side = Comm(PROCESS.world.native, None, mine)
    comm = of_groups(side, other.ranks, f"MPI_Intercomm_create_from_groups {text_at(tag)}")
    comm.errhandler, comm.info = errhandler, dict(info or {})
    return comm


def of_groups(comm: Comm, other: Sequence[int], name: str) -> Comm:
    """Return the intercommunicator of the ranks of a communicator, and of others of the job. All of them call it."""
    mine = list(comm.group.ranks)
    if set(mine) & set(other):
        raise MPIError("MPI_ERR_GROUP", f"ranks {sorted(set(mine) & set(other))} are in both groups")
    order = [*mine, *other] if min(mine) < min(other) else [*other, *mine]
    with PROCESS.world.native.subgroup(sorted(order), name=f"{name} {order}") as both:
        native = parted(both, 0, order.index(PROCESS.rank))
    return with_sides(comm, native, mine, list(other), first=order[0] == mine[0])


def of_jobs(comm: Comm, joined: beside.Joined) -> Comm:
    """Return the intercommunicator of a communicator and others that have joined a job together."""
    PROCESS.known.enter(joined)
    numbers, size = PROCESS.known.of(joined.world), comm.size
    mine, other = (numbers[:size], numbers[size:]) if joined.first else (numbers[-size:], numbers[:-size])
    return with_sides(comm, joined.world, mine, other, first=joined.first)


def with_sides(comm: Comm, native: Any, mine: Sequence[int], other: Sequence[int], *, first: bool) -> Comm:
    """Return an intercommunicator. first: whether this side's ranks are the first of the native communicator."""
    return made(native, Group(mine), comm, remote=Group(other), offset=0 if first else len(other))


@mpi()
def Intercomm_merge(comm: Comm, high: int) -> Comm:
    """Put the side that passes 0 first; if both pass the same, the one that is first in the native communicator."""
    other = remote(comm)
    told = comm.native.all_gather(np.array([bool(high)])).tolist()
    sides = [comm.group.ranks, other.ranks] if comm.offset == 0 else [other.ranks, comm.group.ranks]
    highs = [told[0], told[len(sides[0])]]
    ranks = [*sides[1], *sides[0]] if highs == [True, False] else [*sides[0], *sides[1]]
    return made(parted(comm.native, 0, ranks.index(PROCESS.rank)), Group(ranks), comm)


def split(comm: Comm, color: int | None, key: int) -> Comm | None:
    """Return the intercommunicator of the ranks of one color on both sides; None if a side has none."""
    remote(comm)
    told = comm.native.all_gather(np.array([[color is not None, color or 0, key]], np.int64)).tolist()
    mine, other = _members(comm, lambda rank: told[rank][:2] == [1, color], lambda rank: told[rank][2])
    return _narrowed(comm, mine, other, 0 if color is None else color)


def create(comm: Comm, group: Group) -> Comm | None:
    """Return the intercommunicator of a group of each side; None if one is empty, or on ranks outside of them."""
    remote(comm)
    told = comm.native.all_gather(np.array([group.place(PROCESS.rank)])).tolist()
    mine, other = _members(comm, lambda rank: told[rank] >= 0, lambda rank: told[rank])
    return _narrowed(comm, mine, other, 0)


def _members(comm: Comm, belongs: Any, key: Any) -> tuple[list[int], list[int]]:
    """Return the chosen ranks of this side and of the other one, in their order, as ranks of the native one."""
    here = range(comm.offset, comm.offset + comm.size)
    there = [rank for rank in range(comm.native.size) if rank not in here]
    mine, other = (sorted(filter(belongs, side), key=key) for side in (here, there))
    return mine, other


def _narrowed(comm: Comm, mine: list[int], other: list[int], color: int) -> Comm | None:
    first = comm.offset == 0
    order = [*mine, *other] if first else [*other, *mine]
    joins = comm.native.rank in mine and bool(mine) and bool(other)
    native = parted(comm.native, color if joins else None, order.index(comm.native.rank) if joins else 0)
    if native is None:
        return None
    numbers = PROCESS.known.of(comm.native)
    sides = [[numbers[rank] for rank in side] for side in (mine, other)]
    return with_sides(comm, native, *sides, first=first)
