"""Communicators that come from another one."""

from typing import Any

from shmcoll.mpi.objects.communicators import Comm, Group
from shmcoll.mpi.objects.handles import COMM
from shmcoll.mpi.process import PROCESS


def parted(native: Any, color: int | None, key: int) -> Any:
    """Return the communicator of shmcoll of the ranks that pass this color, with its group for messages; None for no
    color."""
    return native._split("split", (color is not None, color or 0, key), messages=True)


def copied(native: Any) -> Any:
    """Return a communicator of shmcoll of the same ranks, with its group for messages."""
    return native._split("dup", (True, 0, native.rank), messages=True)


def made(native: Any, group: Group, parent: Comm, *, remote: Group | None = None, offset: int = 0) -> Comm:
    """Return a new communicator. It has the error handler of the one that it comes from."""
    comm = Comm(native, native._for_messages(), group, remote=remote, offset=offset)
    comm.errhandler = parent.errhandler
    COMM.add(comm)
    return comm


def duplicate(comm: Comm, native: Any) -> Comm:
    """Return a copy of a communicator: with its attributes, its topology and its hints."""
    attributes = comm.attributes.copied(comm)
    copy = made(native, comm.group, comm, remote=comm.remote, offset=comm.offset)
    copy.attributes, copy.topology, copy.info = attributes, comm.topology, dict(comm.info)
    return copy


def subset(comm: Comm, native: Any) -> Comm | None:
    """Return the communicator of ranks of another one that have made a communicator of shmcoll together."""
    if native is None:
        return None
    return made(native, Group(PROCESS.known.of(native)), comm)
