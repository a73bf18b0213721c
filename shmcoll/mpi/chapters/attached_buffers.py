"""MPI's chapter on messages: buffers that a program attaches for MPI_Bsend.

A send here keeps its message in shared memory, so these buffers are not used. What MPI says of them holds: each is
attached once, and is returned when it is detached; then all its messages have been sent.
"""

import ctypes
from typing import Any

from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.abi.memory import Numbers
from shmcoll.mpi.objects.errors import MPIError
from shmcoll.mpi.objects.functions import mpi
from shmcoll.mpi.objects.requests import WorkRequest, added
from shmcoll.mpi.process import PROCESS

AUTOMATIC = (1 << 64) + c["MPI_BUFFER_AUTOMATIC"]  # as an address
_POINTER = ctypes.c_size_t

#: address and length, by the object that the buffer is attached to; the process itself is None
_attached: dict[Any, tuple[int, int]] = {}


def attach(owner: Any, address: int, size: int) -> None:
    if owner in _attached:
        raise MPIError("MPI_ERR_BUFFER", "a buffer is attached already; detach it first")
    if size < 0:
        raise MPIError("MPI_ERR_ARG", f"size {size} is negative")
    _attached[owner] = address, size


def detach(owner: Any, place: int) -> int:
    where = Numbers(_POINTER, place, "buffer_addr")
    address, size = _attached.get(owner, (0, 0))
    where.value = address
    _attached.pop(owner, None)
    return 0 if address == AUTOMATIC else size


def _functions(prefix: str) -> None:
    """Register the functions for buffers of communicators or sessions."""

    @mpi(name=f"{prefix}_attach_buffer")
    def attach_to(obj: Any, address: int, size: int) -> None:
        attach(obj, address, size)

    @mpi(name=f"{prefix}_detach_buffer")
    def detach_from(obj: Any, place: int) -> int:
        return detach(obj, place)

    @mpi(name=f"{prefix}_flush_buffer")
    def flush(_obj: Any) -> None:
        """Nothing is in a buffer."""

    @mpi(name=f"{prefix}_iflush_buffer")
    def iflush(_obj: Any) -> Any:
        return added(WorkRequest(PROCESS.world, None))


for _prefix in ("Comm", "Session"):
    _functions(_prefix)


@mpi()
def Buffer_attach(address: int, size: int) -> None:
    attach(None, address, size)


@mpi()
def Buffer_detach(place: int) -> int:
    return detach(None, place)


@mpi()
def Buffer_flush() -> None:
    """Nothing is in a buffer."""


@mpi()
def Buffer_iflush() -> Any:
    return added(WorkRequest(PROCESS.world, None))
