"""Messages that a probe has taken, until they are received."""

from typing import Any

import numpy as np

from shmcoll.mpi.abi.facts import CONSTANTS as c
from shmcoll.mpi.objects.buffers import Buffer
from shmcoll.mpi.objects.communicators import Comm
from shmcoll.mpi.objects.handles import MESSAGE
from shmcoll.mpi.objects.requests import truncated
from shmcoll.mpi.objects.status import Status

NO_PROC = Status(c["MPI_PROC_NULL"], c["MPI_ANY_TAG"])


def status_of(envelope: Any, comm: Comm) -> Status:
    source, tag, _, shape = envelope
    return Status(comm.from_native(source), tag, 0, int(np.prod(shape)))


class Matched:
    """A message that a probe has taken. native: of shmcoll; None for one of nobody."""

    handle = MESSAGE.null

    def __init__(self, comm: Comm, native: Any):
        self.comm, self._native = comm, native
        self.errhandler = comm.errhandler

    @property
    def status(self) -> Status:
        return NO_PROC if self._native is None else status_of(self._native.envelope, self.comm)

    def receive(self, buffer: Buffer) -> Status:
        if self._native is None:
            return NO_PROC
        if self.status.bytes > buffer.bytes:
            raise truncated(buffer, self._native.envelope, self.comm)
        target = buffer.target()
        buffer.fill(self._native.recv(target[: self.status.bytes]))
        return self.status
