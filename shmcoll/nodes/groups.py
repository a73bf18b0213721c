"""Groups of ranks on several nodes: split, subgroup, close.

The members of a new group agree on a number for it: the largest of the numbers that each of them has free. Its tags
follow from that (`wire.py`), so MPI makes no communicator. The members of one node make a group in their arena.

A group whose members are all on one node is a communicator of that node, as on one machine.
"""

import contextlib
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from shmcoll.calls import arguments as given
from shmcoll.engine.memory.node_words import SUBGROUP
from shmcoll.errors import CallNotAllowed, CollectiveMismatch
from shmcoll.nodes.mpi import wire
from shmcoll.nodes.mpi.wire import Pending, as_bytes
from shmcoll.runtime.group_directory import identity

if TYPE_CHECKING:
    from shmcoll.communicator import Communicator


def split(comm: Any, call: str, mine: tuple[bool, int, int]) -> "Communicator | None":
    """Return the group of the ranks of one color. mine: whether this rank joins a group, its color and its key."""
    job = comm._job
    made: Communicator | None = None

    def make(parts: Any) -> None:
        nonlocal made
        entries = parts.all_gather(np.array([[*mine, job.free_number()]], np.int64)).tolist()
        comm._splits += 1
        number = max(one[3] for one in entries)
        job.take_number(number)
        if mine[0]:
            members = [rank for rank in range(comm.size) if entries[rank][:2] == [1, mine[1]]]
            members.sort(key=lambda rank: entries[rank][2])
            # Groups of different colors have different ranks: they may share a number
            made = job.make(comm, members, number, call, f"{comm._splits}")

    try:
        comm._compose(call, make)
        return made
    except BaseException as error:
        if made is not None:
            made._close_because(call, error)
        raise


def subgroup(comm: Any, ranks: Iterable[SupportsIndex], name: str) -> "Communicator":
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
    if known is not None and not known._is_closed:  # a group within a node closes by itself
        return known
    number = d.worker.turns.run(lambda: _agree_on_number(comm, members, name), "subgroup")
    made = None
    try:
        made = comm._job.make(comm, members, number, "subgroup", f"{name} {number}")
        comm._job.subgroups[d.channel.number, tuple(members), name] = made
        return made
    except BaseException as error:
        if made is not None:
            made._close_because("subgroup", error)
        if not getattr(error, "is_common", False):
            d.left("subgroup")
        raise


def _agree_on_number(comm: Any, members: list[int], name: str) -> int:
    """Return the largest of the members' free numbers: all tell the first one, which answers all. A member that makes
    another group at the same time is a mismatch."""
    d, job = comm._dispatcher, comm._job
    outer, d.operation = d.operation, "subgroup"
    d.recorder.begin(SUBGROUP, d.agreement.sequence)
    try:
        d.failures.raise_if_ended("subgroup")
        own = np.array([identity(tuple(members), name)[0], job.free_number()], np.int64)
        entries = np.tile(own, (len(members), 1))
        pending, first = Pending(d.channel), members[0]
        if comm.rank == first:
            for row, rank in zip(entries[1:], members[1:], strict=True):
                pending.recv(as_bytes(row), rank, wire.SUBGROUP)
            d.wait(pending)
            answer = entries.max(axis=0)
            answer[0] = own[0] if (entries[:, 0] == own[0]).all() else 0
            pending = Pending(d.channel)
            for rank in members[1:]:
                pending.send(as_bytes(answer), rank, wire.SUBGROUP)
        else:
            pending.send(as_bytes(own), first, wire.SUBGROUP)
            pending.recv(as_bytes(entries[0]), first, wire.SUBGROUP)
        d.wait(pending)
        others = [rank for rank, row in zip(members, entries, strict=True) if row[0] != own[0]]
        if others:
            who = ", ".join(map(d.topology.describe, others))
            text = (
                f"subgroup: {d.topology.describe(d.rank)} makes the group of ranks {members}, name={name!r}, and {who} "
            )
            d.failures.end(CollectiveMismatch, f"{text}makes another one at the same time")
            d.failures.raise_if_ended("subgroup")
        number = int(entries[:, 1].max())
        job.take_number(number)
        return number
    except BaseException:
        d.left("subgroup")
        raise
    finally:
        d.operation = outer
        d.recorder.end()


def close(comm: Any) -> None:
    """Leave a group."""
    if comm._is_closed or comm._dispatcher.local_rank.pid != os.getpid():
        return
    if comm._is_world():
        raise ValueError("close: the group of all ranks is closed by the end of the process; leave this call out")
    with comm._closing:
        if comm._is_closed:
            return
        if comm._dispatcher.worker.turns.is_within():
            raise CallNotAllowed("close: called by a signal handler or finaliser during another call of this group")
        comm._dispatcher.finish()
        comm._is_closed = True
        comm._job.forget(comm)
        for one in (comm._dispatcher.inner, comm._dispatcher.within, comm.node):
            one.close()
        if comm.mpi_comm is not None and comm.shrinking is None:
            with contextlib.suppress(comm._job.wire.mpi.Exception):  # a member may have died
                comm.mpi_comm.Free()
